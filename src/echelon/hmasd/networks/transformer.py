"""The multi-agent transformer (Wen et al. 2022), of the coordinator's blocks: agents act one after the other."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.hmasd.networks.attention import HIDDEN_GAIN, DecoderBlock, EncoderBlock, head, orthogonal
from echelon.hmasd.networks.discoverer import choice_of, drawn
from echelon.hmasd.networks.sizes import Sizes, one_hot
from echelon.onpolicy.chunks import Chunks
from echelon.onpolicy.loss import Evaluation


class TransformerPolicy(nn.Module):
    """pi(a^1..a^n | o) = prod_i pi(a^i | o, a^1..a^{i-1}), and V(o^i) of every encoded observation.

    An encoder over the tokens o^1..o^n and a decoder over (start, a^1..a^{n-1}), whose last attention asks with the
    encoded observations. It has the methods of `SkillDiscoverer`, and neither skills nor memory: the state is not used.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.hidden
        self.sizes = sizes
        self.seen = sizes.observation_encoder()
        self.embed_observation = orthogonal(nn.Linear(self.seen.outputs + sizes.ids, width), HIDDEN_GAIN)
        self.embed_norm = nn.LayerNorm(width)
        self.encoder = nn.ModuleList(EncoderBlock(width, sizes.heads) for _ in range(sizes.encoder_layers))
        self.value_head = head(width, 1)
        self.start = nn.Parameter(torch.zeros(width))
        nn.init.normal_(self.start, std=0.5)
        self.embed_action = orthogonal(nn.Linear(sizes.actions, width), HIDDEN_GAIN)
        self.choice_norm = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(DecoderBlock(width, sizes.heads) for _ in range(sizes.decoder_layers))
        self.action_head = head(width, sizes.actions * (2 if sizes.state_noise else 1))
        self.log_std = nn.Parameter(torch.zeros(sizes.actions)) if sizes.continuous else None

    def encode(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (M, n, H) and the value of each (M, n), from o (M, n, F)."""
        known = self.sizes.with_ids(self.seen(observation))
        x = self.embed_norm(functional.gelu(self.embed_observation(known)))
        for block in self.encoder:
            x = block(x)
        return x, self.value_head(x).squeeze(-1)

    def evaluate(self, chunks: Chunks) -> Evaluation:
        """Score stored actions, all agents in one masked pass; a unit is an agent."""
        stored, mask = chunks.action["action"][0], chunks.mask.get("action")
        encoded, value = self.encode(chunks.observation["observation"][0])
        out = self._decode(self._choices(stored[:, :-1]), encoded)
        choice = choice_of(self.sizes, out, self.log_std, None if mask is None else mask[0])
        return Evaluation(choice.log_prob(stored)[None], choice.entropy()[None], value[None])

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
        """What is stored, what the world takes, log-probabilities (B, n), values (B, n), and the (empty) memories."""
        encoded, value = self.encode(observation)
        shape = (*value.shape, self.sizes.actions) if self.sizes.continuous else value.shape
        stored = torch.zeros(shape, dtype=value.dtype if self.sizes.continuous else torch.int64)
        actions, log_probs = [], []
        for i in range(self.sizes.agents):
            out = self._decode(self._choices(stored[:, :i]), encoded[:, : i + 1])[:, i]
            choice = choice_of(self.sizes, out, self.log_std, None if mask is None else mask[:, i])
            stored[:, i] = drawn(choice, None if draws is None else draws[:, i])
            actions.append(choice.action(stored[:, i]))
            log_probs.append(choice.log_prob(stored[:, i]))
        return stored, torch.stack(actions, 1), torch.stack(log_probs, 1), value, memory

    @torch.inference_mode()
    def value(self, state: Tensor, observation: Tensor, skills: Tensor | None, memory: Tensor) -> Tensor:
        """V(o^1), ..., V(o^n), (B, n)."""
        return self.encode(observation)[1]

    def initial_memory(self, worlds: int) -> dict[str, Tensor]:
        """Nothing, in the shapes of a memory."""
        return {"actor": torch.zeros(worlds, self.sizes.agents, 0), "critic": torch.zeros(worlds, 0)}

    def _choices(self, stored: Tensor) -> Tensor:
        """Tokens of the start and of the actions chosen so far, (M, i, ...) -> (M, i + 1, H)."""
        start = self.start.expand(len(stored), 1, -1)
        squashed = self.sizes.continuous  # as the world gets it, in [-1, 1]
        done = torch.tanh(stored) if squashed else one_hot(stored, self.sizes.actions, start.dtype)
        return torch.cat([start, self.embed_action(done)], 1)

    def _decode(self, choices: Tensor, encoded: Tensor) -> Tensor:
        """Outputs (M, t, actions) for the first t agents."""
        x = self.choice_norm(choices)
        for block in self.decoder:
            x = block(x, encoded)
        out: Tensor = self.action_head(x)
        return out
