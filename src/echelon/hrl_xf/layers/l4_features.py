"""What L4 sees of the threads it coordinates, and the teacher it learns from (spec §8). Pure numpy, no learning.

Rows are threads; threads of one set were decided in one call. The *last offer* of a thread is the last one either side
made; a thread without any is described by L1's baseline instead, so that d*, price and quantity always belong together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from echelon.hrl_xf.state.features import P_MAX
from echelon.hrl_xf.state.goals import BUCKETS, GOAL_SIZE
from echelon.runtime.arrays import Bools, Float32, Floats, Ints

THREAD_FEATURES = 24
GLOBAL_FEATURES = 30
CONFLICT_RANGE = 3.0
ROUNDS = 20.0
_BUY_PRESSURE, _SELL_PRESSURE = 8, 9  # channels of X_temporal


@dataclass(frozen=True)
class ThreadStates:
    """K threads at the moment of a decision; the day's arrays are repeated for each thread."""

    seller: Bools  # (K,)
    last: Floats  # (K, 3) the last offer: quantity, days ahead, unit price
    spoken: Bools  # (K,) whether there was one
    baseline: Floats  # (K, 3) quantity, days ahead, unit price
    safe: Floats  # (K, H+1) safe quantity of the thread's side
    mask_open: Bools  # (K, H+1)
    round: Floats  # (K,)
    relative_time: Floats  # (K,)
    goal: Floats  # (K, 16)
    X_temporal: Float32  # (K, H+1, 10)
    I_max: Floats  # (K,)

    @cached_property
    def standing(self) -> Floats:
        """The last offer, or the baseline where there is none yet.  # (K, 3)"""
        return np.where(self.spoken[:, None], self.last, self.baseline)

    @cached_property
    def d_star(self) -> Ints:
        """Days ahead of the standing offer.  # (K,)"""
        days: Ints = np.minimum(np.maximum(self.standing[:, 1], 0), self.safe.shape[1] - 1).astype(np.int64)
        return days


def closeness(price_gap: Floats) -> Floats:
    """1 / (1 + 5·|price gap|)"""
    return 1.0 / (1.0 + 5.0 * np.abs(price_gap))


def thread_priority(days: Ints, pressure: Floats, relative_time: Floats, price_gap: Floats) -> Floats:
    """clip(1 + .5/(d*+1) + .5·pressure + .5·relative time + .5·closeness, .1, 3)  # (K,)"""
    raw = 1.0 + 0.5 / (days + 1.0) + 0.5 * pressure + 0.5 * relative_time + 0.5 * closeness(price_gap)
    return np.minimum(np.maximum(raw, 0.1), 3.0)


def teacher_alphas(days: Ints, priority: Floats, first: Ints) -> Floats:
    """The heuristic coordinator: α of the threads of each set; set i is the rows `first[i]:first[i+1]`.  # (K,)

    raw_i = priority_i / (d_i + 1) / (1 + Σ_{j≠i} exp(−|d_i − d_j| / 3)),  α = raw / Σ raw
    """
    sizes = np.diff(np.append(first, len(days)))
    alpha = np.empty(len(days))
    for size in np.unique(sizes):  # sets of one size are one batch
        rows = first[sizes == size][:, None] + np.arange(size)  # (S, size)
        d = days[rows].astype(np.float64)
        conflict = np.exp(-np.abs(d[:, :, None] - d[:, None, :]) / CONFLICT_RANGE).sum(axis=2) - 1.0
        raw = priority[rows] / (d + 1.0) / (1.0 + conflict)
        alpha[rows] = raw / raw.sum(axis=1, keepdims=True)
    return alpha


def thread_features(threads: ThreadStates) -> Float32:
    """`thread_feat` of each thread; column 0 is its priority.  # (K, 24)"""
    k, d, I_max = np.arange(len(threads.seller)), threads.d_star, threads.I_max
    quantity, _, price = threads.standing.T
    firsts = np.array([first for first, _ in BUCKETS.edges])
    bucket = firsts.searchsorted(d, side="right") - 1
    q_buy, p_buy, q_sell, p_sell = threads.goal.reshape(-1, len(firsts), 4)[k, bucket].T.astype(np.float64)
    q_goal, p_goal = np.where(threads.seller, q_sell, q_buy), np.where(threads.seller, p_sell, p_buy)
    channels = threads.X_temporal[k, d].astype(np.float64)  # (K, 10)
    pressure = np.where(threads.seller, channels[:, _BUY_PRESSURE], channels[:, _SELL_PRESSURE])
    price_gap = (price - p_goal) / P_MAX
    columns = [
        thread_priority(d, pressure, threads.relative_time, price_gap), d / (threads.safe.shape[1] - 1.0),
        threads.mask_open[k, d], threads.safe[k, d] / I_max, threads.baseline[:, 0] / I_max,
        threads.baseline[:, 2] / P_MAX, q_buy / I_max, q_sell / I_max, p_buy / P_MAX, p_sell / P_MAX,
        threads.round / ROUNDS, threads.relative_time, price_gap, (quantity - q_goal) / I_max,
    ]  # fmt: skip
    found = np.empty((len(k), THREAD_FEATURES), np.float32)
    for i, column in enumerate(columns):
        found[:, i] = column
    found[:, len(columns) :] = channels
    return found


def global_features(goal: Floats, x_static: Float32, n_buy: Ints, n_sell: Ints, I_max: Floats) -> Float32:
    """`global_feat` of each set: goal (Q by I_max, P by 50), x_static, numbers of threads by 10.  # (S, 30)"""
    scaled = (
        np.asarray(goal, np.float64).reshape(-1, 4, 2, 2)
        / np.stack([I_max, np.full_like(I_max, P_MAX)], axis=-1)[:, None, None, :]
    )
    counts = np.stack([n_buy, n_sell], axis=-1) / 10.0
    return np.concatenate([scaled.reshape(len(I_max), GOAL_SIZE), x_static, counts], axis=1).astype(np.float32)
