"""L4 at play, in numpy: `GlobalCoordinator` for the threads of one call."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from echelon.hrl_xf.layers.play_arrays import Weights, log_softmax, relu
from echelon.runtime.arrays import Bools, Float32, Ints


class _PlayAttention:
    """`_SetAttention` for one set without padding."""

    def __init__(self, weights: Weights, width: int, heads: int, horizon: int) -> None:
        self.heads = heads
        self.slope, self.table = weights.take("slope", heads), weights.take("table", heads, horizon + 1)
        self.norm, self.qkv = weights.norm("norm", width), weights.linear("qkv", width, 3 * width)
        self.out = weights.linear("out", width + heads, width)
        self.mlp_norm, self.up = weights.norm("mlp.0", width), weights.linear("mlp.1", width, 2 * width)
        self.down = weights.linear("mlp.3", 2 * width, width)

    def __call__(self, x: Float32, distance: Ints) -> Float32:  # (K, w), (K, K)
        K, width = x.shape
        head = width // self.heads
        q, k, v = self.qkv(self.norm(x)).reshape(K, 3, self.heads, head).transpose(1, 2, 0, 3)  # (h, K, w/h) each
        scores = q @ k.transpose(0, 2, 1) / np.float32(math.sqrt(head))  # (h, K, K)
        scores += self.table[:, distance] - self.slope[:, None, None] * distance.astype(np.float32)
        highest = scores.max(axis=2, keepdims=True)
        weights = np.exp(scores - highest)
        total = weights.sum(axis=2, keepdims=True)
        gathered = (weights / total @ v).transpose(1, 0, 2).reshape(K, width)
        crowd = np.minimum(np.maximum((highest + np.log(total))[:, :, 0].T, -30.0), 30.0)  # (K, h)
        x = x + self.out(np.concatenate([gathered, crowd], axis=1))
        return x + self.down(relu(self.up(self.mlp_norm(x))))


class PlayCoordinator:
    """A `GlobalCoordinator` of these options, in numpy."""

    network: ClassVar[str] = "GlobalCoordinator"

    def __init__(
        self,
        weights: Weights,
        *,
        horizon: int,
        thread_feat_dim: int,
        global_feat_dim: int,
        width: int,
        heads: int,
        layers: int,
    ) -> None:
        self.horizon, self.width = horizon, width
        self.day = weights.take("day.weight", horizon + 1, width)
        self.thread = weights.linear("thread", thread_feat_dim, width)
        self.common, self.role = weights.linear("common", global_feat_dim, width), weights.linear("role", 2, width)
        blocks = weights.below("blocks")
        self.blocks = [_PlayAttention(blocks.below(str(i)), width, heads, horizon) for i in range(layers)]
        self.read, self.score = (
            weights.linear("read.0", width + thread_feat_dim, width),
            weights.linear("read.2", width, 1),
        )

    def alpha(self, thread_feat: Float32, global_feat: Float32, days: Ints, role: Float32, mask: Bools) -> Float32:
        """α of each thread of S sets, 0 in padding.  # (S, K, 24), (S, 30), (S, K), (S, K, 2), (S, K) -> (S, K)"""
        found = np.zeros(mask.shape, np.float32)
        for i, inside in enumerate(mask):
            if inside.any():
                found[i, inside] = self.alpha_of(
                    thread_feat[i, inside], global_feat[i], days[i, inside], role[i, inside]
                )
        return found

    def alpha_of(self, thread_feat: Float32, global_feat: Float32, days: Ints, role: Float32) -> Float32:
        """α of the threads of one call.  # (K, 24), (30,), (K,), (K, 2) -> (K,)"""
        return np.exp(log_softmax(self.logits(thread_feat, global_feat, days, role)))

    def logits(self, thread_feat: Float32, global_feat: Float32, days: Ints, role: Float32) -> Float32:
        """What α is the softmax of.  # (K,)"""
        feat, d = thread_feat.astype(np.float32), np.minimum(np.maximum(days, 0), self.horizon)
        x = self.thread(feat) + self.day[d] + self.role(role.astype(np.float32))
        x = relu(x + self.common(global_feat.astype(np.float32)))
        distance = np.abs(d[:, None] - d)
        for block in self.blocks:
            x = block(x, distance)
        return self.score(relu(self.read(np.concatenate([x, feat], axis=1))))[:, 0]
