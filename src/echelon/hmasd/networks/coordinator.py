"""The skill coordinator: an encoder over state and observations, and a decoder that chooses skills one by one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.hmasd.networks.attention import HIDDEN_GAIN, DecoderBlock, EncoderBlock, head, orthogonal
from echelon.hmasd.networks.sizes import Sizes
from echelon.onpolicy.chunks import Chunks
from echelon.onpolicy.distributions import MaskedCategorical, invert
from echelon.onpolicy.loss import Evaluation


class SkillCoordinator(nn.Module):
    """pi_h(Z, z | s, o): an encoder over the tokens (s, o^1..o^n) and a decoder over (start, Z, z^1..z^{n-1})."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.hidden
        self.sizes = sizes
        self.seen, self.known = sizes.observation_encoder(), sizes.state_encoder()
        self.embed_state = orthogonal(nn.Linear(self.known.outputs, width), HIDDEN_GAIN)
        self.embed_observation = orthogonal(nn.Linear(self.seen.outputs + sizes.ids, width), HIDDEN_GAIN)
        self.embed_norm = nn.LayerNorm(width)
        self.encoder = nn.ModuleList(EncoderBlock(width, sizes.heads) for _ in range(sizes.encoder_layers))
        self.value_state, self.value_observation = head(width, 1), head(width, 1)
        self.start = nn.Parameter(torch.zeros(width))
        self.embed_team = nn.Embedding(sizes.team_skills, width)
        self.embed_agent = nn.Embedding(sizes.agent_skills, width)
        self.choice_norm = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(DecoderBlock(width, sizes.heads) for _ in range(sizes.decoder_layers))
        self.team_head, self.agent_head = head(width, sizes.team_skills), head(width, sizes.agent_skills)
        nn.init.normal_(self.start, std=0.5)

    def encode(self, state: Tensor, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (M, n + 1, H) and the value of each (M, n + 1), from s (M, S) and o (M, n, F)."""
        of_state = self.embed_state(self.known(state)).unsqueeze(1)
        x = torch.cat([of_state, self.embed_observation(self.sizes.with_ids(self.seen(observation)))], 1)
        x = self.embed_norm(functional.gelu(x))
        for block in self.encoder:
            x = block(x)
        value = torch.cat([self.value_state(x[:, :1]), self.value_observation(x[:, 1:])], 1)
        return x, value.squeeze(-1)

    def evaluate(self, chunks: Chunks) -> Evaluation:
        """Log-probabilities of all n + 1 stored skills in one masked pass; a unit is a skill."""
        skills = chunks.action["skills"][0]  # (M, n + 1)
        encoded, value = self.encode(chunks.observation["state"][0], chunks.observation["observation"][0])
        x = self._decode(self._choices(skills[:, :-1]), encoded)
        team, agents = MaskedCategorical(self.team_head(x[:, :1])), MaskedCategorical(self.agent_head(x[:, 1:]))
        log_prob = torch.cat([team.log_prob(skills[:, :1]), agents.log_prob(skills[:, 1:])], 1)
        entropy = torch.cat([team.entropy(), agents.entropy()], 1)
        return Evaluation(log_prob[None], entropy[None], value[None])

    @torch.inference_mode()
    def act(self, state: Tensor, observation: Tensor, uniform: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Skills (B, n + 1), their log-probabilities and the values, chosen one after the other."""
        encoded, value = self.encode(state, observation)
        skills = torch.zeros(value.shape, dtype=torch.int64, device=value.device)
        log_probs = []
        for i in range(skills.shape[1]):
            x = self._decode(self._choices(skills[:, :i]), encoded[:, : i + 1])[:, i]
            choice = MaskedCategorical((self.team_head if i == 0 else self.agent_head)(x))
            skills[:, i] = choice.mode() if uniform is None else invert(choice.probs, uniform[:, i])
            log_probs.append(choice.log_prob(skills[:, i]))
        return skills, torch.stack(log_probs, 1), value

    @torch.inference_mode()
    def value(self, state: Tensor, observation: Tensor) -> Tensor:
        """V_h(s), V_h(o^1), ..., V_h(o^n), (B, n + 1)."""
        return self.encode(state, observation)[1]

    def _choices(self, skills: Tensor) -> Tensor:
        """Tokens of the start and of the skills chosen so far, (M, i) -> (M, i + 1, H)."""
        start = self.start.expand(len(skills), 1, -1)
        return torch.cat([start, self.embed_team(skills[:, :1]), self.embed_agent(skills[:, 1:])], 1)

    def _decode(self, choices: Tensor, encoded: Tensor) -> Tensor:
        x: Tensor = self.choice_norm(choices)
        for block in self.decoder:
            x = block(x, encoded)
        return x
