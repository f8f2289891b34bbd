"""The skill discoverer: the policy of every agent given its skill, with a critic of the whole team."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from echelon.hmasd.networks.attention import HIDDEN_GAIN, OUTPUT_GAIN, orthogonal
from echelon.hmasd.networks.sizes import Sizes, one_hot
from echelon.onpolicy.chunks import Chunks
from echelon.onpolicy.distributions import MaskedCategorical, SquashedNormal, invert
from echelon.onpolicy.loss import Evaluation
from echelon.onpolicy.recurrent import run_gru


class Trunk(nn.Module):
    """Numbers -> MLP -> GRU -> MLP -> outputs; without `recurrent` the GRU is a plain layer.

    The last layer starts small: an untrained critic with large outputs would drive all skills to a few places,
    long before the discriminators can distinguish skills.
    """

    def __init__(self, inputs: int, width: int, outputs: int, recurrent: bool) -> None:
        super().__init__()
        self.before = nn.Sequential(
            orthogonal(nn.Linear(inputs, width), HIDDEN_GAIN),
            nn.ReLU(),
            nn.LayerNorm(width),
            orthogonal(nn.Linear(width, width), HIDDEN_GAIN),
            nn.ReLU(),
        )
        self.gru = _gru(width) if recurrent else None
        self.after = nn.Sequential(
            nn.LayerNorm(width),
            orthogonal(nn.Linear(width, width), HIDDEN_GAIN),
            nn.ReLU(),
            orthogonal(nn.Linear(width, outputs), OUTPUT_GAIN),
        )

    def forward(self, x: Tensor, memory: Tensor, reset: Tensor) -> Tensor:
        """Outputs (L, M, ...) of inputs (L, M, F), in sequence along L from the memory (M, H)."""
        x = self.before(x)
        if self.gru is not None:
            x, _ = run_gru(self.gru, x, memory, reset)
        out: Tensor = self.after(x)
        return out

    def step(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """One step, (M, F) -> (M, ...) and the new memory; the caller has zeroed memory where an episode starts."""
        x = self.before(x)
        if self.gru is not None:
            x = memory = torch.gru_cell(x, memory, *self.gru.parameters())
        return self.after(x), memory


def _gru(width: int) -> nn.GRU:
    gru = nn.GRU(width, width)
    for name, parameter in gru.named_parameters():
        if "weight" in name:
            nn.init.orthogonal_(parameter)
        else:
            nn.init.zeros_(parameter)
    return gru


class SkillDiscoverer(nn.Module):
    """pi_l(a^i | o^i, z^i), shared by the agents, and the critic V_l(s, Z).

    Without skills it is MAPPO's actor and critic; with `own_critic`, V(o^i) of each agent alone, IPPO's. With
    `critic_sees_skills` the critic also sees z^1..z^n and values each agent apart. With `state_noise` the actor has a
    second half of outputs, added to the logarithm of the noise.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        outputs = sizes.actions * (2 if sizes.state_noise else 1)
        self.seen = sizes.observation_encoder()
        self.known = sizes.observation_encoder() if sizes.own_critic else sizes.state_encoder()
        self.actor = Trunk(self.seen.outputs + sizes.ids + sizes.agent_skills, sizes.hidden, outputs, sizes.recurrent)
        self.log_std = nn.Parameter(torch.zeros(sizes.actions)) if sizes.continuous else None
        seen = sizes.team_skills + (sizes.agents * sizes.agent_skills if sizes.critic_sees_skills else 0)
        values = sizes.agents if sizes.critic_sees_skills else 1
        valued = self.known.outputs + (sizes.ids if sizes.own_critic else seen)
        self.critic = Trunk(valued, sizes.hidden, values, sizes.recurrent)

    def evaluate(self, chunks: Chunks) -> Evaluation:
        """Score stored actions in sequence from the stored memories; a unit is an agent."""
        seen, sizes = chunks.observation, self.sizes
        length, pieces = chunks.reset.shape
        skills = seen["skills"] if sizes.skilled else None  # (L, M, n + 1)
        reset = chunks.reset.repeat_interleave(sizes.agents, 1)
        known = self._actor_inputs(seen["observation"], skills).flatten(1, 2)  # (L, M * n, ...)
        out = self.actor(known, self._memory(chunks, "actor", pieces * sizes.agents), reset)
        choice = choice_of(sizes, out.view(length, pieces, sizes.agents, -1), self.log_std, chunks.mask.get("action"))
        valued = self._critic_inputs(seen["state"], seen["observation"], skills)
        if sizes.own_critic:
            memory = self._memory(chunks, "critic", pieces * sizes.agents)
            value = self.critic(valued.flatten(1, 2), memory, reset).view(length, pieces, -1)
        else:
            value = self.critic(valued, self._memory(chunks, "critic", pieces), chunks.reset)
        log_prob, entropy = choice.log_prob(chunks.action["action"]), choice.entropy()
        return Evaluation(log_prob, entropy, value.expand(-1, -1, sizes.agents))

    @torch.inference_mode()
    def act(
        self,
        state: Tensor,
        observation: Tensor,
        skills: Tensor | None,
        memory: dict[str, Tensor],
        draws: Tensor | None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """What is stored, what the world takes, log-probabilities (B, n), values (B, n), and the new memories.

        `draws`: uniform numbers (B, n) for discrete actions, normal ones (B, n, D) for continuous ones.
        """
        worlds, agents = observation.shape[:2]
        known = self._actor_inputs(observation, skills).flatten(0, 1)
        out, actor = self.actor.step(known, memory["actor"].flatten(0, 1))
        choice = choice_of(self.sizes, out.view(worlds, agents, -1), self.log_std, mask)
        stored = drawn(choice, draws)
        value, critic = self._value(state, observation, skills, memory["critic"])
        new = {"actor": actor.view(worlds, agents, -1), "critic": critic}
        return stored, choice.action(stored), choice.log_prob(stored), value, new

    @torch.inference_mode()
    def value(self, state: Tensor, observation: Tensor, skills: Tensor | None, memory: Tensor) -> Tensor:
        """V_l at what would be the next decision, (B, n)."""
        return self._value(state, observation, skills, memory)[0]

    def initial_memory(self, worlds: int) -> dict[str, Tensor]:
        """Zeros: the recurrent states at the start of an episode, one per (world, agent) and one per critic."""
        width, agents = self.sizes.hidden if self.sizes.recurrent else 0, self.sizes.agents
        critics = (worlds, agents) if self.sizes.own_critic else (worlds,)
        return {"actor": torch.zeros(worlds, agents, width), "critic": torch.zeros(*critics, width)}

    def _value(
        self, state: Tensor, observation: Tensor, skills: Tensor | None, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Values (B, n) and the critic's new memory."""
        valued, agents = self._critic_inputs(state, observation, skills), self.sizes.agents
        if not self.sizes.own_critic:
            value, after = self.critic.step(valued, memory)
            return value.expand(-1, agents), after
        value, after = self.critic.step(valued.flatten(0, 1), memory.flatten(0, 1))
        return value.view(-1, agents), after.view(memory.shape)

    def _actor_inputs(self, observation: Tensor, skills: Tensor | None) -> Tensor:
        """What each agent sees, its number if it has one, and its own skill, (..., n, ...)."""
        known = self.sizes.with_ids(self.seen(observation))
        if skills is None:
            return known
        return torch.cat([known, one_hot(skills[..., 1:], self.sizes.agent_skills, known.dtype)], -1)

    def _critic_inputs(self, state: Tensor, observation: Tensor, skills: Tensor | None) -> Tensor:
        if self.sizes.own_critic:
            return self.sizes.with_ids(self.known(observation))
        state = self.known(state)
        if skills is None:
            return state
        inputs = [state, one_hot(skills[..., 0], self.sizes.team_skills, state.dtype)]
        if self.sizes.critic_sees_skills:
            inputs.append(one_hot(skills[..., 1:], self.sizes.agent_skills, state.dtype).flatten(-2))
        return torch.cat(inputs, -1)

    def _memory(self, chunks: Chunks, name: str, rows: int) -> Tensor:
        if not self.sizes.recurrent:
            return chunks.reset.new_zeros((rows, 0), dtype=torch.float32)
        return chunks.state[name].reshape(rows, -1)


def choice_of(
    sizes: Sizes, out: Tensor, log_std: Tensor | None, mask: Tensor | None
) -> MaskedCategorical | SquashedNormal:
    """The distribution over actions that a network's outputs (..., n, actions) stand for."""
    if log_std is None:
        return MaskedCategorical(out, mask)
    if not sizes.state_noise:
        return SquashedNormal(out, log_std)
    mean, noise = out.chunk(2, -1)
    return SquashedNormal(mean, log_std + noise)


def drawn(choice: MaskedCategorical | SquashedNormal, draws: Tensor | None) -> Tensor:
    """What is stored: the greedy choice, or the one that these uniform or normal numbers give."""
    if draws is None:
        return choice.mode()
    if isinstance(choice, MaskedCategorical):
        return invert(choice.probs, draws)
    return choice.mean + choice.std * draws
