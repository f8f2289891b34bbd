"""The skill coordinator: an encoder over state and observations, and a decoder that chooses skills one by one.

Everything here has its gradient written out (see `onpolicy.gradients`). Tokens come first: (n + 1, M, H).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor, nn

from echelon.hmasd.networks.attention import (
    HIDDEN_GAIN,
    DecoderBlock,
    DecoderSteps,
    EncoderBlock,
    head,
    later_tokens,
    orthogonal,
)
from echelon.hmasd.networks.sizes import Sizes
from echelon.onpolicy.chunks import Chunks
from echelon.onpolicy.distributions import MaskedCategorical, invert
from echelon.onpolicy.loss import Evaluation
from echelon.onpolicy.ppo import evaluated
from echelon.onpolicy.written.chain import Chain, rows_gradient
from echelon.onpolicy.written.gradients import BackAll, Gradients

Block = TypeVar("Block", EncoderBlock, DecoderBlock)
BackEncode = Callable[[Gradients, Tensor, Tensor], None]
"""(into, gradients of the tokens and of their values)."""


class SkillCoordinator(nn.Module):
    """pi_h(Z, z | s, o): an encoder over the tokens (s, o^1..o^n) and a decoder over (start, Z, z^1..z^{n-1})."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.hidden
        self.sizes = sizes
        self.embed_state = orthogonal(nn.Linear(sizes.state, width), HIDDEN_GAIN)
        self.embed_observation = orthogonal(nn.Linear(sizes.obs + sizes.ids, width), HIDDEN_GAIN)
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
        self.register_buffer("_later", later_tokens(sizes.agents + 1), persistent=False)
        self._later: Tensor
        self._embed = Chain(self.embed_state), Chain(self.embed_observation)
        self._embedded, self._chosen = Chain(nn.GELU(), self.embed_norm), Chain(self.choice_norm)
        self._values = Chain(self.value_state), Chain(self.value_observation)
        self._heads = Chain(self.team_head), Chain(self.agent_head)

    def encode(self, state: Tensor, observation: Tensor) -> tuple[Tensor, Tensor, BackEncode]:
        """Tokens (n + 1, M, H) and the value of each (n + 1, M), from s (M, S) and o (M, n, F)."""
        of_state, back_state = self._embed[0].run(state.unsqueeze(0), input_gradient=False)
        others = self.sizes.with_ids(observation).transpose(0, 1)
        of_others, back_others = self._embed[1].run(others, input_gradient=False)
        x, back_embedded = self._embedded.run(torch.cat([of_state, of_others]))
        backs = []
        for block in self._blocks(EncoderBlock):
            x, back_block = block.run(x)
            backs.append(back_block)
        values, back_values = _first_and_others(self._values, x)

        def back(into: Gradients, d_encoded: Tensor, d_value: Tensor) -> None:
            g = back_values(into, d_value[:1].unsqueeze(-1), d_value[1:].unsqueeze(-1)).add_(d_encoded)
            for back_block in reversed(backs):
                g = back_block(into, g)
            g = back_embedded(into, g)
            back_state(into, g[:1])
            back_others(into, g[1:])

        return x, torch.cat(values).squeeze(-1), back

    def evaluate(self, chunks: Chunks) -> Evaluation:
        """Log-probabilities of all n + 1 stored skills in one masked pass; a unit is a skill."""
        return evaluated(self, chunks)

    def score(self, chunks: Chunks) -> tuple[Evaluation, BackAll]:
        """The same with its gradient."""
        state, observation = chunks.observation["state"][0], chunks.observation["observation"][0]
        skills = chunks.action["skills"][0].T.contiguous()  # (n + 1, M)
        encoded, value, back_encode = self.encode(state, observation)
        first = self.start.expand(1, skills.shape[1], -1)
        x, back_chosen = self._chosen.run(
            torch.cat([first, self.embed_team(skills[:1]), self.embed_agent(skills[1:-1])])
        )
        backs = []
        for block in self._blocks(DecoderBlock):
            x, back_block = block.run(x, encoded, self._later)
            backs.append(back_block)
        logits, back_heads = _first_and_others(self._heads, x)
        team, agents = (MaskedCategorical(part) for part in logits)
        team_log_prob, team_entropy, back_team = team.score(skills[:1])
        agents_log_prob, agents_entropy, back_agents = agents.score(skills[1:])

        def back(into: Gradients, by_log_prob: Tensor, by_entropy: Tensor, by_value: Tensor) -> None:
            by_log_prob, by_entropy = by_log_prob[0].T, by_entropy[0].T  # (n + 1, M)
            g = back_heads(
                into, *back_team(by_log_prob[:1], by_entropy[:1]), *back_agents(by_log_prob[1:], by_entropy[1:])
            )
            d_encoded = torch.zeros_like(encoded)
            for back_block in reversed(backs):
                g, d_block = back_block(into, g)
                d_encoded += d_block
            g = back_chosen(into, g)
            into.add(self.start, g[0].sum(0))
            into.add(self.embed_team.weight, rows_gradient(skills[:1, :, None], g[1], self.sizes.team_skills))
            into.add(
                self.embed_agent.weight,
                rows_gradient(skills[1:-1, :, None], g[2:].flatten(0, 1), self.sizes.agent_skills),
            )
            back_encode(into, d_encoded, by_value[0].T)

        log_prob, entropy = torch.cat([team_log_prob, agents_log_prob]), torch.cat([team_entropy, agents_entropy])
        return Evaluation(log_prob.T[None], entropy.T[None], value.T[None]), back

    @torch.inference_mode()
    def act(self, state: Tensor, observation: Tensor, uniform: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Skills (B, n + 1), their log-probabilities and the values, chosen one after the other."""
        encoded, value, _ = self.encode(state, observation)
        blocks = [DecoderSteps(block, encoded) for block in self._blocks(DecoderBlock)]
        x = self.start.expand(len(state), -1)
        skills, log_probs = [], []
        for i in range(self.sizes.agents + 1):
            x = self._chosen(x)
            for step in blocks:
                x = step(x)
            choice = MaskedCategorical(self._heads[min(i, 1)](x))
            chosen = choice.mode() if uniform is None else invert(choice.probs, uniform[:, i])
            skills.append(chosen)
            log_probs.append(choice.log_prob(chosen))
            x = (self.embed_team if i == 0 else self.embed_agent)(chosen)
        return torch.stack(skills, 1), torch.stack(log_probs, 1), value.T

    def _blocks(self, kind: type[Block]) -> Iterator[Block]:
        return (block for block in (*self.encoder, *self.decoder) if isinstance(block, kind))

    @torch.inference_mode()
    def value(self, state: Tensor, observation: Tensor) -> Tensor:
        """V_h(s), V_h(o^1), ..., V_h(o^n), (B, n + 1)."""
        return self.encode(state, observation)[1].T


def _first_and_others(
    chains: tuple[Chain, Chain], x: Tensor
) -> tuple[tuple[Tensor, Tensor], Callable[[Gradients, Tensor, Tensor], Tensor]]:
    """One chain for the first token and another for the rest, of (n + 1, M, H)."""
    first, back_first = chains[0].run(x[:1])
    others, back_others = chains[1].run(x[1:])

    def back(into: Gradients, by_first: Tensor, by_others: Tensor) -> Tensor:
        return torch.cat([back_first(into, by_first), back_others(into, by_others)])

    return (first, others), back
