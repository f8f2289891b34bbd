"""L2's goal: 16 numbers, 4 buckets of days ahead × [Q_buy, P_buy, Q_sell, P_sell], and its labels (v2, spec §6).

A label looks back at a whole day of an expert, for each side and bucket:

    Q = signed + 0.6 · gap · share + 0.15 · active          P = a mix of deals, offers and spot

- signed: quantities signed that day, by days ahead, soft-bucketed.
- gap: `needed_supplies` / `needed_sales` at dawn where positive, spread over the buckets by fixed shares. scml does not
  cap needed sales by the lines; no factory ships more than L for each day the horizon reaches, so we do.
- active: what the expert was still asking for when the day ended, only on a side where it signed nothing: the last
  offer *it* sent in each thread, soft-bucketed. An agent divides its need among its partners, so the sum over threads
  is its intent; adding up all rounds would count one wish many times, and partners' offers are their wishes, not its.
  An offer that the framework made for it does not show intent either.
- A in the price is about the market: the offers partners made that day, weighted as in the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.state.day_batch import DayBatch, Ledger, Offers
from echelon.hrl_xf.state.l1_safety import BUY_AT, SELL_AT
from echelon.runtime.arrays import Bools, Float32, Floats, Ints

GOAL_SIZE = 16
GAP_WEIGHT = 0.6
ACTIVE_WEIGHT = 0.15
_MEDIAN_SCALE = 2.0**36
"""Weights as whole numbers, so that a running sum over all days is exact and a day does not depend on its
neighbours."""


@dataclass(frozen=True)
class Buckets:
    """Ranges of days ahead, without holes; a day near a boundary belongs to both sides."""

    edges: tuple[tuple[int, int], ...] = ((0, 2), (3, 7), (8, 14), (15, 40))
    """first and last day ahead of each bucket"""

    def __post_init__(self) -> None:
        firsts, lasts = [first for first, _ in self.edges], [last for _, last in self.edges]
        follows = firsts == [0, *(last + 1 for last in lasts[:-1])]
        if len(self.edges) != GOAL_SIZE // 4 or not follows or any(a > b for a, b in self.edges):
            raise ValueError(f"edges {self.edges} must be 4 ranges from 0 on, each a day after the one before")

    @property
    def shares(self) -> Floats:
        """How a gap is spread: ∝ 1/(middle + 1).  # (4,)"""
        nearness = np.array([1.0 / ((first + last) / 2.0 + 1.0) for first, last in self.edges])
        shares: Floats = nearness / nearness.sum()
        return shares

    def weights(self, ahead: Ints) -> Floats:
        """How far days ahead belong to the buckets: within 1 of a boundary the weight passes over linearly.  # (…, 4)

        Boundaries are half days, so weights are quarters and their sums with whole numbers are exact.
        """
        boundaries = np.array([first - 0.5 for first, _ in self.edges[1:]])
        beyond = np.clip((np.asarray(ahead)[..., None] - boundaries + 1.0) / 2.0, 0.0, 1.0)  # (…, 3)
        ones, zeros = np.ones_like(beyond[..., :1]), np.zeros_like(beyond[..., :1])
        weights: Floats = np.concatenate([ones, beyond], axis=-1) - np.concatenate([beyond, zeros], axis=-1)
        return weights

    def sums(self, by_days_ahead: Floats) -> Floats:
        """Quantities or money by days ahead, gathered into buckets.  # (N, H+1) -> (N, 4)

        Whole numbers times quarters: exact, so a matrix product may add them in any order.
        """
        sums: Floats = by_days_ahead @ _weights_of_days(self, by_days_ahead.shape[1])
        return sums

    def reachable(self, day: DayBatch) -> Bools:
        """Buckets that hold a day on which a delivery may be agreed; the others are left out of the loss.  # (N, 4)"""
        return np.array([first for first, _ in self.edges]) <= day.last[:, None]


@cache
def _weights_of_days(buckets: Buckets, days: int) -> Floats:
    return buckets.weights(np.arange(days))


BUCKETS = Buckets()


def goal_mask(day: DayBatch) -> Bools:
    """The numbers of a goal that mean something: the sides the agent negotiates, the reachable buckets.  # (N, 16)"""
    sides = np.stack([day.can_buy, day.can_buy, day.can_sell, day.can_sell], axis=-1)  # (N, 4)
    return (BUCKETS.reachable(day)[:, :, None] & sides[:, None, :]).reshape(-1, GOAL_SIZE)


def open_goal(goal: NDArray[np.floating], ledger: Ledger) -> Float32:
    """What of a goal is still open after the ledger's deals: quantities [buy, sell] by bucket.  # (N, 4, 2)"""
    signed = np.stack([BUCKETS.sums(ledger.q_in), BUCKETS.sums(ledger.q_out)], axis=-1)
    wanted = np.asarray(goal, np.float64).reshape(-1, 4, 4)[:, :, ::2]
    return np.maximum(wanted - signed, 0.0).astype(np.float32)


def reconstruct_l2_goals(day: DayBatch, ledger: Ledger, seen: Offers, own: Offers) -> Float32:
    """The v2 labels of N days.  # (N, 16)

    `ledger` is that of dusk (all deals of the day), `seen` are the offers partners made on the day itself (not
    yesterday's, which are `day.offers`), `own` the last offer the agent sent in each thread.
    """
    columns: list[Floats] = []
    for seller in (False, True):
        signed_by_day, money_by_day = (ledger.q_out, ledger.receivables) if seller else (ledger.q_in, ledger.payables)
        needed, able = (_sales_gap(day), day.can_sell) if seller else (day.needed_supplies, day.can_buy)
        signed = BUCKETS.sums(signed_by_day)  # (N, 4)
        idle = np.cumsum(signed_by_day, axis=1)[:, -1:] == 0
        mine = own.where(own.seller == seller)
        active = _by_row(mine, mine.quantity[:, None] * BUCKETS.weights(mine.ahead), len(day))
        gap = np.maximum(needed, 0.0)[:, None] * BUCKETS.shares
        quantity = signed + GAP_WEIGHT * gap + np.where(idle, ACTIVE_WEIGHT * active, 0.0)
        offered = seen.where(seen.seller == seller)
        price = _price(day, seller, signed, BUCKETS.sums(money_by_day), offered)
        columns += [np.where(able[:, None], quantity, 0.0), np.where(able[:, None], price, 0.0)]
    return np.stack(columns, axis=-1).reshape(-1, GOAL_SIZE).astype(np.float32)


def _sales_gap(day: DayBatch) -> Floats:
    """`needed_sales`, at most what the lines can ship by the furthest day on which a delivery may be agreed.  # (N,)"""
    return np.minimum(day.needed_sales, day.n_lines * (day.last + 1.0))


def _by_row(offers: Offers, values: Floats, n: int) -> Floats:
    """Sums of the offers' values by day and bucket.  # (M, 4) -> (N, 4)"""
    cell = (offers.row[:, None] * 4 + np.arange(4)).ravel()
    return np.bincount(cell, values.ravel(), 4 * n).astype(np.float64).reshape(n, 4)


def _price(day: DayBatch, seller: bool, signed: Floats, money: Floats, offers: Offers) -> Floats:
    """P by bucket: D = VWAP of deals, A = mean and median of offers, half each (mean alone where there are deals), S =
    spot."""
    n = len(day)
    spot = (day.spot_price_out if seller else day.spot_price_in)[:, None]
    weight = offers.weight[:, None] * BUCKETS.weights(offers.ahead)  # (M, 4)
    total = _by_row(offers, weight, n)
    paid = _by_row(offers, weight * offers.price[:, None], n)
    has_D, has_A = signed > 0, total > 0
    D = np.divide(money, signed, out=np.zeros_like(money), where=has_D)
    mean = np.divide(paid, total, out=np.zeros_like(paid), where=has_A)
    A = np.where(has_D, mean, 0.5 * mean + 0.5 * _median(offers, weight, mean))
    default = np.broadcast_to((SELL_AT if seller else BUY_AT) * spot, D.shape)
    return np.select(
        [has_D & has_A, has_D, has_A],
        [0.65 * D + 0.25 * A + 0.10 * spot, 0.775 * D + 0.225 * spot, 0.575 * A + 0.425 * spot],
        default,
    )


def _median(offers: Offers, weight: Floats, default: Floats) -> Floats:
    """Weighted median price by day and bucket; midway between two prices where half the weight is on each side.

    (M, 4) weights -> (N, 4); `default` where there is no weight.
    """
    whole = np.rint(weight * _MEDIAN_SCALE).astype(np.int64)
    offer, bucket = np.nonzero(whole)
    cell, price, whole = offers.row[offer] * 4 + bucket, offers.price[offer], whole[offer, bucket]
    order = np.lexsort((price, cell))
    cell, price = cell[order], price[order].astype(np.float64)
    running = np.cumsum(whole[order])
    cells, start = np.unique(cell, return_index=True)
    before = running[start] - whole[order][start]
    end = np.append(start[1:], len(cell)) - 1
    total = running[end] - before if len(cells) else before
    target = 2 * before + total  # half way, doubled
    lower = np.searchsorted(2 * running, target, side="left")
    upper = np.minimum(np.searchsorted(2 * running, target, side="right"), end)
    median = default.copy().ravel()
    median[cells] = 0.5 * (price[lower] + price[upper])
    return median.reshape(default.shape)
