"""Samples for L2 and L3 (L4's are in `l4_samples`): sequences of rows for people, batches of arrays for training.

A data set is a list of row numbers into shared tables. `dataset[i]` is a row type of the guides; `dataset.batch(at)`
gathers any rows as arrays, and is what training uses. Indices `at` count within the data set, 0 .. len−1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.day_batch import Bools, Floats, Ints
from echelon.hrl_xf.goals import goal_mask
from echelon.hrl_xf.log_columns import REJECT
from echelon.hrl_xf.shards import ranges
from echelon.hrl_xf.split import Split, WorldSplit
from echelon.hrl_xf.state_builder import role_one_hot
from echelon.hrl_xf.thread_tables import REPRESENTABLE
from echelon.hrl_xf.tournament_data import TournamentData

T = TypeVar("T")
Array = NDArray[np.float32]
_CHUNK = 4096


@dataclass(frozen=True)
class MacroSample:
    """One dawn and the goal of its day (L2)."""

    day: int
    state_static: Array  # (12,)
    state_temporal: Array  # (H+1, 10)
    x_role: Array  # (2,)
    goal: Array  # (16,)


@dataclass(frozen=True)
class MicroSample:
    """One decision in one negotiation (L3); `residual` is against `offer_base`, the baseline as a legal offer."""

    negotiation_id: str
    history: Array  # (L, 4) quantity, price as ratio of the issue's range, days ahead, 1 if mine
    baseline: Array  # (3,) quantity, unit price, days ahead
    residual: Array  # (2,) pieces, currency; zeros unless REJECT
    goal: Array  # (16,)
    time_label: int
    """days ahead of the offer sent; −1 unless REJECT"""
    time_mask: Array  # (H+1,)
    offer_base: Ints  # (3,) quantity, unit price, days ahead
    op: int
    role: Array  # (2,) buyer, seller
    relative_time: float
    open_goal: Array  # (4, 2) bucket by bucket [buy, sell]


@dataclass(frozen=True)
class MacroBatch:
    """N days."""

    day: Ints  # (N,) current_step
    x_static: Array  # (N, 12)
    X_temporal: Array  # (N, H+1, 10)
    x_role: Array  # (N, 2)
    goal: Array  # (N, 16) v2 label
    goal_mask: Bools  # (N, 16) what of it means something
    spot: Array  # (N, 2) spot prices in and out


@dataclass(frozen=True)
class MicroBatch:
    """N decisions in B threads. One causal pass over `tokens` serves all: decision i reads position history[i] − 1."""

    tokens: Array  # (B, L, 4)
    token_mask: Bools  # (B, L)
    thread: Ints  # (N,) row of `tokens`
    history: Ints  # (N,) tokens before the decision; 0 for an opening
    # context
    goal: Array  # (N, 16)
    open_goal: Array  # (N, 4, 2) pieces still open after the day's deals so far
    baseline: Array  # (N, 3) quantity, unit price, days ahead
    offer_base: Ints  # (N, 3) the same as a legal offer; quantity 0 where there is none
    role: Array  # (N, 2)
    relative_time: Array  # (N,)
    issues: Ints  # (N, 6) bounds of quantity, days ahead, price
    B_free: Floats  # (N,)
    safe: Array  # (N, H+1) safe quantity left on this side
    time_mask: Array  # (N, H+1) 0 or −inf; all −inf where L1 allows nothing
    others: Ints  # (N, 3) other threads of the call on this side with an offer, their quantity, rank by price
    on_table: Bools  # (N,) whether there is an offer to accept: then it is the last token
    l1_op: Ints  # (N,) L1's own answer
    spot: Array  # (N, 2) at dawn
    # labels
    op: Ints  # (N,) 0 ACCEPT, 1 REJECT, 2 END
    delta_q: Ints  # (N,) pieces above offer_base; 0 unless REJECT
    delta_p: Ints  # (N,) currency above offer_base; 0 unless REJECT
    time_label: Ints  # (N,) days ahead; −1 unless REJECT
    delta_day: Ints  # (N,) days later than offer_base; 0 unless REJECT
    in_range: Bools  # (N,) a REJECT whose residuals L1 lets pass: train Δq, Δp and days ahead on these only
    fits: Ints  # (N,) which rules of L1 the sent or accepted offer keeps


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

    def whole(self) -> MacroBatch:
        """All rows in memory (1.8 kB a day): features are computed once, and an epoch only picks rows."""
        parts = [self.batch(np.arange(i, min(i + _CHUNK, len(self)))) for i in range(0, max(1, len(self)), _CHUNK)]
        return MacroBatch(
            *(np.concatenate(columns) for columns in zip(*(vars(p).values() for p in parts), strict=True))
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
        """Row of each decision's thread in the tables; decisions of one thread stand together.  # (N,)"""
        return self.data.tables.store.take("decision.thread", self.rows)

    def thread_batches(self, decisions: int, rng: np.random.Generator | None = None) -> Iterator[Ints]:
        """Indices for `batch`, whole threads together, about `decisions` in each; threads in random order if `rng`.

        No thread is divided: a batch has fewer or more decisions by less than the longest thread.
        """
        starts = np.flatnonzero(np.diff(self.thread, prepend=-1))
        sizes = np.diff(np.append(starts, len(self)))
        order = np.arange(len(starts)) if rng is None else rng.permutation(len(starts))
        number = (np.cumsum(sizes[order]) - sizes[order]) // decisions  # of the batch in which a thread begins
        for some in np.split(order, np.flatnonzero(np.diff(number)) + 1):
            if len(some):
                yield ranges(starts[some], sizes[some])

    def batch(self, at: Ints) -> MicroBatch:
        tables = self.data.tables
        m = tables.moments(self.rows[at])
        unique, first, thread = np.unique(m.thread, return_index=True, return_inverse=True)
        order = np.argsort(first)  # as they come: logs may stand in the tables in another order
        threads, thread = tables.threads(unique[order]), np.argsort(order)[thread]
        goal = self.data.goal_of_day(m.day)
        wanted = goal.reshape(-1, 4, 4)[:, :, ::2].astype(np.float64)
        rejects = m.op == REJECT
        residual = np.where(rejects[:, None], m.sent_offer - m.plain, 0)
        return MicroBatch(
            tokens=threads.tokens,
            token_mask=threads.mask,
            thread=thread.astype(np.int64),
            history=m.history,
            goal=goal,
            open_goal=np.maximum(wanted - m.signed, 0.0).astype(np.float32),
            baseline=m.baseline.astype(np.float32),
            offer_base=m.plain,
            role=role_one_hot(m.seller),
            relative_time=m.relative_time,
            issues=m.issues,
            B_free=m.B_free,
            safe=m.safe.astype(np.float32),
            time_mask=np.where(m.open, np.float32(0), np.float32(-np.inf)),
            others=m.others,
            on_table=m.on_table,
            l1_op=m.l1_op,
            spot=m.spot.astype(np.float32),
            op=m.op,
            delta_q=residual[:, 0],
            delta_p=residual[:, 1],
            time_label=np.where(rejects, m.sent_offer[:, 2], -1),
            delta_day=residual[:, 2],
            in_range=rejects & (m.fits == REPRESENTABLE),
            fits=m.fits,
        )

    def _row(self, at: int) -> MicroSample:
        b = self.batch(np.array([at]))
        return MicroSample(
            negotiation_id=self.data.negotiation_id(int(self.thread[at])),
            history=b.tokens[0, : b.history[0]],
            baseline=b.baseline[0],
            residual=np.array([b.delta_q[0], b.delta_p[0]], np.float32),
            goal=b.goal[0],
            time_label=int(b.time_label[0]),
            time_mask=b.time_mask[0],
            offer_base=b.offer_base[0],
            op=int(b.op[0]),
            role=b.role[0],
            relative_time=float(b.relative_time[0]),
            open_goal=b.open_goal[0],
        )
