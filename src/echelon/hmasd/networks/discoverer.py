"""The skill discoverer: the policy of every agent given its skill, with a critic of the whole team."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from echelon.hmasd.networks.attention import HIDDEN_GAIN, OUTPUT_GAIN, orthogonal
from echelon.hmasd.networks.sizes import Sizes
from echelon.onpolicy.chunks import Chunks
from echelon.onpolicy.distributions import MaskedCategorical, SquashedNormal, invert
from echelon.onpolicy.loss import Evaluation
from echelon.onpolicy.ppo import evaluated
from echelon.onpolicy.written.chain import Back, Chain
from echelon.onpolicy.written.gradients import BackAll, Gradients
from echelon.onpolicy.written.recurrent import gru_with_back


class Trunk(nn.Module):
    """Input and skills -> MLP -> GRU -> MLP -> outputs; without `recurrent` the GRU is a plain layer.

    Skills enter the first layer as one-hot numbers would: as rows of an embedding added to its output, drawn together
    with the layer's own weight. The last layer starts small: an untrained critic that has opinions drives all skills to
    the places it happens to like, long before the discriminators can tell skills apart.
    """

    def __init__(self, inputs: int, skills: int, width: int, outputs: int, recurrent: bool) -> None:
        super().__init__()
        self.inputs = nn.Linear(inputs, width)
        joint = nn.init.orthogonal_(torch.empty(width, inputs + skills), HIDDEN_GAIN)
        self.skills = nn.Embedding(skills, width) if skills else None
        with torch.no_grad():
            self.inputs.weight.copy_(joint[:, :inputs])
            nn.init.zeros_(self.inputs.bias)
            if self.skills is not None:
                self.skills.weight.copy_(joint[:, inputs:].T)
        self.norm_in = nn.LayerNorm(width)
        self.hidden = orthogonal(nn.Linear(width, width), HIDDEN_GAIN)
        self.gru = _gru(width) if recurrent else None
        self.norm_out = nn.LayerNorm(width)
        self.last = orthogonal(nn.Linear(width, width), HIDDEN_GAIN)
        self.outputs = orthogonal(nn.Linear(width, outputs), OUTPUT_GAIN)
        rows = [] if self.skills is None else [self.skills]
        self._before = Chain(self.inputs, *rows, nn.ReLU(), self.norm_in, self.hidden, nn.ReLU())
        self._after = Chain(self.norm_out, self.last, nn.ReLU(), self.outputs)

    def run(self, x: Tensor, skills: Tensor | None, memory: Tensor, reset: Tensor) -> tuple[Tensor, Back]:
        """Outputs (L, M, ...) of inputs (L, M, F) and skills (L, M, j); `back` gives no gradient of the inputs."""
        x, back_before = self._before.run(x, skills, input_gradient=False)
        back_gru = None
        if self.gru is not None:
            x, back_gru = gru_with_back(self.gru, x, memory, reset)
        x, back_after = self._after.run(x)

        def back(into: Gradients, g: Tensor) -> Tensor:
            g = back_after(into, g)
            return back_before(into, g if back_gru is None else back_gru(into, g))

        return x, back

    def step(self, x: Tensor, skills: Tensor | None, memory: Tensor) -> tuple[Tensor, Tensor]:
        """One step without gradients, (M, F) and (M, j); the caller has zeroed memory where an episode starts."""
        x = self._before(x, skills)
        if self.gru is not None:
            x = memory = torch.gru_cell(x, memory, *self.gru.parameters())
        return self._after(x), memory


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

    With `critic_sees_skills` the critic also sees z^1..z^n and values each agent apart. With `state_noise` the actor
    has a second half of outputs, added to the logarithm of the noise.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        outputs = sizes.actions * (2 if sizes.state_noise else 1)
        self.actor = Trunk(sizes.obs + sizes.ids, sizes.agent_skills, sizes.hidden, outputs, sizes.recurrent)
        self.log_std = nn.Parameter(torch.zeros(sizes.actions)) if sizes.continuous else None
        seen = sizes.team_skills + (sizes.agents * sizes.agent_skills if sizes.critic_sees_skills else 0)
        values = sizes.agents if sizes.critic_sees_skills else 1
        self.critic = Trunk(sizes.state, seen, sizes.hidden, values, sizes.recurrent)
        offset = [0] + [sizes.team_skills + i * sizes.agent_skills for i in range(sizes.agents)]
        known = torch.tensor(offset if sizes.critic_sees_skills else offset[:1])  # (1,) or (n + 1,)
        self.register_buffer("_offset", known, persistent=False)
        self._offset: Tensor

    def evaluate(self, chunks: Chunks) -> Evaluation:
        """Score stored actions in sequence from the stored memories; a unit is an agent."""
        return evaluated(self, chunks)

    def score(self, chunks: Chunks) -> tuple[Evaluation, BackAll]:
        """The same with its gradient."""
        seen, sizes = chunks.observation, self.sizes
        observation = sizes.with_ids(seen["observation"])  # (L, M, n, F)
        length, pieces = observation.shape[:2]
        skills = seen["skills"] if sizes.skilled else None  # (L, M, n + 1)
        mine = None if skills is None else skills[:, :, 1:].reshape(length, -1, 1)
        reset = chunks.reset.repeat_interleave(sizes.agents, 1)
        memory = self._memory(chunks, "actor", pieces * sizes.agents)
        out, back_actor = self.actor.run(observation.flatten(1, 2), mine, memory, reset)
        choice = self._choice(out.view(length, pieces, sizes.agents, -1), chunks.mask.get("action"))
        log_prob, entropy, back_choice = choice.score(chunks.action["action"])
        value, back_critic = self.critic.run(
            seen["state"], self._critic_skills(skills), self._memory(chunks, "critic", pieces), chunks.reset
        )

        def back(into: Gradients, by_log_prob: Tensor, by_entropy: Tensor, by_value: Tensor) -> None:
            by_out, *by_log_std = back_choice(by_log_prob, by_entropy)
            if self.log_std is not None:
                into.add(self.log_std, *(by.sum_to_size(self.log_std.shape) for by in by_log_std))
            if sizes.state_noise:
                by_out = torch.cat([by_out, *by_log_std], -1)
            back_actor(into, by_out)
            back_critic(into, by_value if value.shape[-1] > 1 else by_value.sum(-1, keepdim=True))

        return Evaluation(log_prob, entropy, value.expand(-1, -1, sizes.agents)), back

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
        mine = None if skills is None else skills[:, 1:].reshape(-1, 1)
        known = self.sizes.with_ids(observation).flatten(0, 1)
        out, actor = self.actor.step(known, mine, memory["actor"].flatten(0, 1))
        choice = self._choice(out.view(worlds, agents, -1), mask)
        if draws is None:
            stored = choice.mode()
        elif isinstance(choice, MaskedCategorical):
            stored = invert(choice.probs, draws)
        else:
            stored = choice.mean + choice.std * draws
        value, critic = self.critic.step(state, self._critic_skills(skills), memory["critic"])
        new = {"actor": actor.view(worlds, agents, -1), "critic": critic}
        return stored, choice.action(stored), choice.log_prob(stored), value.expand(-1, agents), new

    @torch.inference_mode()
    def value(self, state: Tensor, skills: Tensor | None, memory: Tensor) -> Tensor:
        """V_l at what would be the next decision, (B, n)."""
        value, _ = self.critic.step(state, self._critic_skills(skills), memory)
        return value.expand(-1, self.sizes.agents)

    def initial_memory(self, worlds: int) -> dict[str, Tensor]:
        """Zeros: the recurrent states at the start of an episode, one for each (world, agent) and one a critic."""
        width = self.sizes.hidden if self.sizes.recurrent else 0
        return {"actor": torch.zeros(worlds, self.sizes.agents, width), "critic": torch.zeros(worlds, width)}

    def _choice(self, out: Tensor, mask: Tensor | None) -> MaskedCategorical | SquashedNormal:
        if self.log_std is None:
            return MaskedCategorical(out, mask)
        if not self.sizes.state_noise:
            return SquashedNormal(out, self.log_std)
        mean, noise = out.chunk(2, -1)
        return SquashedNormal(mean, self.log_std + noise)

    def _critic_skills(self, skills: Tensor | None) -> Tensor | None:
        return None if skills is None else skills[..., : len(self._offset)] + self._offset

    def _memory(self, chunks: Chunks, name: str, rows: int) -> Tensor:
        if not self.sizes.recurrent:
            return chunks.reset.new_zeros((rows, 0), dtype=torch.float32)
        return chunks.state[name].reshape(rows, -1)
