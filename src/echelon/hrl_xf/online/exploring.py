"""L2 and L4 as they play in training: they draw around what the layer says, and keep what they drew.

    L2   z ~ N(mean, σ²) in the layer's inner space (before softplus; log price ratio), where the goal means something
    L4   z ~ N(scores, σ²), one number for each thread; α = softmax(z)

L3 draws by itself (`LearntExecutor.act`). The learner scores the same z (`policies`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.layers.l2_play import LearntManager, PlayManager, goal_of, masked
from echelon.hrl_xf.layers.l4_play import PlayCoordinator
from echelon.hrl_xf.layers.play_arrays import log_softmax
from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.hrl_xf.state.features import DayFeatures
from echelon.hrl_xf.state.goals import GOAL_SIZE, goal_mask
from echelon.runtime.arrays import Bools, Ints

Array = NDArray[np.float32]
LOG_STD = (math.log(0.03), math.log(1.0))
"""Deviations of the draws of L2 and L4 stay between these: the floor keeps exploring, the ceiling the meaning."""


_MIDDLE, _HALF = (LOG_STD[0] + LOG_STD[1]) / 2, (LOG_STD[1] - LOG_STD[0]) / 2


def bounded(raw: Array) -> Array:
    """Log-deviations inside `LOG_STD`, as `onpolicy.distributions.soft_bounded` has them for tensors."""
    found: Array = np.float32(_MIDDLE) + np.float32(_HALF) * np.tanh((raw - np.float32(_MIDDLE)) / np.float32(_HALF))
    return found


def unbounded(log_std: float) -> float:
    """The inverse of `bounded`."""
    if not LOG_STD[0] < log_std < LOG_STD[1]:
        low, high = (math.exp(bound) for bound in LOG_STD)
        raise ValueError(f"a deviation of {math.exp(log_std):g} must be between {low:g} and {high:g}")
    return _MIDDLE + _HALF * math.atanh((log_std - _MIDDLE) / _HALF)


def log_density(z: Array, mean: Array, log_std: Array, where: Bools) -> float:
    """Log-density of a diagonal normal, summed where `where`."""
    scaled = (z - mean) * np.exp(-log_std)
    terms = -0.5 * scaled * scaled - log_std - np.float32(0.5 * math.log(2.0 * math.pi))
    return float(terms[where].sum(dtype=np.float64))


@dataclass(frozen=True)
class DrawnGoal:
    """A dawn: what L2 saw and drew."""

    days: DayBatch
    """one day"""
    features: DayFeatures
    mask: Bools  # (16,)
    z: Array  # (16,)
    log_prob: float


@dataclass(frozen=True)
class DrawnShares:
    """A call: what L4 saw and drew."""

    thread_feat: Array  # (K, 24)
    global_feat: Array  # (30,)
    days: Ints  # (K,)
    role: Array  # (K, 2)
    z: Array  # (K,)
    log_prob: float


class ExploringManager(LearntManager):
    """L2 that draws its goal; `noted` is told each dawn."""

    def __init__(self, layer: PlayManager, rng: np.random.Generator, noted: Callable[[DrawnGoal], None]) -> None:
        self.layer, self.rng, self.noted, self.horizon = layer, rng, noted, layer.horizon

    def goals_of_features(self, days: DayBatch, x: DayFeatures) -> Array:
        """The goal of one day.  # (1, 16)"""
        mean, raw = self.layer.inner(x.x_static[0], x.X_temporal[0], x.x_role[0])
        log_std = bounded(raw)
        spot = np.array([days.spot_price_in[0], days.spot_price_out[0]], np.float32)
        mask = masked(np.ones((1, GOAL_SIZE), np.float32), x.x_role, goal_mask(days))[0] > 0
        noise = self.rng.standard_normal(GOAL_SIZE).astype(np.float32)
        z = np.where(mask, mean + np.exp(log_std) * noise, mean)
        self.noted(DrawnGoal(days, x, mask, z, log_density(z, mean, log_std, mask)))
        return masked(goal_of(z, spot)[None], x.x_role, goal_mask(days))


class ExploringCoordinator:
    """L4 that draws its scores; `noted` is told each call."""

    def __init__(
        self,
        layer: PlayCoordinator,
        log_std: float,
        rng: np.random.Generator,
        noted: Callable[[DrawnShares], None],
    ) -> None:
        self.layer, self.log_std, self.rng, self.noted = layer, np.float32(log_std), rng, noted

    def alpha(self, thread_feat: Array, global_feat: Array, days: Ints, role: Array, mask: Bools) -> Array:
        """α of the threads of one call, none of them padding.  # (1, K)"""
        feat, common, parts = (np.asarray(a[0], np.float32) for a in (thread_feat, global_feat, role))
        mean = self.layer.logits(feat, common, days[0], parts)
        noise = self.rng.standard_normal(len(mean))
        z = (mean + np.exp(self.log_std) * noise).astype(np.float32)
        everywhere = np.ones(len(z), np.bool_)
        log_prob = log_density(z, mean, np.full(len(z), self.log_std, np.float32), everywhere)
        self.noted(DrawnShares(feat, common, np.asarray(days[0], np.int64), parts, z, log_prob))
        alpha: Array = np.exp(log_softmax(z[None]))
        return alpha
