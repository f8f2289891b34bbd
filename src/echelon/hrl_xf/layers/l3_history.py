"""The history of a negotiation at play, in numpy: `l3_trunk.HistoryTrunk`, and a cache that is extended by one offer at
a time.
"""

from __future__ import annotations

import math

import numpy as np

from echelon.hrl_xf.layers.play_arrays import Weights, log_softmax, relu
from echelon.runtime.arrays import Float32, Ints

INPUTS = 7
"""numbers that a token becomes"""


class _PlayBlock:
    """A block of the trunk for the newest offers of a few threads."""

    def __init__(self, weights: Weights, width: int, heads: int) -> None:
        self.heads = heads
        self.norm1, self.norm2 = weights.norm("norm1", width), weights.norm("norm2", width)
        self.qkv, self.out = weights.linear("qkv", width, 3 * width), weights.linear("out", width, width)
        self.up, self.down = weights.linear("up", width, 2 * width), weights.linear("down", 2 * width, width)

    def split(self, x: Float32) -> Float32:
        """Queries, keys and values.  # (n, L, w) -> (3, n, L, h, w/h)"""
        n, L, width = x.shape
        return self.qkv(self.norm1(x)).reshape(n, L, 3, self.heads, width // self.heads).transpose(2, 0, 1, 3, 4)

    def join(self, x: Float32, attended: Float32) -> Float32:
        """Back to (n, L, w), and through the MLP."""
        x = x + self.out(attended.reshape(x.shape))
        return x + self.down(relu(self.up(self.norm2(x))))


class PlayTrunk:
    """The weights of a `HistoryTrunk`."""

    def __init__(self, weights: Weights, width: int, heads: int, layers: int, max_tokens: int) -> None:
        self.width, self.heads, self.max_tokens = width, heads, max_tokens
        self.embed, self.norm = weights.linear("embed", INPUTS, width), weights.norm("norm", width)
        self.begin, self.place = weights.take("begin", width), weights.take("place", max_tokens + 1, width)
        blocks = weights.below("blocks")
        self.blocks = [_PlayBlock(blocks.below(str(i)), width, heads) for i in range(layers)]


class HistoryCache:
    """States of many threads, extended offer by offer.

    The weights must not change while it lives. It has room for `max_tokens` offers of each thread; a further one takes
    the place of the oldest, as in `HistoryTrunk.forward`.
    """

    def __init__(self, trunk: PlayTrunk, threads: int) -> None:
        self._room = trunk.max_tokens + 1
        self._embed, self._norm, self._blocks, self._place = trunk.embed, trunk.norm, trunk.blocks, trunk.place
        head = trunk.width // trunk.heads
        shape = (len(self._blocks), threads, self._room, trunk.heads, head)
        self._keys, self._values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._length = np.zeros(threads, np.int64)  # offers told so far
        self._state = np.zeros((threads, trunk.width), np.float32)
        """of each thread, after all it was told  # (threads, w)"""
        begin = np.broadcast_to(trunk.begin + self._place[0], (threads, 1, trunk.width))
        self._extend(np.arange(threads), begin, np.zeros((threads, 1), np.int64))
        self._nothing_said = self._state[:1].copy()

    def __len__(self) -> int:
        return len(self._length)

    def restart(self) -> None:
        """Forget all offers; the state before any offer is known already."""
        self._length[:] = 0
        self._state[:] = self._nothing_said

    def states(self, rows: Ints) -> Float32:
        """What these threads' histories come to.  # (n,) -> (n, w)"""
        return self._state[rows]

    def tell(self, rows: Ints, tokens: Float32, count: Ints) -> None:
        """Give each thread its next offers, `count` of them; the rest repeat the last one.

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

    def _extend(self, rows: Ints, x: Float32, at: Ints) -> None:  # (n,), (n, L, w), (n, L)
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


def _token_arrays(tokens: Float32) -> Float32:
    """`l3_trunk._token_inputs`.  # (n, L, 4) -> (n, L, 7)"""
    x = np.empty((*tokens.shape[:2], INPUTS), np.float32)
    quantity, ratio, mine = tokens[..., 0], tokens[..., 1], tokens[..., 3]
    x[..., 0] = np.log1p(np.maximum(quantity, 0)) / np.float32(3.0)
    x[..., 1], x[..., 2], x[..., 3], x[..., 4] = quantity / 30.0, ratio, tokens[..., 2] / 10.0, mine
    x[..., 5], x[..., 6] = ratio * mine, 1.0 - mine
    return x
