"""L4: how the agent divides its attention among the threads of one call (spec §8).

α is a softmax over the threads. The network sees a set: no thread has a place in it, and padding is not part of it.
Attention scores carry the bias −|d_i − d_j| (scaled per head) plus a learned table over the distance in days. How many
threads are near another one is a sum over its neighbours, which the softmax of attention divides out again; so its
logarithm, the log-sum-exp of the scores, is passed on with what attention gathers. The teacher's conflict is such a
sum.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.hrl_xf.layers.l4_features import GLOBAL_FEATURES, THREAD_FEATURES
from echelon.hrl_xf.layers.l4_play import PlayCoordinator
from echelon.hrl_xf.networks.files import Layer, load_layer
from echelon.hrl_xf.networks.player_cache import PlayerCache, weights_of
from echelon.runtime.arrays import Bools, Float32, Ints
from echelon.runtime.devices import device_of_layer, on_device


class _SetAttention(nn.Module):
    """Multi-head attention among threads, near days first; and the crowd around each thread, one number per head."""

    def __init__(self, width: int, heads: int, horizon: int) -> None:
        super().__init__()
        self.heads, self.horizon = heads, horizon
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.slope = nn.Parameter(torch.linspace(0.25, 1.0, heads))
        self.table = nn.Parameter(torch.zeros(heads, horizon + 1))
        self.out = nn.Linear(width + heads, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor, distance: Tensor, mask: Tensor) -> Tensor:  # (S, K, w), (S, K, K), (S, K)
        S, K, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(S, K, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # (S, h, K, w/h) each
        bias = self.table[:, distance].transpose(0, 1) - self.slope[:, None, None] * distance[:, None]  # (S, h, K, K)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
        scores = scores.masked_fill(~mask[:, None, None, :], -1e9)
        crowd = torch.logsumexp(scores, -1).transpose(1, 2)  # (S, K, h)
        gathered = (scores.softmax(-1) @ v).transpose(1, 2).reshape(S, K, width)
        x = x + self.out(torch.cat([gathered, crowd.clamp(-30.0, 30.0)], -1))
        mixed: Tensor = x + self.mlp(x)
        return mixed


class GlobalCoordinator(Layer):
    """thread_feat of a set, global_feat → α."""

    def __init__(
        self,
        horizon: int = 40,
        thread_feat_dim: int = THREAD_FEATURES,
        global_feat_dim: int = GLOBAL_FEATURES,
        width: int = 32,
        heads: int = 4,
        layers: int = 1,
    ) -> None:
        super().__init__()
        if min(horizon, thread_feat_dim, global_feat_dim, width, heads, layers) < 1 or width % heads:
            raise ValueError(f"sizes must be positive and {width=} a multiple of {heads=}")
        self.options = {
            "horizon": horizon, "thread_feat_dim": thread_feat_dim, "global_feat_dim": global_feat_dim, "width": width,
            "heads": heads, "layers": layers,
        }  # fmt: skip
        self.horizon = horizon
        self.thread = nn.Linear(thread_feat_dim, width)
        self.common = nn.Linear(global_feat_dim, width)
        self.day = nn.Embedding(horizon + 1, width)
        self.role = nn.Linear(2, width)
        self.blocks = nn.ModuleList(_SetAttention(width, heads, horizon) for _ in range(layers))
        self.read = nn.Sequential(nn.Linear(width + thread_feat_dim, width), nn.ReLU(), nn.Linear(width, 1))
        nn.init.normal_(self.day.weight, std=0.1)

    def logits(self, thread_feat: Tensor, global_feat: Tensor, days: Tensor, role: Tensor, mask: Tensor) -> Tensor:
        """(S, K, 24), (S, 30), (S, K), (S, K, 2), (S, K) → (S, K); padding has no effect."""
        feat = thread_feat.masked_fill(~mask[..., None], 0.0)
        days = days.masked_fill(~mask, 0).clamp(0, self.horizon)
        x = self.thread(feat) + self.day(days) + self.role(role.masked_fill(~mask[..., None], 0.0))
        x = functional.relu(x + self.common(global_feat)[:, None])
        distance = (days[:, :, None] - days[:, None, :]).abs()
        for block in self.blocks:
            x = block(x, distance, mask)
        scores: Tensor = self.read(torch.cat([x, feat], -1)).squeeze(-1)
        return scores

    def forward(self, thread_feat: Tensor, global_feat: Tensor, days: Tensor, role: Tensor, mask: Tensor) -> Tensor:
        """α; it sums to 1 over a set's threads and is 0 in padding and in an empty set.  # (S, K)"""
        return masked_softmax(self.logits(thread_feat, global_feat, days, role, mask), mask)

    def alpha(self, thread_feat: Float32, global_feat: Float32, days: Ints, role: Float32, mask: Bools) -> Float32:
        """The same for arrays."""
        if len(mask) == 1 and self.thread.weight.device.type == "cpu" and mask.all():
            return _PLAY.of(self, self.thread.weight).alpha(thread_feat, global_feat, days, role, mask)
        arrays = (thread_feat.astype(np.float32), global_feat.astype(np.float32), days, role.astype(np.float32), mask)
        tensors = tuple(torch.as_tensor(np.ascontiguousarray(a)) for a in arrays)
        with torch.inference_mode():
            found: Float32 = self(*on_device(tensors, device_of_layer(self))).cpu().numpy()
        return found


_PLAY: PlayerCache[GlobalCoordinator, PlayCoordinator] = PlayerCache(
    lambda layer: PlayCoordinator(weights_of(layer), **layer.options)
)


def masked_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis where `mask`; zeros where nothing is."""
    weights = logits.masked_fill(~mask, -1e9).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


def distill_loss(logits: Tensor, alpha: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy with the teacher, one number per set: −Σ α log α̂.  # (S, K) -> (S,)"""
    log_alpha = logits.masked_fill(~mask, -1e9).log_softmax(-1).masked_fill(~mask, 0.0)
    return -(alpha * log_alpha).sum(-1)


def load_l4(path: str | Path, device: torch.device | str = "cpu") -> GlobalCoordinator:
    """The L4 in a file."""
    return load_layer(GlobalCoordinator, path, device)
