"""What L3 knows at N decisions: the moment as numbers, and what is legal in it. Numpy, one path for logs and play.

Everything legal follows from L1's limits, so that an action chosen inside the masks is never changed by `clip`:

    quantities on an open day d      least .. min(issue max, safe[d], B_free / lowest price)
    prices for a quantity q          lowest price .. min(issue max, B_free / q)

The lowest price that counts is the lowest L3 can name: in mode "residual" no lower than the baseline's less DELTA_P.
So every choice leaves at least one for the next.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.state.l1_safety import L1Output, L1SafetyLayer, LegalOffers
from echelon.hrl_xf.state.threads import DELTA_P, DELTA_Q
from echelon.runtime.arrays import Bools, Float32, Floats, Ints

Q_SIZE, P_SIZE = 2 * DELTA_Q + 1, 2 * DELTA_P + 1
PRIOR = 1.0
"""How far L1's choice is above the others before anything is learnt, as logits: enough to be chosen, and no more
to unlearn than must be (4 gave 1.64 where 1 gave 1.60)."""
PRIOR_SCALE = 20.0
"""Priors are stored divided by it: an optimiser's step then moves them as far as a layer of weights moves a logit."""
PIECES = 32
"""Quantities with a number of their own; larger ones share the last."""
RATIOS = 11
SHARES = 9
"""Places on the scale of a quantity against the thread's share: 1/4 to 4 times, in steps of √2."""

Mode = Literal["residual", "direct"]
NEAR_DAYS = 11
"""Days ahead whose limits are in the context: the game's horizon is 10."""
SEEN = slice(0, 4)
"""Where the last token is in the context: all that the last-token control may see."""


_PLENTY = 1e15
"""More money than any deal costs: a seller's."""


@dataclass(frozen=True)
class Situation:
    """N decisions before they are made; prices in currency, days counted from today."""

    goal: Float32  # (N, 16) L2's
    open_goal: Float32  # (N, 4, 2) pieces of it still open, by bucket [buy, sell]
    baseline: Float32  # (N, 3) quantity, days ahead, unit price
    legal_baseline: Ints  # (N, 3) the same as a legal offer; quantity 0 where there is none
    seller: Bools  # (N,)
    relative_time: Float32  # (N,)
    issues: Ints  # (N, 6) bounds of quantity, days ahead, unit price
    B_free: Floats  # (N,)
    safe: Floats  # (N, H+1) safe quantity left on this side
    open: Bools  # (N, H+1) days L1 allows
    others: Ints  # (N, 3) other threads of the call on this side with an offer, their quantity, rank by price
    on_table: Bools  # (N,) whether there is an offer to accept
    seen: Ints  # (N, 3) the partner's last offer: quantity, days ahead, unit price; zeros if it has made none
    own: Ints  # (N, 3) the agent's last offer; zeros if it has made none
    last_mine: Bools  # (N,) whether the last offer of all was the agent's
    l1_op: Ints  # (N,) L1's own answer
    alpha: Float32  # (N,) L4's share
    spot: Float32  # (N, 2) spot prices in and out
    asked: Ints  # (N,) the most pieces the partner asked for at once in the last days; 0: unknown, as in logs
    both_sides: Bools  # (N,) whether the agent buys and sells, as middle levels do

    def __post_init__(self) -> None:
        if len(set(map(len, vars(self).values()))) != 1:
            sizes = {f.name: len(getattr(self, f.name)) for f in fields(self)}
            raise ValueError(f"columns of a situation must have one length, got {sizes}")

    def __len__(self) -> int:
        return len(self.seller)

    @cached_property
    def acceptable(self) -> Bools:
        """Whether the offer on the table is within L1's limits.  # (N,)"""
        q, d, p = self.seen.T
        day = np.minimum(np.maximum(d, 0), self.safe.shape[1] - 1)
        n = np.arange(len(self))
        inside = self.on_table & (q >= 1) & (day == d) & self.open[n, day] & (q <= self.safe[n, day])
        found: Bools = inside & (self.seller | (q * p <= self.B_free))
        return found

    @classmethod
    def of_l1(
        cls,
        layer: L1SafetyLayer,
        out: L1Output,
        *,
        goal: Float32,
        open_goal: Float32,
        relative_time: Float32,
        others: Ints,
        on_table: Bools,
        seen: Ints,
        own: Ints,
        last_mine: Bools,
        alpha: Float32,
        spot: Float32,
        asked: Ints,
        both_sides: Bools,
        base: LegalOffers | None = None,
    ) -> Situation:
        """Decisions in play: L1's view of the threads, and what the agent knows besides.

        `base` spares computing `legal_baseline` again.
        """
        base = layer.legal_baseline(out) if base is None else base
        answers = layer.answer(out, seen, on_table, base)
        return cls(
            goal=goal, open_goal=open_goal, baseline=out.baseline.astype(np.float32), legal_baseline=base.offer,
            seller=out.seller, relative_time=relative_time, issues=out.issues, B_free=out.B_free, safe=out.safe,
            open=out.open, others=others, on_table=on_table, seen=seen, own=own, last_mine=last_mine,
            l1_op=answers.op.astype(np.int64), alpha=alpha, spot=spot, asked=asked, both_sides=both_sides,
        )  # fmt: skip


def open_pieces(s: Situation) -> Float32:
    """Pieces of the goal still open on the decision's side, by bucket.  # (N, 4)"""
    return s.open_goal[np.arange(len(s)), :, s.seller.astype(np.int64)]


def needed(s: Situation) -> Ints:
    """Whole pieces of the goal still open on the decision's side.  # (N,)"""
    found: Ints = open_pieces(s).sum(axis=1).round().astype(np.int64)
    return found


def share_of(s: Situation) -> Ints:
    """What α gives the thread of them, at least one piece.  # (N,)"""
    return np.maximum(np.ceil(needed(s) * s.alpha.astype(np.float64)), 1.0).astype(np.int64)


def better_offers(s: Situation) -> Floats:
    """Pieces that the side's other threads offer at better prices, if all offers were of mean size.  # (N,)"""
    found: Floats = s.others[:, 1] * s.others[:, 2] / np.maximum(s.others[:, 0], 1)
    return found


def _pieces(q: NDArray[np.floating]) -> NDArray[np.floating]:
    found: NDArray[np.floating] = np.log1p(np.maximum(q, 0.0)) / 3.0
    return found


def _price_deviation(price: Floats, spot: Floats) -> Floats:
    """How far a price is from spot, in fifths; 0 where there is no price."""
    return np.where(price > 0, _between(5.0 * (price / spot - 1.0), -2.0, 2.0), 0.0)


def _between(x: Floats, low: float, high: float) -> Floats:
    """`np.clip`, which takes several times as long on few numbers."""
    return np.minimum(np.maximum(x, low), high)


def context_of(s: Situation) -> Float32:
    """The context vector of each decision; the first four numbers tell the last token.  # (N, CONTEXT)

    A call has few threads, so a step costs the same whatever its width: numbers of one kind are made together.
    """
    N, side = len(s), s.seller.astype(np.int64)
    both = np.maximum(s.spot.astype(np.float64), 1e-6)
    spot = both[np.arange(N), side][:, None]
    total = open_pieces(s).astype(np.float64).sum(axis=1)[:, None]
    low, high = s.issues[:, 4:5].astype(np.float64), s.issues[:, 5:6].astype(np.float64)
    goal = s.goal.astype(np.float64).reshape(N, 8, 2)  # 4 buckets of buy, sell
    seen_q, seen_day, seen_p = s.seen[:, :1], s.seen[:, 1:2], s.seen[:, 2:]
    own_q, own_day, own_p = s.own[:, :1], s.own[:, 1:2], s.own[:, 2:]
    others, others_q, rank = s.others[:, :1], s.others[:, 1:2], s.others[:, 2:]
    has_seen, has_own = seen_q > 0, own_q > 0
    mine = s.last_mine[:, None] & has_own
    last = np.where(mine, s.own, s.seen)
    width = high - low
    spread = np.maximum(width, 1.0)
    seen_ratio = np.where(has_seen, (seen_p - low) / spread, 0.0)
    own_ratio = np.where(has_own, (own_p - low) / spread, 0.0)
    alpha = s.alpha[:, None].astype(np.float64)

    counted = [
        goal[:, :, 0], last[:, :1], total, total - seen_q, s.legal_baseline[:, :1], s.B_free[:, None] / spot, width,
        others_q, seen_q, own_q, _near(s.safe),
    ]  # fmt: skip
    pieces = _pieces(np.concatenate(counted, axis=1))
    goal_q, last_q, left, base_q, money, width_q = (pieces[:, a:b] for a, b in _COUNTED[:6])
    others_pieces, seen_pieces, own_pieces, near = (pieces[:, a:b] for a, b in _COUNTED[6:])
    prices = np.concatenate([goal[:, :, 1], s.baseline[:, 2:], low, high, seen_p], axis=1)
    premium = _price_deviation(prices, np.concatenate([both[:, _SIDES], np.repeat(spot, 4, axis=1)], axis=1))
    parts = [
        # the last token
        last_q, np.where(mine, own_ratio, seen_ratio), last[:, 1:2] / 10.0, mine,
        # goal and what is open of it
        goal_q, premium[:, :8], _pieces(s.open_goal).reshape(N, 8), left, _between((seen_q - total) / 10.0, -3.0, 3.0),
        # L1
        _pieces(s.baseline[:, :1]), premium[:, 8:9], s.baseline[:, 1:2] / 10.0, base_q, s.legal_baseline[:, :1] > 0,
        _OPS[s.l1_op], money / 2.0, near, _near(s.open), s.acceptable[:, None],
        # the thread
        _ROLES[side], s.relative_time[:, None], s.issues[:, :4] / 10.0, premium[:, 9:11], width_q, alpha,
        np.log(alpha + 1e-3) / 5.0, others / 5.0, others_pieces, rank / 5.0,
        _between((others_q + seen_q - total) / 20.0, -3.0, 3.0),
        s.on_table[:, None], seen_pieces, seen_ratio, seen_day / 10.0, premium[:, 11:], has_own, own_pieces, own_ratio,
        own_day / 10.0,
    ]  # fmt: skip
    return np.concatenate(parts, axis=1).astype(np.float32)


def _near(days: NDArray[np.generic]) -> NDArray[np.generic]:
    """The first days; zeros where the horizon is shorter.  # (N, H+1) -> (N, NEAR_DAYS)"""
    if days.shape[1] >= NEAR_DAYS:
        return days[:, :NEAR_DAYS]
    padding = np.zeros((len(days), NEAR_DAYS - days.shape[1]), days.dtype)
    return np.concatenate([days, padding], axis=1)


_COUNTED = ((0, 8), (8, 9), (9, 11), (11, 12), (12, 13), (13, 14), (14, 15), (15, 16), (16, 17), (17, 17 + NEAR_DAYS))
"""Their positions in `counted`; `left` is what is open of the goal before and after the offer on the table."""
_SIDES = np.tile([0, 1], 4)
_OPS, _ROLES = np.eye(3, dtype=np.float32), np.eye(2, dtype=np.float32)
CONTEXT = 4 + 8 + 8 + 8 + 3 + 3 + 2 + 3 + 1 + 2 * NEAR_DAYS + 1 + 2 + 1 + 4 + 3 + 2 + 4 + 5 + 4


class LegalArrays(NamedTuple):
    """What may be chosen at N decisions."""

    accept: Bools  # (N,)
    day: Bools  # (N, H+1)
    least: Ints  # (N,) smallest quantity
    most: NDArray[np.int32]  # (N, H+1) largest quantity of each day
    first_q: Ints  # (N,) quantity that index 0 of the quantity head represents
    first_p: Ints  # (N,) price that index 0 of the price head represents
    low_p: Ints  # (N,)
    high_p: Ints  # (N,)
    money: Ints  # (N,) whole currency: what buys an integer number at an integer price is an integer

    def take(self, rows: Ints) -> LegalArrays:
        columns: list[Any] = [column[rows] for column in self]
        return LegalArrays(*columns)


def legal_arrays(s: Situation, mode: Mode, q_size: int, p_size: int) -> LegalArrays:
    """The masks of N decisions for heads of these sizes."""
    base_q, base_p = s.legal_baseline[:, 0], s.legal_baseline[:, 2]
    if mode == "residual":
        first_q, first_p, can = base_q - DELTA_Q, base_p - DELTA_P, base_q > 0
    else:
        first_q, first_p, can = np.ones(len(s), np.int64), s.issues[:, 4], np.ones(len(s), np.bool_)
    least = np.maximum(np.maximum(s.issues[:, 0], 1), first_q)
    low_p = np.maximum(s.issues[:, 4], first_p)
    high_p = np.minimum(s.issues[:, 5], first_p + p_size - 1)
    money = np.where(s.seller, np.inf, s.B_free)
    affordable = np.where(low_p > 0, np.floor(np.minimum(money, 1e9) / np.maximum(low_p, 1)), 1e9)
    affordable -= affordable * low_p > money  # the quotient may have been rounded up
    cap = np.minimum(np.minimum(s.issues[:, 1], first_q + q_size - 1), affordable)
    most = np.floor(np.minimum(s.safe, cap[:, None])).astype(np.int32)
    k = np.arange(s.safe.shape[1])
    within = (k >= s.issues[:, 2:3]) & (k <= s.issues[:, 3:4]) & (s.issues[:, 1:2] > 0)
    day = s.open & within & (most >= least[:, None]) & (can & (low_p <= high_p))[:, None]
    whole = np.floor(np.minimum(money, _PLENTY)).astype(np.int64)
    return LegalArrays(s.acceptable, day, least, most, first_q, first_p, low_p, high_p, whole)
