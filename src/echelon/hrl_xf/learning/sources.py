"""From data sets to the tensors training sees, and the order in which an epoch sees them.

A source holds its rows ready in memory (up to `IN_MEMORY` of them; beyond that they are made for each batch), so that
a batch is a gather. The order of an epoch follows from the seed and the epoch's number alone: a run that was killed
finds its place again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from echelon.hrl_xf.dataset.datasets import L4Dataset, MacroDataset, MicroDataset
from echelon.hrl_xf.dataset.samples import MicroBatch
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.layers.l3_situation import P_SIZE, Q_SIZE, Mode, Situation
from echelon.hrl_xf.networks.l3_inputs import L3Inputs
from echelon.hrl_xf.state.day_state import REJECT
from echelon.runtime.arrays import Bools, Float32, Ints

IN_MEMORY = 2_000_000
CHUNK = 16_384
_WINDOW = 32
"""Batches within which threads are sorted by length: little padding, and still a random order."""

T = TypeVar("T")


def take(value: T, rows: Tensor) -> T:
    """Rows of a tensor, or of every tensor in a dataclass of tensors."""
    if isinstance(value, Tensor):
        return value.index_select(0, rows)  # type: ignore[return-value]
    return type(value)(*(take(getattr(value, f.name), rows) for f in fields(value)))  # type: ignore[arg-type]


def join(values: Sequence[T]) -> T:
    """Tensors, or dataclasses of tensors, one after the other."""
    first = values[0]
    if isinstance(first, Tensor):
        return torch.cat(list(values))  # type: ignore[arg-type, return-value]
    names = [f.name for f in fields(first)]  # type: ignore[arg-type]
    return type(first)(*(join([getattr(v, name) for v in values]) for name in names))


def shuffled(n: int, batch_size: int, rng: np.random.Generator) -> list[Ints]:
    """All rows in a random order, cut into batches."""
    order = rng.permutation(n)
    return [order[i : i + batch_size] for i in range(0, n, batch_size)]


def in_order(n: int, batch_size: int) -> list[Ints]:
    return [np.arange(i, min(i + batch_size, n)) for i in range(0, n, batch_size)]


@dataclass(frozen=True)
class L2Rows:
    """Days."""

    x_static: Tensor  # (N, 12)
    X_temporal: Tensor  # (N, H+1, 10)
    x_role: Tensor  # (N, 2)
    spot: Tensor  # (N, 2)
    goal: Tensor  # (N, 16)
    mask: Tensor  # (N, 16) 1 or 0


class L2Source:
    """Days for L2."""

    def __init__(self, data: MacroDataset) -> None:
        self._data = data
        self._rows: L2Rows | None = None
        if 0 < len(data) <= IN_MEMORY:
            self._rows = join([self._make(at) for at in in_order(len(data), CHUNK)])

    def __len__(self) -> int:
        return len(self._data)

    def _make(self, at: Ints) -> L2Rows:
        b = self._data.batch(at)
        columns = (b.x_static, b.X_temporal, b.x_role, b.spot, b.goal, b.goal_mask)
        return L2Rows(*(torch.as_tensor(column, dtype=torch.float32) for column in columns))

    def load(self, at: Ints) -> L2Rows:
        return self._make(at) if self._rows is None else take(self._rows, torch.as_tensor(at))

    def epoch(self, batch_size: int, rng: np.random.Generator | None) -> list[Ints]:
        return in_order(len(self), batch_size) if rng is None else shuffled(len(self), batch_size, rng)


@dataclass(frozen=True)
class L3Rows:
    """Decisions: what L3 sees and what the expert did, as indices of the heads."""

    inputs: L3Inputs
    thread: Tensor  # (N,) row of the batch's tokens
    history: Tensor  # (N,)
    op: Tensor  # (N,)
    day: Tensor  # (N,) 0 where there is no offer to learn
    dq: Tensor  # (N,)
    dp: Tensor  # (N,)
    op_counts: Tensor  # (N,) the answer is legal, and there was another legal one
    offer_counts: Tensor  # (N,) the offer sent is one that L3 can name


@dataclass(frozen=True)
class L3Batch:
    """Decisions with the tokens of their threads."""

    tokens: Tensor  # (B, L, 4)
    mask: Tensor  # (B, L)
    rows: L3Rows
    weight: Tensor | None = None  # (N,)


class L3Source:
    """Decisions for L3, whole threads at a time."""

    def __init__(self, data: MicroDataset, mode: Mode = "residual") -> None:
        self._data, self._mode = data, mode
        self._alpha = alphas_of(data.data) if len(data) else np.zeros(0, np.float32)
        edges = np.flatnonzero(np.diff(data.thread)) + 1 if len(data) else np.zeros(0, np.int64)
        self._first = np.concatenate([[0], edges, [len(data)]]) if len(data) else np.zeros(1, np.int64)
        self.weight: Tensor | None = None
        """one number per decision, for AWR"""
        self._rows: L3Rows | None = None
        if 0 < len(data) <= IN_MEMORY:
            self._hold()

    def __len__(self) -> int:
        return len(self._data)

    @property
    def n_threads(self) -> int:
        return len(self._first) - 1

    def _hold(self) -> None:
        parts = [self._make(at) for at in self._pieces(np.arange(self.n_threads), CHUNK)]
        longest = max(part.tokens.shape[1] for part in parts)
        self._tokens = torch.cat([_widened(part.tokens, longest) for part in parts])
        self._mask = torch.cat([_widened(part.mask, longest) for part in parts])
        self._rows = join([part.rows for part in parts])
        self._length = self._mask.sum(1)

    def _pieces(self, threads: Ints, size: int) -> list[Ints]:
        """Decisions of threads, in pieces of about `size` decisions; no thread is divided."""
        counts = np.diff(self._first)[threads]
        piece = (np.cumsum(counts) - counts) // size
        cuts = np.flatnonzero(np.diff(piece)) + 1
        return [self._decisions(some) for some in np.split(threads, cuts) if len(some)]

    def _decisions(self, threads: Ints) -> Ints:
        counts = np.diff(self._first)[threads]
        begin = np.cumsum(counts) - counts
        return np.repeat(self._first[threads] - begin, counts) + np.arange(int(counts.sum()))

    def _make(self, at: Ints) -> L3Batch:
        b = self._data.batch(at)
        s = situation_of(b, self.alpha(at))
        x = L3Inputs.of(s, self._mode)
        to = torch.as_tensor
        d = b.decisions
        op, (quantity, day, price) = to(d.op), to(d.offer).unbind(1)
        dq, dp = quantity - x.legal.first_q, price - x.legal.first_p
        known = (op == REJECT) & (day >= 0) & (dq >= 0) & (dq < Q_SIZE) & (dp >= 0) & (dp < P_SIZE)
        day, dq, dp = (v.masked_fill(~known, 0) for v in (day, dq, dp))
        known &= _at(x.legal.day, day) & _at(x.legal.quantities(day, Q_SIZE)[1], dq)
        known &= _at(x.legal.prices(x.legal.first_q + dq, P_SIZE)[1], dp)
        ops = x.legal.ops()
        rows = L3Rows(
            inputs=x, thread=to(b.thread), history=to(d.history), op=op, day=day.masked_fill(~known, 0),
            dq=dq.masked_fill(~known, 0), dp=dp.masked_fill(~known, 0), op_counts=_at(ops, op) & (ops.sum(-1) > 1),
            offer_counts=known,
        )  # fmt: skip
        return L3Batch(to(b.threads.tokens), to(b.threads.mask), rows)

    def alpha(self, at: Ints) -> Float32:
        """The teacher's α of decisions by their numbers."""
        return self._alpha[self._data.rows[at]]

    def load(self, at: Ints) -> L3Batch:
        """Decisions by their numbers; those of a thread are adjacent."""
        rows = torch.as_tensor(at)
        weight = None if self.weight is None else self.weight[rows]
        if self._rows is None:
            made = self._make(at)
            return L3Batch(made.tokens, made.mask, made.rows, weight)
        chosen = np.searchsorted(self._first, at, side="right") - 1
        threads, thread = np.unique(chosen, return_inverse=True)
        which = torch.as_tensor(threads)
        longest = max(1, int(self._length[which].max()))
        found = replace(take(self._rows, rows), thread=torch.as_tensor(thread))
        return L3Batch(self._tokens[which, :longest], self._mask[which, :longest], found, weight)

    def epoch(self, batch_size: int, rng: np.random.Generator | None) -> list[Ints]:
        """Batches of about `batch_size` decisions in whole threads; at random, threads of like length together."""
        if rng is None:
            return self._pieces(np.arange(self.n_threads), batch_size)
        order = rng.permutation(self.n_threads)
        counts = np.diff(self._first)[order]
        window = (np.cumsum(counts) - counts) // (batch_size * _WINDOW)
        order = order[np.lexsort((counts, window))]
        pieces = self._pieces(order, batch_size)
        return [pieces[i] for i in rng.permutation(len(pieces))]

    def column(self, name: str) -> NDArray[Any]:
        """A column of all decisions: op, op_counts, offer_counts …"""
        if self._rows is not None:
            return np.asarray(getattr(self._rows, name))
        parts = [np.asarray(getattr(self._make(at).rows, name)) for at in self.epoch(CHUNK, None)]
        return np.concatenate(parts)


def _at(mask: Tensor, index: Tensor) -> Tensor:
    return mask.gather(1, index[:, None]).squeeze(1)


def _widened(x: Tensor, length: int) -> Tensor:
    wide = x.new_zeros((x.shape[0], length, *x.shape[2:]))
    wide[:, : x.shape[1]] = x
    return wide


def alphas_of(data: TournamentData) -> Float32:
    """The teacher's α of each decision among the threads of its call.  # (decisions of the store,)"""
    take_, sets = data.tables.store.take, L4Dataset(data, data.rows("set"))
    alpha = np.zeros(data.tables.store.rows("decision"), np.float32)
    for at in in_order(len(sets), CHUNK):
        b = sets.batch(at)
        first, size = (take_(f"set.{name}", sets.rows[at]) for name in ("first_member", "n_members"))
        begin = np.cumsum(size) - size
        members = np.repeat(first - begin, size) + np.arange(int(size.sum()))
        alpha[take_("member.decision", members)] = b.alpha[b.mask]
    return alpha


@dataclass(frozen=True)
class L4Rows:
    """Sets of threads."""

    thread_feat: Tensor  # (S, K, 24)
    global_feat: Tensor  # (S, 30)
    days: Tensor  # (S, K)
    role: Tensor  # (S, K, 2)
    mask: Tensor  # (S, K)
    alpha: Tensor  # (S, K)


class L4Source:
    """Sets of threads for L4."""

    def __init__(self, data: L4Dataset) -> None:
        self._data = data
        self._rows: L4Rows | None = None
        if 0 < len(data) <= IN_MEMORY // 4:
            parts = [self._make(at) for at in in_order(len(data), CHUNK)]
            most = max(part.mask.shape[1] for part in parts)
            self._rows = join([_padded_sets(part, most) for part in parts])

    def __len__(self) -> int:
        return len(self._data)

    def _make(self, at: Ints) -> L4Rows:
        b = self._data.batch(at)
        return L4Rows(*map(torch.as_tensor, (b.thread_feat, b.global_feat, b.days, b.role, b.mask, b.alpha)))

    def load(self, at: Ints) -> L4Rows:
        if self._rows is None:
            return self._make(at)
        found = take(self._rows, torch.as_tensor(at))
        most = int(found.mask.sum(1).max())
        columns = {f.name: getattr(found, f.name) for f in fields(found)}
        return L4Rows(**{name: c if name == "global_feat" else c[:, :most] for name, c in columns.items()})

    def epoch(self, batch_size: int, rng: np.random.Generator | None) -> list[Ints]:
        return in_order(len(self), batch_size) if rng is None else shuffled(len(self), batch_size, rng)


def _padded_sets(part: L4Rows, most: int) -> L4Rows:
    columns = {f.name: getattr(part, f.name) for f in fields(part)}
    return L4Rows(**{name: c if name == "global_feat" else _widened(c, most) for name, c in columns.items()})


def _last_offers(b: MicroBatch) -> tuple[Ints, Ints, Bools]:
    """The partner's and the agent's last offer before each decision, and whose the last of all was."""
    offers, mask, history = b.threads.offers, b.threads.mask, b.decisions.history
    B, L, _ = offers.shape
    mine = b.threads.tokens[..., 3] == 1
    place = np.broadcast_to(np.arange(L), (B, L))
    found = []
    for who in (~mine, mine):
        last = np.maximum.accumulate(np.where(who & mask, place, -1), axis=1)
        last = np.concatenate([np.full((B, 1), -1), last], axis=1)[b.thread, history]  # (N,)
        found.append((np.where(last[:, None] >= 0, offers[b.thread, np.maximum(last, 0)], 0), last))
    (seen, at_seen), (own, at_own) = found
    return seen, own, at_own > at_seen


def situation_of(b: MicroBatch, alpha: Float32) -> Situation:
    """What L3 saw at the decisions of a data set; `alpha` is one number per decision."""
    d = b.decisions
    seen, own, last_mine = _last_offers(b)
    return Situation(
        goal=b.goal, open_goal=b.open_goal, baseline=d.baseline.astype(np.float32), legal_baseline=d.legal_baseline,
        seller=d.seller, relative_time=d.relative_time, issues=d.issues, B_free=d.B_free, safe=d.safe, open=d.open,
        others=d.others, on_table=d.on_table, seen=seen, own=own, last_mine=last_mine, l1_op=d.l1_op, alpha=alpha,
        spot=d.spot.astype(np.float32), asked=np.zeros(len(d.seller), np.int64),
        both_sides=d.both_sides,
    )  # fmt: skip
