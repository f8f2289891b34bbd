"""The books of a factory's day as the simulator keeps them (spec §4), and what one deal changed in them.

With stock I, arrivals A, promised sales S and L lines,

    made   = min(I + A, L, S)
    profit = money of the `made` best-paid pieces − money of all purchases − cost · made
             − shortfall penalty · (S − made) − storage and disposal · (I + A − made)

A factory that cannot pay buys the cheapest pieces first and can only process what it paid for; it owes the rest all the
same. What a deal was worth to its day is the difference between the books with it and without it, all else unchanged.
What it leaves for later days (stock, promises) is not in these books: the critic values the next dawn.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.runtime.arrays import Bools, Floats, Ints

CHUNK = 16_384


@dataclass(frozen=True)
class Books:
    """N factories' days, everything that is delivered on them included; contracts are padded with quantity 0."""

    balance: Floats  # (N,) at dawn
    lines: Floats  # (N,)
    cost: Floats  # (N,) of making a piece
    penalty: Floats  # (N,) for a piece that is not delivered
    storage: Floats  # (N,) for a piece that is left over: storage and disposal
    buy_quantity: Floats  # (N, K) the stock is a purchase at price 0, or part of the exogenous contract
    buy_price: Floats  # (N, K) a piece
    sell_quantity: Floats  # (N, J)
    sell_price: Floats  # (N, J) a piece

    def __len__(self) -> int:
        return len(self.balance)

    def take(self, rows: Ints) -> Books:
        return Books(*(getattr(self, f.name)[rows] for f in fields(self)))

    def profit(self) -> Floats:
        """The profit of each day.  # (N,)"""
        material, owed, paid_for = self._material()
        promised = self.sell_quantity.sum(axis=1)
        made = np.minimum(np.minimum(paid_for, self.lines), promised)
        left, short = material - made, promised - made
        profit: Floats = self._revenue(made) - owed - self.cost * made - self.penalty * short - self.storage * left
        return profit

    def _material(self) -> tuple[Floats, Floats, Floats]:
        """Pieces at hand, what is owed for them, and how many of them the balance covers.  # (N,) each"""
        order = np.argsort(self.buy_price, axis=1, kind="stable")
        q, p = (np.take_along_axis(x, order, axis=1) for x in (self.buy_quantity, self.buy_price))
        money, pieces = np.cumsum(q * p, axis=1), np.cumsum(q, axis=1)
        before = money - q * p
        beyond = money + q * self.cost[:, None] > self.balance[:, None]  # this purchase cannot be paid in full
        first = np.where(beyond.any(axis=1), beyond.argmax(axis=1), q.shape[1] - 1)[:, None]
        at = [np.take_along_axis(x, first, axis=1)[:, 0] for x in (pieces - q, before, p)]
        unit = at[2] + self.cost
        affordable = at[0] + np.floor((self.balance - at[1]) / np.where(unit > 0, unit, 1.0))
        paid_for = np.where(beyond.any(axis=1), affordable, pieces[:, -1])
        return pieces[:, -1], money[:, -1], np.where(self.balance < 0, 0.0, paid_for)

    def _revenue(self, made: Floats) -> Floats:
        """What the buyers pay for `made` pieces, the best-paying first.  # (N,)"""
        order = np.argsort(-self.sell_price, axis=1, kind="stable")
        q, p = (np.take_along_axis(x, order, axis=1) for x in (self.sell_quantity, self.sell_price))
        before = np.cumsum(q, axis=1) - q
        revenue: Floats = (p * np.clip(made[:, None] - before, 0.0, q)).sum(axis=1)
        return revenue

    def differences(self, seller: Bools, place: Ints) -> Floats:
        """Profit less what it were without one contract: column `place[i]` of that side on day i.  # (N,)"""
        n = np.arange(len(self))
        buys, sales = self.buy_quantity.copy(), self.sell_quantity.copy()
        buys[n[~seller], place[~seller]] = 0.0
        sales[n[seller], place[seller]] = 0.0
        return self.profit() - replace(self, buy_quantity=buys, sell_quantity=sales).profit()


@dataclass(frozen=True)
class Deliveries:
    """The deals of logs that fall due on a recorded day, in the order of days, then sides."""

    thread: Ints  # (M,) row in the tables
    day: Ints  # (M,) index into the days asked for
    seller: Bools  # (M,)
    quantity: Floats  # (M,)
    price: Floats  # (M,)
    today: Bools  # (M,) signed on the day of delivery
    place: Ints  # (M,) its column in the books; 0 is for stock and exogenous contracts


def deliveries_of(data: TournamentData, days: Ints) -> Deliveries:
    """The deals due on `days`: all rows of table `day` of the data, in their order."""
    take = data.tables.store.take
    threads = data.rows("thread")
    deal = take("thread.deal", threads)  # quantity, days ahead, price
    threads, deal = threads[deal[:, 0] > 0], deal[deal[:, 0] > 0]
    signed, seller = take("thread.day", threads), take("thread.seller", threads) == 1
    due = _key(take("day.log", signed), take("day.current_step", signed) + deal[:, 1])
    keys = _key(take("day.log", days), take("day.current_step", days))
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], due), len(keys) - 1)
    day, known = order[at], keys[order][at] == due
    rows = np.flatnonzero(known)  # the others fall due after the log's last day
    rows = rows[np.lexsort((threads[rows], seller[rows], day[rows]))]
    group = 2 * day[rows] + seller[rows]
    first = np.searchsorted(group, group)  # where its day and side begin
    place = 1 + np.arange(len(rows)) - first
    quantity, ahead, price = deal[rows].T
    return Deliveries(
        threads[rows], day[rows], seller[rows], quantity.astype(np.float64), price.astype(np.float64), ahead == 0, place
    )


def _key(log: Ints, step: Ints) -> Ints:
    return log.astype(np.int64) * 100_000 + step.astype(np.int64)


def books_of(data: TournamentData, days: Ints, due: Deliveries) -> Books:
    """The books of days from their logs; what was due at dawn and no deal explains is the exogenous contract."""
    take = data.tables.store.take
    d = data.tables.days(days, offers=False)
    shortfall, storage, disposal = take("day.costs", days).astype(np.float64).T
    sides = []
    for seller, at_dawn, money in ((False, d.Q_in, d.Payables), (True, d.Q_out, d.Receivables)):
        mine = due.seller == seller
        width = 1 + int(due.place[mine].max(initial=0))
        quantity, price = np.zeros((2, len(days), width))
        at = due.day[mine], due.place[mine]
        quantity[at], price[at] = due.quantity[mine], due.price[mine]
        earlier = mine & ~due.today
        known = np.bincount(due.day[earlier], due.quantity[earlier], len(days))
        paid = np.bincount(due.day[earlier], due.quantity[earlier] * due.price[earlier], len(days))
        quantity[:, 0] = at_dawn[:, 0] - known + (0.0 if seller else d.inventory_input)
        exogenous = money[:, 0] - paid
        price[:, 0] = np.divide(exogenous, quantity[:, 0], out=np.zeros(len(days)), where=quantity[:, 0] > 0)
        sides += [quantity, price]
    return Books(
        d.balance, d.n_lines, d.production_cost, shortfall * d.spot_price_out,
        (storage + disposal) * d.spot_price_in, *sides,
    )  # fmt: skip


def deal_differences(data: TournamentData) -> Floats:
    """What each thread's same-day deal added to the day's profit, over the initial balance.  # (threads of the store,)

    0 without a deal, or with one that is delivered later.
    """
    take = data.tables.store.take
    days = data.rows("day")
    due = deliveries_of(data, days)
    found = np.zeros(data.tables.store.rows("thread"))
    books = books_of(data, days, due)
    initial = take("log.initial_balance", take("day.log", days))
    today = np.flatnonzero(due.today)
    for i in range(0, len(today), CHUNK):
        some = today[i : i + CHUNK]
        worth = books.take(due.day[some]).differences(due.seller[some], due.place[some])
        found[due.thread[some]] = worth / initial[due.day[some]]
    return found
