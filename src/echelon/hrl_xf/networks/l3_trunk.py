"""The history of a negotiation as vectors: a small causal transformer over its offers.

The state after n offers depends on these offers alone: not on what comes later, not on padding, not on the decision
that reads it. So one pass over a whole negotiation serves all its decisions in training; in play `l3_history` extends a
thread's state by one offer at a time. Position 0 is a token that means "no offer yet".
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.hrl_xf.layers.l3_history import INPUTS


def _token_inputs(tokens: Tensor) -> Tensor:
    """A token is quantity, price as ratio of the issue's range, days ahead, 1 if mine.  # (..., 4) -> (..., 7)"""
    quantity, ratio, ahead, mine = tokens.unbind(-1)
    return torch.stack(
        [
            torch.log1p(quantity.clamp(min=0.0)) / 3.0,
            quantity / 30.0,
            ratio,
            ahead / 10.0,
            mine,
            ratio * mine,
            1.0 - mine,
        ],
        -1,
    )


class _Block(nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values.  # (B, L, w) -> (B, h, L, w/h) each"""
        B, L, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, L, 3, self.heads, x.shape[2] // self.heads).permute(2, 0, 3, 1, 4)
        return q, k, v

    def join(self, x: Tensor, attended: Tensor) -> Tensor:
        """Back to (B, L, w), and through the MLP."""
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        x = x + self.down(functional.relu(self.up(self.norm2(x))))
        return x


class HistoryTrunk(nn.Module):
    """Offers to states, causally."""

    def __init__(self, width: int, heads: int, layers: int, max_tokens: int) -> None:
        super().__init__()
        self.width, self.heads, self.max_tokens = width, heads, max_tokens
        self.embed = nn.Linear(INPUTS, width)
        self.begin = nn.Parameter(torch.zeros(width))
        self.place = nn.Parameter(torch.randn(max_tokens + 1, width) * 0.02)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """State before any offer and after each, for threads padded behind.  # (B, L, 4), (B, L) -> (B, L+1, w)

        Padding follows all tokens of its thread, where causal attention does not look; it is set to zero so that
        not even a NaN in it can pass. Places beyond `max_tokens` are not distinguished, and an offer looks at the last
        `max_tokens` offers, itself included: earlier ones are forgotten.
        """
        B, L, _ = tokens.shape
        at = torch.arange(L + 1, device=tokens.device)
        seen = None  # all that is earlier
        if self.max_tokens < L:
            behind = at[:, None] - at
            seen = (behind >= 0) & ((behind < self.max_tokens) | (at == 0))  # (L+1, L+1)
        place = self.place[at.clamp(max=self.max_tokens)]
        told = self.embed(_token_inputs(tokens.masked_fill(~mask[..., None], 0.0)))
        x = torch.cat([self.begin.expand(B, 1, -1), told], 1) + place
        for block in self.blocks:
            q, k, v = block.split(x)  # type: ignore[operator]
            attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=seen is None)
            x = block.join(x, attended)  # type: ignore[operator]
        states: Tensor = self.norm(x)
        return states
