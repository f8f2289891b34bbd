"""The history of a negotiation as vectors: a small causal transformer over its offers, and a cache to extend it.

The state after n offers depends on these offers alone: not on what comes later, not on padding, not on the decision
that reads it. So one pass over a whole negotiation serves all its decisions in training, and in play a thread's state
is extended by one offer at a time. Position 0 is a token that stands for "nothing said yet".
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.hrl_xf.layers.play_arrays import Array, LayerNorm, Linear, array_of, log_softmax, relu
from echelon.runtime.arrays import Ints

_INPUTS = 7


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
        self.embed = nn.Linear(_INPUTS, width)
        self.begin = nn.Parameter(torch.zeros(width))
        self.place = nn.Parameter(torch.randn(max_tokens + 1, width) * 0.02)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """State before any offer and after each, for threads padded behind.  # (B, L, 4), (B, L) -> (B, L+1, w)

        Padding stands behind all tokens of its thread, where causal attention does not look; it is set to zero so that
        not even a NaN in it can pass. Places beyond `max_tokens` are not told apart, and an offer looks at the last
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


class _PlayBlock:
    """`_Block` for the newest offers of a few threads, in numpy."""

    def __init__(self, block: _Block) -> None:
        self.heads = block.heads
        self.norm1, self.norm2 = LayerNorm(block.norm1), LayerNorm(block.norm2)
        self.qkv, self.out, self.up, self.down = (Linear(m) for m in (block.qkv, block.out, block.up, block.down))

    def split(self, x: Array) -> Array:
        """Queries, keys and values.  # (n, L, w) -> (3, n, L, h, w/h)"""
        n, L, width = x.shape
        return self.qkv(self.norm1(x)).reshape(n, L, 3, self.heads, width // self.heads).transpose(2, 0, 1, 3, 4)

    def join(self, x: Array, attended: Array) -> Array:
        """Back to (n, L, w), and through the MLP."""
        x = x + self.out(attended.reshape(x.shape))
        return x + self.down(relu(self.up(self.norm2(x))))


class HistoryCache:
    """States of many threads, extended offer by offer; for play, in numpy on the CPU wherever the layer is.

    The weights must not change while it lives. It has room for `max_tokens` offers of each thread; a further one takes
    the place of the oldest, as in `HistoryTrunk.forward`.
    """

    def __init__(self, trunk: HistoryTrunk, threads: int) -> None:
        self._room = trunk.max_tokens + 1
        self._embed, self._norm = Linear(trunk.embed), LayerNorm(trunk.norm)
        self._blocks = [_PlayBlock(block) for block in trunk.blocks]  # type: ignore[arg-type]
        self._place = array_of(trunk.place)
        head = trunk.width // trunk.heads
        shape = (len(self._blocks), threads, self._room, trunk.heads, head)
        self._keys, self._values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._length = np.zeros(threads, np.int64)  # offers told so far
        self._state = np.zeros((threads, trunk.width), np.float32)
        """of each thread, after all it was told  # (threads, w)"""
        begin = np.broadcast_to(array_of(trunk.begin) + self._place[0], (threads, 1, trunk.width))
        self._extend(np.arange(threads), begin, np.zeros((threads, 1), np.int64))
        self._nothing_said = self._state[:1].copy()

    def __len__(self) -> int:
        return len(self._length)

    def restart(self) -> None:
        """Forget all offers; what stands before any offer is known already."""
        self._length[:] = 0
        self._state[:] = self._nothing_said

    def states(self, rows: Ints) -> Tensor:
        """What these threads' histories come to.  # (n,) -> (n, w)"""
        return torch.from_numpy(self._state[rows])

    def tell(self, rows: Ints, tokens: Array, count: Ints) -> None:
        """Tell each thread its next offers, `count` of them; behind these the last one stands again.

        (n,), (n, L, 4), (n,)
        """
        if not len(rows):
            return
        length = self._length[rows] + count
        if (
            tokens.shape[1] > 1 and int(length.max()) >= self._room
        ):  # one by one: none may take another's place too soon
            for i in range(tokens.shape[1]):
                more = count > i
                self.tell(rows[more], tokens[more, i : i + 1], np.ones(int(more.sum()), np.int64))
            return
        at = self._length[rows][:, None] + np.minimum(np.arange(1, tokens.shape[1] + 1), count[:, None])  # (n, L)
        self._extend(rows, self._embed(_token_arrays(tokens)) + self._place[np.minimum(at, self._room - 1)], at)
        self._length[rows] = length

    def _extend(self, rows: Ints, x: Array, at: Ints) -> None:  # (n,), (n, L, w), (n, L)
        used = min(int(at.max()) + 1, self._room) if len(rows) else 1
        slot = np.where(at < self._room, at, 1 + (at - 1) % (self._room - 1))  # slot 0 is "nothing said yet"
        hidden = (np.arange(used) > at[:, :, None])[:, None]  # (n, 1, L, used)
        for i, block in enumerate(self._blocks):
            q, k, v = block.split(x)
            self._keys[i, rows[:, None], slot], self._values[i, rows[:, None], slot] = k, v
            keys, values = self._keys[i, rows, :used], self._values[i, rows, :used]  # (n, used, h, w/h)
            scores = q.transpose(0, 2, 1, 3) @ keys.transpose(0, 2, 3, 1) / np.float32(math.sqrt(q.shape[-1]))
            scores[np.broadcast_to(hidden, scores.shape)] = -np.inf
            weights = np.exp(log_softmax(scores))  # (n, h, L, used)
            x = block.join(x, (weights @ values.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3))
        self._state[rows] = self._norm(x[:, -1])


def _token_arrays(tokens: Array) -> Array:
    """`_token_inputs`.  # (n, L, 4) -> (n, L, 7)"""
    x = np.empty((*tokens.shape[:2], _INPUTS), np.float32)
    quantity, ratio, mine = tokens[..., 0], tokens[..., 1], tokens[..., 3]
    x[..., 0] = np.log1p(np.maximum(quantity, 0)) / np.float32(3.0)
    x[..., 1], x[..., 2], x[..., 3], x[..., 4] = quantity / 30.0, ratio, tokens[..., 2] / 10.0, mine
    x[..., 5], x[..., 6] = ratio * mine, 1.0 - mine
    return x
