"""Dynamic reservation: the answers of one call, made one after the other, so that they are safe all together.

L3 decides on all threads as if each were alone. Here they are taken in the order of L4's α: each answer is clipped to
what L1 still allows after the deals of the day and everything reserved before it, then reserved itself (spec §8). An
offer that may still be accepted counts as a deal of its own side only: what is not signed yet is neither material that
could be sold nor money that could be spent.

Most calls fit as they are. That is seen at once: L1's rooms only shrink as more is reserved, and stay signed, so if
they hold with everything reserved, they held at every step on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.state.day_batch import DayBatch, Ledger, in_days_ahead
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT, Offer
from echelon.hrl_xf.state.l1_safety import L1Output, L1SafetyLayer
from echelon.runtime.arrays import Bools, Ints


@dataclass(frozen=True)
class Wish:
    """What a thread is to answer: ACCEPT or REJECT with an offer (quantity, absolute day, unit price), or END."""

    op: int
    offer: Offer | None

    def __post_init__(self) -> None:
        if (self.op == END) != (self.offer is None):
            raise ValueError(f"op {self.op} with offer {self.offer}: only END (2) has none")


NOTHING = Wish(END, None)
NEXT_DAY = 0.8
"""What a piece is worth that is sold for a day later or earlier than wanted."""


def roomiest_day(room: NDArray[np.number], wanted: Ints, ahead: Ints) -> Ints:
    """The day for each sale: where most of what is wanted fits, less a part for each day of distance from `ahead`.

    (N, H+1) pieces that may be sold, (N,), (N,) -> (N,); `ahead` where there is no room at all
    """
    distance = np.abs(np.arange(room.shape[1]) - ahead[:, None])
    pieces = np.minimum(room, wanted[:, None]) * NEXT_DAY**distance
    return np.where(pieces.any(axis=1), pieces.argmax(axis=1), ahead)


class Reservations:
    """One side of a day: what is signed and what is promised, and what L1 still allows in addition."""

    def __init__(self, layer: L1SafetyLayer, day: DayBatch, ledger: Ledger, seller: bool, issues: Ints) -> None:
        """`day` and `ledger` have one row; `issues` are the bounds of the side's negotiations.  # (1, 6)"""
        self.layer, self.day, self.seller, self.issues = layer, day, np.array([seller]), issues
        self._ledger = ledger
        self._names = ("q_out", "receivables") if seller else ("q_in", "payables")

    def hold(self, offers: Iterable[Offer]) -> None:
        """Count these offers as deals of this side."""
        tables = {name: getattr(self._ledger, name).copy() for name in self._names}
        quantity, money = (tables[name] for name in self._names)
        step, width = int(self._ledger.step[0]), quantity.shape[1]
        for q, t, p in offers:
            ahead = min(max(t - step, 0), width - 1)
            quantity[0, ahead] += q
            money[0, ahead] += q * p
        self._ledger = replace(self._ledger, **tables)

    def view(self) -> L1Output:
        """What L1 allows now."""
        return self.layer.compute(self.day, self._ledger, self.seller, self.issues)

    def settle(self, wishes: Sequence[Wish], *, only_cut: bool = False) -> list[Wish]:
        """The wishes of this side's threads, in their order, made safe all together, and reserved.

        An acceptance that no longer fits becomes L1's plain offer, an offer is clipped, and where nothing is left the
        thread ends. A sale that does not fit on its day goes to the day on which most of it fits, near days first:
        every day has lines of its own. A purchase stays on its day as long as that is open.

        `only_cut`: the wishes are those of another agent. Offers too stay on their days as long as these are open, and
        an acceptance that no longer fits becomes an offer of as much as is safe.
        """
        if self._all_fit(wishes):
            self.hold(w.offer for w in wishes if w.offer is not None)
            return list(wishes)
        settled: list[Wish] = []
        for wish in wishes:
            if wish.op != END:
                wish = self._fit(wish, only_cut)
                self.hold([] if wish.offer is None else [wish.offer])
            settled.append(wish)
        return settled

    def _all_fit(self, wishes: Sequence[Wish]) -> bool:
        offers = [w.offer for w in wishes if w.offer is not None]
        if not offers:
            return True
        first, asked = self.view(), in_days_ahead(offers, int(self._ledger.step[0]))
        legal = (asked >= self.issues[:, ::2]) & (asked <= self.issues[:, 1::2])
        if not (legal.all() and self.layer.allows(first.take(np.zeros(len(offers), np.int64)), asked).all()):
            return False
        before = self._ledger
        self.hold(offers)
        limits = self.layer.limits(self.day, self._ledger)
        self._ledger = before
        room = limits.sell_room[0] if self.seller[0] else limits.buy_room[0]
        days = asked[:, 1]
        cost = (asked[:, 0] * asked[:, 2]).sum()
        return bool((room[days] >= 0).all() and (self.seller[0] or cost <= first.B_free[0]))

    def _fit(self, wish: Wish, only_cut: bool) -> Wish:
        assert wish.offer is not None
        today = int(self._ledger.step[0])
        out, asked = self.view(), in_days_ahead([wish.offer], today)
        if wish.op == ACCEPT:
            if self.layer.allows(out, asked)[0]:
                return wish
            if not only_cut:
                base = self.layer.legal_baseline(out).outcome(0, today)
                return NOTHING if base is None else Wish(REJECT, base)
        quantity, ahead, price = asked[0]
        if self.seller[0] and not only_cut:
            days = np.arange(out.safe.shape[1])
            inside = out.open & (days >= self.issues[:, 2:3]) & (days <= self.issues[:, 3:4])
            ahead = roomiest_day(np.where(inside, np.floor(out.safe), 0.0), asked[:, 0], asked[:, 1])[0]
        clipped = self.layer.clip(out, np.array([[quantity, ahead, price]], np.float64)).outcome(0, today)
        return NOTHING if clipped is None else Wish(REJECT, clipped)


def settle_call(
    wishes: Sequence[Wish],
    seller: Bools,
    alpha: NDArray[np.floating],
    book: Callable[[bool], Reservations],
) -> list[Wish]:
    """The wishes of all threads of a call, given in the order of their names, made safe: each side in the order of α.

    `book` gives the account of a side (True: sales).
    """
    answers = list(wishes)
    order = np.argsort(-alpha.round(5), kind="stable")  # equal threads by name, not by how a sum was rounded
    for sells in (False, True):
        side = order[seller[order] == sells].tolist()
        if side:
            for i, answer in zip(side, book(sells).settle([wishes[i] for i in side]), strict=True):
                answers[i] = answer
    return answers
