"""The history of a negotiation as vectors: a small causal transformer over its offers, and a cache to extend it.

The state after n offers depends on these offers alone: not on what comes later, not on padding, not on the decision
that reads it. So one pass over a whole negotiation serves all its decisions in training, and in play a thread's state
is extended by one offer at a time. Position 0 is a token that stands for "nothing said yet".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

TOKEN = 4
"""quantity, price as ratio of the issue's range, days ahead, 1 if mine"""
_INPUTS = 7


def _token_inputs(tokens: Tensor) -> Tensor:  # (..., 4) -> (..., 7)
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
        self.embed = nn.Linear(_INPUTS, width)
        self.begin = nn.Parameter(torch.zeros(width))
        self.place = nn.Parameter(torch.randn(max_tokens + 1, width) * 0.02)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """State before any offer and after each, for threads padded behind.  # (B, L, 4), (B, L) -> (B, L+1, w)

        Padding stands behind all tokens of its thread, where causal attention does not look; it is set to zero so that
        not even a NaN in it can pass. Places beyond `max_tokens` are not told apart.
        """
        B, L, _ = tokens.shape
        place = self.place[torch.arange(L + 1, device=tokens.device).clamp(max=self.max_tokens)]
        told = self.embed(_token_inputs(tokens.masked_fill(~mask[..., None], 0.0)))
        x = torch.cat([self.begin.expand(B, 1, -1), told], 1) + place
        for block in self.blocks:
            q, k, v = block.split(x)  # type: ignore[operator]
            x = block.join(x, functional.scaled_dot_product_attention(q, k, v, is_causal=True))  # type: ignore[operator]
        states: Tensor = self.norm(x)
        return states


class HistoryCache:
    """States of many threads, extended offer by offer; for play."""

    def __init__(self, trunk: HistoryTrunk, threads: int) -> None:
        self._trunk, self._room = trunk, trunk.max_tokens + 1
        head = trunk.width // trunk.heads
        shape = (len(trunk.blocks), threads, trunk.heads, self._room, head)
        self._device = trunk.begin.device
        self._keys, self._values = (torch.zeros(shape, device=self._device) for _ in range(2))
        self.length = torch.zeros(threads, dtype=torch.long, device=self._device)  # offers told so far
        self.state = torch.zeros(threads, trunk.width, device=self._device)
        self._begin(torch.arange(threads))
        self._nothing_said = self.state[:1].clone()

    @torch.inference_mode()
    def _begin(self, rows: Tensor) -> None:
        rows = rows.to(self._device)
        x = (self._trunk.begin + self._trunk.place[0]).expand(len(rows), 1, -1)
        self._tell(rows, x, self.length[rows])

    def __len__(self) -> int:
        return len(self.length)

    @torch.inference_mode()
    def restart(self, rows: Tensor | None = None) -> None:
        """Forget the offers of these threads (default: all); what stands before any offer is known already."""
        chosen = slice(None) if rows is None else rows
        self.length[chosen] = 0
        self.state[chosen] = self._nothing_said

    @torch.inference_mode()
    def extend(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """Tell one more offer in each of these threads; returns their states.  # (n,), (n, 4) -> (n, w)"""
        rows, tokens = rows.long().to(self._device), tokens.to(self._device)
        at = self.length[rows] + 1
        if len(rows) and int(at.max()) >= self._room:
            raise ValueError(
                f"a thread of more than {self._room - 1} offers does not fit the cache; "
                f"make the layer with a larger max_tokens than {self._trunk.max_tokens}"
            )
        x = (self._trunk.embed(_token_inputs(tokens)) + self._trunk.place[at])[:, None]
        self.length[rows] = at
        return self._tell(rows, x, at)

    def _tell(self, rows: Tensor, x: Tensor, at: Tensor) -> Tensor:
        used = int(at.max()) + 1 if len(rows) else 1
        visible = (torch.arange(used, device=self._device) <= at[:, None])[:, None, None, :]  # (n, 1, 1, used)
        for i, block in enumerate(self._trunk.blocks):
            q, k, v = block.split(x)  # type: ignore[operator]
            self._keys[i, rows, :, at], self._values[i, rows, :, at] = k[:, :, 0], v[:, :, 0]
            keys, values = self._keys[i, rows, :, :used], self._values[i, rows, :, :used]
            scores = (q @ keys.transpose(-1, -2)) / math.sqrt(q.shape[-1])
            weights = scores.masked_fill(~visible, -math.inf).softmax(-1)
            x = block.join(x, weights @ values)  # type: ignore[operator]
        state: Tensor = self._trunk.norm(x)[:, 0]
        self.state[rows] = state
        return state
