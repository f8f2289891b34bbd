"""Days as arrays, the offers seen on them, and the ledger of what was signed since dawn.

What is computed from them (features, limits, baselines, labels) is a pure function and works on N days at once. A
single day is the batch of one, and a day's numbers are the same bit for bit in any batch: only
element-wise operations, sums along a row in a fixed order and sums of whole numbers (exact in float64) are used.
Inside all is float64; what goes into a network is float32. H is the planning horizon; k counts days ahead, 0 is today.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from echelon.hrl_xf.state.day_state import DayState, Issues, Offer, OffersSnapshot, Role
from echelon.runtime.arrays import Bools, Floats, Ints

FEATURE_VERSION = 2
"""Raise it with any change of a number made here, in `l1_safety` or in `goals`: data sets are rebuilt."""


AGE_DECAY = 0.3
_DECAY = np.array([math.exp(-AGE_DECAY * age) for age in range(256)])


def age_of(round_: Ints, rounds: Ints) -> Ints:
    """Rounds that were still to come when an offer was made: 0 for the last round."""
    left: Ints = np.maximum(0, rounds - 1 - round_)
    return left


@dataclass(frozen=True)
class Offers:
    """Offers of the days of a batch as columns, in the order of their days."""

    row: Ints  # (M,) which day of the batch
    seller: Bools  # (M,) the agent's role in the thread
    ahead: Ints  # (M,) delivery in days ahead of that day; may be negative in yesterday's offers
    quantity: Ints  # (M,)
    price: Ints  # (M,)
    age: Ints  # (M,) rounds left when it was made

    def __post_init__(self) -> None:
        shapes = {column.shape for column in self.columns()}
        if len(shapes) != 1 or self.row.ndim != 1:
            raise ValueError(f"columns of offers must have one shape (M,), got {sorted(shapes)}")
        if (self.row[1:] < self.row[:-1]).any():
            raise ValueError("offers must be in the order of their days; sort them by row")

    @property
    def weight(self) -> Floats:
        """exp(-0.3 age) · sqrt(q / (q + 10)): late offers and large ones say more."""
        q = np.maximum(self.quantity, 0).astype(np.float64)
        decay: Floats = _DECAY[np.minimum(self.age, len(_DECAY) - 1)]
        return decay * np.sqrt(q / (q + 10.0))

    def offsets(self, n: int) -> Ints:
        """Offers of day i are `offsets[i]:offsets[i+1]`."""
        return np.searchsorted(self.row, np.arange(n + 1)).astype(np.int64)

    def columns(self) -> list[Any]:
        return list(vars(self).values())

    def where(self, keep: Bools) -> Offers:
        return Offers(*(column[keep] for column in self.columns()))


_SEEN = attrgetter("time", "quantity", "price", "round", "rounds")


def seen_offers(steps: Sequence[int], snapshots: Sequence[OffersSnapshot]) -> Offers:
    """Snapshots as columns; `steps[i]` is the day from which days ahead are counted."""
    sides = [side for snapshot in snapshots for side in (snapshot.buy, snapshot.sell)]
    counts = np.fromiter(map(len, sides), np.int64, len(sides))
    flat = np.fromiter(chain.from_iterable(map(_SEEN, chain.from_iterable(sides))), np.int64).reshape(-1, 5)
    side = np.repeat(np.arange(len(sides)), counts)
    time, quantity, price, round_, rounds = flat.T
    row = side // 2
    step = np.asarray(steps, np.int64)
    return Offers(row, side % 2 == 1, time - step[row], quantity, price, age_of(round_, rounds))


_SCALARS = (
    "current_step", "n_steps", "balance", "initial_balance", "inventory_input", "inventory_output", "spot_price_in",
    "spot_price_out", "n_lines", "horizon", "production_cost", "needed_supplies", "needed_sales", "my_input_product",
    "my_output_product", "n_products",
)  # fmt: skip
_scalars = attrgetter(*_SCALARS)
_NO_ISSUES = (0, 0, 0, 0, 0, 0)


def negotiates_input(product: Ints | Floats) -> Bools:
    """Whether a factory buys in negotiations: those of the first level get their material from outside."""
    return np.asarray(product > 0, np.bool_)


def negotiates_output(product: Ints | Floats, n_products: Ints | Floats) -> Bools:
    """Whether it sells in negotiations: what the last level makes is sold to the outside."""
    return np.asarray(product < n_products - 1, np.bool_)


@dataclass(frozen=True)
class DayBatch:
    """N days as arrays; whole numbers too are float64 (exact), so that one kind of arithmetic serves all."""

    current_step: Floats  # (N,)
    n_steps: Floats  # (N,)
    balance: Floats  # (N,)
    initial_balance: Floats  # (N,)
    inventory_input: Floats  # (N,)
    inventory_output: Floats  # (N,)
    spot_price_in: Floats  # (N,)
    spot_price_out: Floats  # (N,)
    n_lines: Floats  # (N,)
    horizon: Floats  # (N,) how many days ahead a delivery may be agreed
    production_cost: Floats  # (N,)
    needed_supplies: Floats  # (N,)
    needed_sales: Floats  # (N,)
    my_input_product: Floats  # (N,)
    my_output_product: Floats  # (N,)
    n_products: Floats  # (N,)
    Q_in: Floats  # (N, H+1)
    Q_out: Floats  # (N, H+1)
    Payables: Floats  # (N, H+1)
    Receivables: Floats  # (N, H+1)
    buy_issues: Ints  # (N, 6) bounds of quantity, days ahead, price; zeros where the agent does not negotiate
    sell_issues: Ints  # (N, 6)
    offers: Offers
    """yesterday's"""

    def __post_init__(self) -> None:
        n, width = self.Q_in.shape
        scalar, table, issues = (n,), (n, width), (n, 6)
        for name, array in vars(self).items():
            if name == "offers":
                continue
            wanted = scalar if name in _SCALARS else issues if name.endswith("issues") else table
            if array.shape != wanted:
                raise ValueError(f"{name} {array.shape} must have shape {wanted}")

    def __len__(self) -> int:
        return len(self.balance)

    @property
    def H(self) -> int:
        return int(self.Q_in.shape[1]) - 1

    @cached_property
    def ahead(self) -> Ints:
        """0, 1, … H  # (H+1,)"""
        return np.arange(self.H + 1)

    @cached_property
    def last(self) -> Floats:
        """The furthest day ahead on which a delivery may be agreed.  # (N,)"""
        return np.minimum(self.horizon, self.n_steps - 1.0 - self.current_step)

    @property
    def can_buy(self) -> Bools:
        return negotiates_input(self.my_input_product)

    @property
    def can_sell(self) -> Bools:
        return negotiates_output(self.my_output_product, self.n_products)

    @cached_property
    def capacity(self) -> Floats:
        """C[k] = L · max(0, T − (t+k)): what can still be processed from day t+k on.  # (N, H+1)"""
        days_left = (self.n_steps - self.current_step)[:, None] - self.ahead
        return self.n_lines[:, None] * np.maximum(0.0, days_left)

    def without_offers(self) -> DayBatch:
        """The same days as L1 sees them; carrying offers along for each decision would cost most of its time."""
        return replace(self, offers=self.offers.where(np.zeros(len(self.offers.row), np.bool_)))

    def take(self, rows: Ints) -> DayBatch:
        """The days of `rows`, in that order, repeated as often as they occur."""
        arrays = {f.name: getattr(self, f.name)[rows] for f in fields(self)[:-1]}
        if not len(self.offers.row):
            return DayBatch(**arrays, offers=self.offers)
        offsets = self.offers.offsets(len(self))
        counts = offsets[rows + 1] - offsets[rows]
        shift = np.repeat(offsets[rows] - np.cumsum(counts) + counts, counts)
        chosen = shift + np.arange(counts.sum())
        row = np.repeat(np.arange(len(rows)), counts)
        return DayBatch(**arrays, offers=Offers(row, *(x[chosen] for x in self.offers.columns()[1:])))


def issue_bounds(issues: Sequence[Issues | None], steps: Sequence[int]) -> Ints:
    """Bounds of quantity, days ahead and price as rows of six; zeros for None. `steps` are today's days.  # (N, 6)"""
    rows = (
        _NO_ISSUES if i is None else (*i.quantity, i.time[0] - today, i.time[1] - today, *i.price)
        for i, today in zip(issues, steps, strict=True)
    )
    return np.fromiter(chain.from_iterable(rows), np.int64, 6 * len(issues)).reshape(-1, 6)


def in_days_ahead(offers: Sequence[Offer], today: int) -> Ints:
    """Outcomes as rows of (quantity, days ahead, unit price).  # (N, 3)"""
    return np.array(offers, np.int64).reshape(-1, 3) - (0, today, 0)


def outcome_of(offer: Ints, today: int) -> Offer:
    """A row of (quantity, days ahead, unit price) as the negotiation's outcome."""
    quantity, ahead, price = offer.tolist()
    return quantity, today + ahead, price


def day_batch(days: Sequence[DayState], horizon: int = 40) -> DayBatch:
    """Days as arrays, commitments padded with zeros to H+1."""
    scalars = np.array([_scalars(day) for day in days], np.float64).reshape(-1, len(_SCALARS)).T.copy()
    commitments = [day.commitments for day in days]
    lengths = np.array([len(c.Q_in) for c in commitments], np.int64)
    if len(days) and lengths.max() > horizon + 1:
        raise ValueError(
            f"commitments reach {lengths.max() - 1} days ahead, beyond horizon={horizon}; use a longer one"
        )
    filled = np.arange(horizon + 1) < lengths[:, None]
    padded = np.zeros((4, len(days), horizon + 1))
    for table, name in zip(padded, ("Q_in", "Q_out", "Payables", "Receivables"), strict=True):
        table[filled] = np.fromiter(chain.from_iterable(map(attrgetter(name), commitments)), np.float64)
    steps = [day.current_step for day in days]
    buy_issues = issue_bounds([day.buy_issues for day in days], steps)
    sell_issues = issue_bounds([day.sell_issues for day in days], steps)
    offers = seen_offers(steps, [day.offers_snapshot for day in days])
    columns: list[Any] = [*scalars, *padded, buy_issues, sell_issues, offers]  # in the order of the fields
    return DayBatch(*columns)


@dataclass(frozen=True)
class Ledger:
    """What has been signed since dawn, by days ahead: N rows for the N rows of a `DayBatch`."""

    step: Ints  # (N,) the day
    q_in: Floats  # (N, H+1)
    q_out: Floats  # (N, H+1)
    payables: Floats  # (N, H+1)
    receivables: Floats  # (N, H+1)

    def __post_init__(self) -> None:
        shapes = {x.shape for x in (self.q_in, self.q_out, self.payables, self.receivables)}
        if len(shapes) != 1 or self.q_in.shape[:1] != self.step.shape:
            raise ValueError(f"ledger {sorted(shapes)} of {self.step.shape} days must have one shape (N, H+1)")

    @classmethod
    def empty(cls, days: DayBatch) -> Ledger:
        zeros = np.zeros_like(days.Q_in)
        return cls(days.current_step.astype(np.int64), zeros, zeros, zeros, zeros)

    @classmethod
    def after_each_deal(cls, days: DayBatch, deals: Sequence[Sequence[tuple[Role, Offer]]]) -> tuple[Ledger, Ints]:
        """All ledgers of the days: row `first[i] + n` is day i after its first n deals. Returns (ledger, first)."""
        if len(deals) != len(days):
            raise ValueError(f"deals of {len(deals)} days for {len(days)} days")
        counts = np.array([len(d) for d in deals], np.int64)
        first = np.cumsum(counts + 1) - counts - 1  # (N,)
        day_of = np.repeat(np.arange(len(days)), counts + 1)  # (R,)
        step = days.current_step.astype(np.int64)[day_of]
        flat = [(role == "seller", *offer) for of_day in deals for role, offer in of_day]
        seller, quantity, time, price = np.array(flat, np.int64).reshape(-1, 4).T
        opening = np.zeros(len(day_of), np.bool_)
        opening[first] = True
        row = np.flatnonzero(~opening)  # the ledger each deal leads to
        ahead = time - step[row]
        if len(ahead) and (ahead.min() < 0 or ahead.max() > days.H):
            raise ValueError(f"deals of {ahead.min()} to {ahead.max()} days ahead are not within 0..{days.H}")
        steps = np.zeros((4, len(day_of), days.H + 1))
        steps[seller, row, ahead] = quantity
        steps[2 + seller, row, ahead] = quantity * price
        total = np.cumsum(steps, axis=1)  # whole numbers: the differences below are exact
        return cls(step, *(total - total[:, first][:, day_of])), first

    def with_deal(self, row: int, role: Role, offer: Offer) -> Ledger:
        """The ledger after one more deal on the day of `row`."""
        quantity, ahead = offer[0], offer[1] - int(self.step[row])
        if not 0 <= ahead < self.q_in.shape[1]:
            raise ValueError(f"delivery {ahead} days ahead is not within 0..{self.q_in.shape[1] - 1}")
        names = ("q_in", "payables") if role == "buyer" else ("q_out", "receivables")
        changed = {name: getattr(self, name).copy() for name in names}
        changed[names[0]][row, ahead] += quantity
        changed[names[1]][row, ahead] += quantity * offer[2]
        return replace(self, **changed)

    def take(self, rows: Ints) -> Ledger:
        return Ledger(*(getattr(self, f.name)[rows] for f in fields(self)))
