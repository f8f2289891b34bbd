"""Samples for L4: the threads of one call as a set, with the teacher's α."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.day_batch import Bools, Ints
from echelon.hrl_xf.l4_features import ThreadStates, global_features, teacher_alphas, thread_features
from echelon.hrl_xf.sample_tables import Moments
from echelon.hrl_xf.samples import Rows
from echelon.hrl_xf.shards import ranges
from echelon.hrl_xf.state_builder import role_one_hot

Array = NDArray[np.float32]


@dataclass(frozen=True)
class L4DistillSample:
    """The threads of one call and how the teacher divides its attention (L4)."""

    thread_feat: Array  # (K, 24)
    global_feat: Array  # (30,)
    days: Ints  # (K,) d*
    role: Array  # (K, 2)
    alpha: Array  # (K,)


@dataclass(frozen=True)
class L4Batch:
    """S sets of up to K threads."""

    thread_feat: Array  # (S, K, 24)
    global_feat: Array  # (S, 30)
    days: Ints  # (S, K)
    role: Array  # (S, K, 2)
    mask: Bools  # (S, K) True where there is a thread
    alpha: Array  # (S, K) the teacher's; 0 where there is none


class L4Dataset(Rows[L4DistillSample]):
    """Sets of two threads or more that were decided in one call. A lone thread's α is 1 and teaches nothing."""

    @property
    def log(self) -> Ints:
        take = self.data.tables.store.take
        decision = take("member.decision", take("set.first_member", self.rows))
        return self.data.log_of_day(take("thread.day", take("decision.thread", decision)))

    def batch(self, at: Ints) -> L4Batch:
        take = self.data.tables.store.take
        rows = self.rows[at]
        sizes = take("set.n_members", rows)
        first = np.cumsum(sizes) - sizes
        m = self.data.tables.moments(take("member.decision", ranges(take("set.first_member", rows), sizes)))
        states, x_static = self._states(m)
        feat = thread_features(states)
        alpha = teacher_alphas(states.d_star, feat[:, 0].astype(np.float64), first)
        sellers = np.add.reduceat(m.seller.astype(np.int64), first) if len(rows) else sizes
        common = global_features(states.goal[first], x_static[first], sizes - sellers, sellers, states.I_max[first])
        K = max(1, int(sizes.max(initial=0)))
        mask = np.arange(K) < sizes[:, None]
        return L4Batch(
            thread_feat=_padded(feat, mask),
            global_feat=common,
            days=_padded(states.d_star, mask),
            role=_padded(role_one_hot(m.seller), mask),
            mask=mask,
            alpha=_padded(alpha.astype(np.float32), mask),
        )

    def _states(self, m: Moments) -> tuple[ThreadStates, Array]:
        """The threads as L4 sees them, and x_static of their days."""
        tables = self.data.tables
        days, day = np.unique(m.day, return_inverse=True)
        batch = tables.days(days)
        features = tables.build(batch)
        unique, thread = np.unique(m.thread, return_inverse=True)
        last = tables.threads(unique).last[thread, np.maximum(m.history - 1, 0)]
        states = ThreadStates(
            seller=m.seller,
            last=last.astype(np.float64),
            spoken=m.history > 0,
            baseline=m.baseline,
            safe=m.safe,
            mask_open=m.open,
            round=m.round.astype(np.float64),
            relative_time=m.relative_time.astype(np.float64),
            goal=self.data.goal_of_day(m.day).astype(np.float64),
            X_temporal=features.X_temporal[day],
            I_max=(batch.n_lines * batch.n_steps)[day],
        )
        return states, features.x_static[day]

    def _row(self, at: int) -> L4DistillSample:
        b = self.batch(np.array([at]))
        return L4DistillSample(b.thread_feat[0], b.global_feat[0], b.days[0], b.role[0], b.alpha[0])


def _padded(values: NDArray[Any], mask: Bools) -> NDArray[Any]:
    """Rows laid out in sets.  # (M, …) -> (S, K, …)"""
    out = np.zeros((*mask.shape, *values.shape[1:]), values.dtype)
    out[mask] = values
    return out
