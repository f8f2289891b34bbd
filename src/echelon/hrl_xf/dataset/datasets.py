"""Data sets for L2, L3 and L4: sequences of rows for people, batches of arrays for training.

A data set is a list of row numbers into shared tables. `dataset[i]` is a row type of the guides; `dataset.batch(at)`
gathers any rows as arrays, and is what training uses. Indices `at` count within the data set, 0 .. len−1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.dataset.samples import (
    L4Batch,
    L4DistillSample,
    MacroBatch,
    MacroSample,
    MicroBatch,
    MicroSample,
)
from echelon.hrl_xf.dataset.shards import ranges
from echelon.hrl_xf.dataset.split import Split, WorldSplit
from echelon.hrl_xf.dataset.thread_tables import unpack_answer
from echelon.hrl_xf.dataset.tournament import Decisions, TournamentData
from echelon.hrl_xf.layers.l4_features import ThreadStates, global_features, teacher_alphas, thread_features
from echelon.hrl_xf.state.day_state import REJECT
from echelon.hrl_xf.state.features import role_one_hot
from echelon.hrl_xf.state.goals import goal_mask
from echelon.runtime.arrays import Bools, Float32, Ints

T = TypeVar("T")


class Rows(Sequence[T], Generic[T]):
    """Row numbers into shared tables, as a sequence."""

    def __init__(self, data: TournamentData, rows: Ints) -> None:
        self.data, self.rows = data, rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: int | slice) -> T | Self:
        if isinstance(at, slice):
            return self.pick(np.arange(len(self))[at])
        return self._row(range(len(self))[at])

    def pick(self, at: Ints) -> Self:
        """The data set of these rows only."""
        return type(self)(self.data, self.rows[at])

    @property
    @abstractmethod
    def log(self) -> Ints:
        """Which log each row is of: an index into `data.records`.  # (N,)"""

    @abstractmethod
    def _row(self, at: int) -> T: ...

    def of_logs(self, chosen: Ints) -> Self:
        """The rows of some logs (indices into `data.records`)."""
        return self.pick(np.flatnonzero(np.isin(self.log, chosen)))

    def part(self, split: WorldSplit, name: Split) -> Self:
        """The rows whose world configuration is in `train`, `val` or `test`."""
        configs = [record.config_id for record in self.data.records]
        unknown = sorted(set(configs) - set(split.configs))
        if unknown:
            raise ValueError(f"the split does not know {', '.join(unknown[:5])}; extend it with `world_split`")
        return self.of_logs(np.flatnonzero([split.configs[config] == name for config in configs]))


class MacroDataset(Rows[MacroSample]):
    """Days."""

    @property
    def log(self) -> Ints:
        return self.data.log_of_day(self.rows)

    def batch(self, at: Ints) -> MacroBatch:
        rows = self.rows[at]
        days = self.data.tables.days(rows)
        features = self.data.tables.build(days)
        return MacroBatch(
            day=days.current_step.astype(np.int64),
            x_static=features.x_static,
            X_temporal=features.X_temporal,
            x_role=features.x_role,
            goal=self.data.tables.store.take("day.goal", rows),
            goal_mask=goal_mask(days),
            spot=np.stack([days.spot_price_in, days.spot_price_out], axis=-1).astype(np.float32),
        )

    def _row(self, at: int) -> MacroSample:
        one = self.batch(np.array([at]))
        return MacroSample(int(one.day[0]), one.x_static[0], one.X_temporal[0], one.x_role[0], one.goal[0])


class MicroDataset(Rows[MicroSample]):
    """Decisions that were sent, in the order of their threads."""

    @property
    def log(self) -> Ints:
        take = self.data.tables.store.take
        return self.data.log_of_day(take("thread.day", take("decision.thread", self.rows)))

    @property
    def thread(self) -> Ints:
        """Row of each decision's thread in the tables; decisions of one thread are adjacent.  # (N,)"""
        return self.data.tables.store.take("decision.thread", self.rows)

    def batch(self, at: Ints) -> MicroBatch:
        tables = self.data.tables
        d = tables.decisions(self.rows[at])
        unique, first, thread = np.unique(d.thread, return_index=True, return_inverse=True)
        order = np.argsort(first)  # the tables may hold logs in another order
        goal = self.data.goal_of_day(d.day)
        wanted = goal.reshape(-1, 4, 4)[:, :, ::2].astype(np.float64)
        return MicroBatch(
            decisions=d,
            threads=tables.threads(unique[order]),
            thread=np.argsort(order)[thread].astype(np.int64),
            goal=goal,
            open_goal=np.maximum(wanted - d.signed, 0.0).astype(np.float32),
        )

    def _row(self, at: int) -> MicroSample:
        b = self.batch(np.array([at]))
        d = b.decisions
        return MicroSample(
            negotiation_id=self.data.negotiation_id(int(self.thread[at])),
            history=b.threads.tokens[0, : d.history[0]],
            baseline=d.baseline[0].astype(np.float32),
            residual=d.residual[0, [0, 2]].astype(np.float32),
            goal=b.goal[0],
            time_label=int(d.offer[0, 1]) if d.op[0] == REJECT else -1,
            time_mask=d.open[0],
            legal_baseline=d.legal_baseline[0],
            op=int(d.op[0]),
            role=role_one_hot(d.seller)[0],
            relative_time=float(d.relative_time[0]),
            open_goal=b.open_goal[0],
        )


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
        m = self.data.tables.decisions(take("member.decision", ranges(take("set.first_member", rows), sizes)))
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

    def _states(self, m: Decisions) -> tuple[ThreadStates, Float32]:
        """The threads as L4 sees them, and x_static of their days."""
        tables = self.data.tables
        days, day = np.unique(m.day, return_inverse=True)
        batch = tables.days(days)
        features = tables.build(batch)
        unique, thread = np.unique(m.thread, return_inverse=True)
        last = tables.threads(unique).offers[thread, np.maximum(m.history - 1, 0)]
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


def macro_of(data: TournamentData) -> MacroDataset:
    return MacroDataset(data, data.rows("day"))


def micro_of(data: TournamentData) -> MicroDataset:
    """Decisions that reached the partner; first proposals that were overtaken are left out (see `dataset.builder`)."""
    rows = data.rows("decision")
    sent = unpack_answer(data.tables.store.take("decision.answer", rows))[2]
    return MicroDataset(data, rows[sent])


def l4_of(data: TournamentData) -> L4Dataset:
    rows = data.rows("set")
    return L4Dataset(data, rows[data.tables.store.take("set.n_members", rows) >= 2])
