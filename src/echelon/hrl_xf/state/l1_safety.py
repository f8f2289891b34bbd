"""L1: what is safe to buy and sell, and a plain offer within it. Deterministic, stateless, no learning (spec §4).

How the game counts (scml 0.8.4), with L lines, stock I[k] at dawn of day t+k, arrivals A[k] and promised sales S[k]:

    made[k]  = min(I[k] + A[k], L, S[k])        a factory makes only what it ships that day; nothing is made ahead
    I[k+1]   = I[k] + max(0, A[k] − made[k])    stock is never used up: it can be processed again every day
    short[k] = S[k] − made[k]                   the seller pays for it

So no day ships more than L, a stock of L serves every later day, and a piece beyond L costs storage for ever. L1's
limits come from the day at dawn and the ledger of what was signed since, whose deals count like commitments:

    I_low[d]       = inventory_input + Σ_{k<d} max(0, A[k] − L)    stock of day t+d, whatever else is sold until then
    Q_safe_sell[d] = min(L, I_low[d] + A[d]) − S[d]
    I_end          = inventory_input + Σ_k max(0, A[k] − L)
    fill           = L − I_end                                     what a full stock lacks
    Q_safe[d]      = fill + (max(0, L − A[d]) if fill > 0)         before the last day
                   = L − I_low[d] − A[d]                           on the last day
    B_free         = max(0, balance − reserve · B0 − Σ Payables)

Example, L = 10, inventory_input = 4, A = (0, 15, 3, 0, …), S = (0, 6, 0, 10, 0, …): I_low = (4, 4, 9, 9, …), so
Q_safe_sell = (4, 4, 10, −1, 9, …): day 3 was promised one piece too many. I_end = 9, so fill = 1 and
Q_safe = (11, 1, 8, 11, …).

Why it stays safe under its own deals: I_low does not depend on sales, so a sale of q ≤ Q_safe_sell[d] changes the limit
of day d only, by q; a purchase raises A and I_low and never lowers a selling limit. A purchase of q ≤ Q_safe[d] raises
I_end by at most `fill`. Rooms stay signed (`Limits`): a negative one tells that several deals do not fit together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.state.day_batch import DayBatch, Ledger, day_batch, issue_bounds, outcome_of
from echelon.hrl_xf.state.day_state import ACCEPT, ANSWERS, END, REJECT, Answer, DayState, Issues, Offer, Role
from echelon.runtime.arrays import Bools, Floats, Ints

BUY_AT, SELL_AT = 0.95, 1.05
_ON_GRID = 1e-6
"""A number this close below the grid is on it: residuals come back from float32."""

Roles = Role | Bools  # one role for all rows, or a column that is True where the agent sells


@dataclass(frozen=True)
class Limits:
    """Both sides' limits; `*_room` may be negative where the day was unsafe before any deal of ours."""

    buy_room: Floats  # (N, H+1)
    sell_room: Floats  # (N, H+1)
    money_room: Floats  # (N,)
    min_quantity: int

    @property
    def Q_safe(self) -> Floats:
        return np.maximum(self.buy_room, 0.0)

    @property
    def Q_safe_sell(self) -> Floats:
        return np.maximum(self.sell_room, 0.0)

    @property
    def B_free(self) -> Floats:
        return np.maximum(self.money_room, 0.0)

    def take(self, rows: Ints) -> Limits:
        return Limits(self.buy_room[rows], self.sell_room[rows], self.money_room[rows], self.min_quantity)


@dataclass(frozen=True)
class LegalOffers:
    """An offer within all limits for each thread, or none."""

    offer: Ints  # (N, 3) quantity, days ahead, unit price; zeros where there is none
    legal: Bools  # (N,)

    def outcome(self, i: int, today: int) -> Offer | None:
        """Offer i as the negotiation's outcome."""
        return outcome_of(self.offer[i], today) if self.legal[i] else None

    def take(self, rows: Ints) -> LegalOffers:
        return LegalOffers(self.offer[rows], self.legal[rows])


@dataclass(frozen=True)
class L1Output:
    """L1's view of N negotiation threads."""

    seller: Bools  # (N,)
    step: Ints  # (N,) today
    issues: Ints  # (N, 6) bounds of quantity, days ahead, price
    Q_safe: Floats  # (N, H+1)
    Q_safe_sell: Floats  # (N, H+1)
    B_free: Floats  # (N,)
    open: Bools  # (N, H+1) days on which a delivery may be agreed: the time mask
    baseline: Floats  # (N, 3) quantity, days ahead, unit price; quantity 0 where nothing can be traded

    @cached_property
    def safe(self) -> Floats:
        """The safe quantity of the thread's own side.  # (N, H+1)"""
        return np.where(self.seller[:, None], self.Q_safe_sell, self.Q_safe)

    def take(self, rows: Ints) -> L1Output:
        return L1Output(*(getattr(self, f.name)[rows] for f in fields(self)))


@dataclass(frozen=True)
class L1Answers:
    """L1's own answers: `op` indexes `ANSWERS`, and a REJECT carries an offer."""

    op: NDArray[np.int8]  # (N,)
    counter: LegalOffers

    def row(self, i: int, today: int) -> tuple[Answer, Offer | None]:
        return ANSWERS[self.op[i]], self.counter.outcome(i, today)


def sellers(role: Roles, n: int) -> Bools:
    """The role as a column.  # (N,)"""
    return np.full(n, role == "seller") if isinstance(role, str) else np.asarray(role, np.bool_)


def bounds_of(day: DayBatch, role: Roles, issues: Ints | Issues | None = None) -> Ints:
    """Issue bounds of the role's side: given ones, else the day's.  # (N, 6)"""
    if issues is None:
        return np.where(sellers(role, len(day))[:, None], day.sell_issues, day.buy_issues)
    if isinstance(issues, Issues):
        return issue_bounds([issues] * len(day), day.current_step.astype(np.int64).tolist())
    return issues


def open_days(day: DayBatch, limits: Limits, role: Roles, issues: Ints) -> Bools:
    """The time mask: days on which the side's safe quantity allows a deal within the game's horizon.  # (N, H+1)

    A side on which the agent does not negotiate (zero bounds) is closed.
    """
    room = np.where(sellers(role, len(day))[:, None], limits.sell_room, limits.buy_room)
    reachable = day.ahead <= day.last[:, None]
    negotiates = issues[:, 1:2] > 0
    found: Bools = (room >= limits.min_quantity) & reachable & negotiates
    return found


def _on_grid(price: Floats, seller: Bools, issues: Ints) -> Floats:
    """The nearest price of the issue that is no worse for the agent: buyers round down, sellers up."""
    rounded = np.where(seller, np.ceil(price - _ON_GRID), np.floor(price + _ON_GRID))
    return np.minimum(np.maximum(rounded, issues[:, 4]), issues[:, 5])  # np.clip takes longer on few rows


def _affordable(money: Floats, price: Floats) -> Floats:
    """The largest whole q with q · price ≤ money."""
    return np.floor(np.divide(money, price, out=np.full_like(money, np.inf), where=price > 0))


def compute_l1_baseline(
    day: DayBatch | DayState | Mapping[str, Any],
    limits: Limits | None = None,
    role: Roles = "buyer",
    issues: Ints | Issues | None = None,
    is_open: Bools | None = None,
) -> Floats:
    """The plain safe offer at the first open day d: quantity, days ahead, unit price.  # (N, 3)

        buy :  q = min(Q_safe[d]/2, B_free/price, L, issue max)    p = 0.95 · spot_price_in
        sell:  q = min(Q_safe_sell[d]/2, L, issue max)             p = 1.05 · spot_price_out

    q is at least the minimum quantity where trading is possible, and 0 where it is not: no day is open, or a buyer
    cannot pay for one piece. `price` in B_free/price is the one that would be paid: p on the issue's grid. `is_open`
    spares computing `open_days` again.

    One day may also be given as its `DayState` or as the dictionary of a log's daily_status; then the result is one
    row.  # (3,)  Without `limits` they are those at dawn, with the usual parameters.
    """
    if not isinstance(day, DayBatch):
        from echelon.hrl_xf.state.state_dict import OF_L1, state_of  # imports msgspec, which play does not need

        one: Floats = compute_l1_baseline(day_batch([state_of(day, OF_L1)]), limits, role, issues, is_open)[0]
        return one
    limits = L1SafetyLayer(day.H).limits(day) if limits is None else limits
    n = len(day)
    seller, bounds = sellers(role, n), bounds_of(day, role, issues)
    if is_open is None:
        is_open = open_days(day, limits, seller, bounds)
    d, rows = is_open.argmax(axis=1), np.arange(n)
    safe = np.where(seller, limits.sell_room[rows, d], limits.buy_room[rows, d])
    price = np.where(seller, SELL_AT * day.spot_price_out, BUY_AT * day.spot_price_in)
    paid, money = _on_grid(price, seller, bounds), limits.B_free
    budget = np.divide(money, paid, out=np.full(n, np.inf), where=~seller & (paid > 0))
    payable = seller | (_affordable(money, paid) >= limits.min_quantity)
    q = np.minimum(np.minimum(safe / 2.0, budget), np.minimum(day.n_lines, bounds[:, 1]))
    possible = is_open.any(axis=1) & payable
    q = np.where(possible, np.maximum(q, float(limits.min_quantity)), 0.0)
    found = np.empty((n, 3))
    found[:, 0], found[:, 1], found[:, 2] = q, d, price
    return found


compute_l1_baseline_offline = compute_l1_baseline


class L1SafetyLayer:
    """Limits, baseline, answers and clipping with one set of parameters."""

    baseline = staticmethod(compute_l1_baseline)

    def __init__(self, horizon: int = 40, reserve: float = 0.1, min_quantity: int = 1) -> None:
        if horizon < 0 or not reserve >= 0 or min_quantity < 1:
            raise ValueError(f"{horizon=} and {reserve=} must not be negative, {min_quantity=} must be positive")
        self.horizon, self.reserve, self.min_quantity = horizon, reserve, min_quantity

    def limits(self, day: DayBatch, ledger: Ledger | None = None) -> Limits:
        """What is safe on both sides, by days ahead, after the ledger's deals."""
        if self.horizon != day.H:
            raise ValueError(f"days of horizon {day.H} in an L1SafetyLayer(horizon={self.horizon}); use one horizon")
        Q_in, Q_out, payables = day.Q_in, day.Q_out, day.Payables
        if ledger is not None:
            if (ledger.step != day.current_step).any():
                raise ValueError("the ledger's rows are of other days than the batch's")
            Q_in, Q_out, payables = Q_in + ledger.q_in, Q_out + ledger.q_out, payables + ledger.payables
        L, stock = day.n_lines[:, None], day.inventory_input[:, None]
        stays = np.maximum(0.0, Q_in - L)  # of a day's arrivals, even if every line works
        I_end = stock + stays.cumsum(axis=1)  # at the end of each day
        I_low = I_end - stays
        fill = L - I_end[:, -1:]
        buy_room = fill + np.where(fill > 0.0, np.maximum(0.0, L - Q_in), 0.0)
        sell_room = np.minimum(L, I_low + Q_in) - Q_out

        days_left = (day.n_steps - 1.0 - day.current_step)[:, None]
        buy_room = np.where(day.ahead == days_left, L - I_low - Q_in, buy_room)
        over = day.ahead > days_left
        buy_room, sell_room = np.where(over, 0.0, buy_room), np.where(over, 0.0, sell_room)

        owed = payables.cumsum(axis=1)[:, -1]
        money_room = day.balance - self.reserve * day.initial_balance - owed
        return Limits(buy_room, sell_room, money_room, self.min_quantity)

    def compute(
        self,
        day: DayBatch | DayState,
        ledger: Ledger | None = None,
        role: Roles = "buyer",
        issues: Ints | Issues | None = None,
        limits: Limits | None = None,
    ) -> L1Output:
        """Limits, mask and baseline of one thread a row; `limits` spares computing them again for other threads."""
        days = day_batch([day], self.horizon) if isinstance(day, DayState) else day
        limits = self.limits(days, ledger) if limits is None else limits
        seller, bounds = sellers(role, len(days)), bounds_of(days, role, issues)
        is_open = open_days(days, limits, seller, bounds)
        return L1Output(
            seller=seller,
            step=days.current_step.astype(np.int64),
            issues=bounds,
            Q_safe=limits.Q_safe,
            Q_safe_sell=limits.Q_safe_sell,
            B_free=limits.B_free,
            open=is_open,
            baseline=self.baseline(days, limits, seller, bounds, is_open),
        )

    def clip(self, out: L1Output, action: Floats) -> LegalOffers:
        """The legal offer nearest to (quantity, days ahead, unit price), within every limit, or none.

        The day becomes the nearest open one that the issue and its smallest quantity allow (the earlier of two); the
        price goes to the issue's grid, rounded in the agent's favour; the quantity is rounded down and bounded by the
        day's safe quantity, by money for buyers, and by the issue. Numbers that are not finite give none.
        """
        action = np.asarray(action, np.float64)
        finite: Bools = np.logical_and.reduce(np.isfinite(action), axis=1)
        q, ahead, price = np.where(finite[:, None], action, 0.0).T
        n, rows = len(q), np.arange(len(q))
        least = np.maximum(out.issues[:, 0], self.min_quantity)
        safe = out.safe
        k = np.arange(safe.shape[1])
        first, last = out.issues[:, 2:3], out.issues[:, 3:4]
        is_open = out.open & (k >= first) & (k <= last) & (safe >= least[:, None])
        distance = np.where(is_open, np.abs(k - np.rint(ahead)[:, None]), np.inf)
        d = distance.argmin(axis=1)
        p = _on_grid(price, out.seller, out.issues)
        most = np.minimum(safe[rows, d], out.issues[:, 1])
        most = np.where(out.seller, most, np.minimum(most, _affordable(out.B_free, p)))
        legal = is_open.any(axis=1) & (most >= least) & finite
        q = np.minimum(np.maximum(np.floor(q + _ON_GRID), least), np.maximum(most, least))
        offer = np.zeros((n, 3), np.int64)
        for column, values in zip(offer.T, (q, d, p), strict=True):
            column[legal] = values[legal]
        return LegalOffers(offer, legal)

    def legal_baseline(self, out: L1Output) -> LegalOffers:
        """The baseline as a legal offer; none where nothing can be traded."""
        clipped = self.clip(out, out.baseline)
        legal = clipped.legal & (out.baseline[:, 0] > 0)
        return LegalOffers(np.where(legal[:, None], clipped.offer, 0), legal)

    def allows(self, out: L1Output, offers: Ints) -> Bools:
        """Whether (quantity, days ahead, unit price) is within every limit, whatever its price.  # (N,)"""
        q, ahead, price = np.asarray(offers, np.int64).T
        rows = np.arange(len(q))
        day = np.minimum(np.maximum(ahead, 0), self.horizon)
        inside: Bools = (ahead == day) & out.open[rows, day] & (q >= self.min_quantity)
        inside &= q <= out.safe[rows, day]
        inside &= out.seller | (q * price <= out.B_free)
        return inside

    def accepts(self, out: L1Output, offers: Ints) -> Bools:
        """Whether (quantity, days ahead, unit price) is safe and at least as good as the baseline.  # (N,)"""
        price = np.asarray(offers, np.int64)[:, 2]
        asked = np.minimum(np.maximum(out.baseline[:, 2], out.issues[:, 4]), out.issues[:, 5])
        good = np.where(out.seller, price >= asked - _ON_GRID, price <= asked + _ON_GRID)
        accepted: Bools = self.allows(out, offers) & good
        return accepted

    def answer(
        self,
        out: L1Output,
        offers: Ints | None = None,
        on_table: Bools | None = None,
        base: LegalOffers | None = None,
    ) -> L1Answers:
        """L1's answer to the offers on the table; without one it opens with its baseline.

        ACCEPT what is safe and good enough; END where no day is open or no legal baseline exists; else REJECT with
        the baseline. `on_table` says which rows have an offer (default: all, or none if `offers` is None); `base`
        spares computing `legal_baseline` again.
        """
        n = len(out.step)
        counter = self.legal_baseline(out) if base is None else base
        accepted = np.zeros(n, np.bool_) if offers is None else self.accepts(out, offers)
        if on_table is not None:
            accepted &= on_table
        op = np.where(accepted, ACCEPT, np.where(counter.legal, REJECT, END)).astype(np.int8)
        proposes = op == REJECT
        return L1Answers(op, LegalOffers(np.where(proposes[:, None], counter.offer, 0), proposes))


def safe_quantity(
    Q_safe: Floats, Q_safe_sell: Floats, B_free: Floats, seller: Bools, ahead: Ints, price: Ints
) -> Floats:
    """The largest whole quantity L1 allows for delivery `ahead` days from now at `price`.  # (N,)"""
    rows = np.arange(len(seller))
    affordable = np.floor(np.divide(B_free, price, out=np.full(len(rows), np.inf), where=price > 0))
    buy = np.minimum(Q_safe[rows, ahead], affordable)
    whole: Floats = np.floor(np.where(seller, Q_safe_sell[rows, ahead], buy))
    return whole
