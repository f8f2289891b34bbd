"""Days to calculate by hand, and days drawn at random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from echelon.hrl_xf.state.day_batch import DayBatch, Ledger, Offers, age_of, day_batch
from echelon.hrl_xf.state.day_state import Commitments, DayState, Issues, Offer, OffersSnapshot, Role, SeenOffer
from echelon.hrl_xf.state.goals import reconstruct_l2_goals
from echelon.hrl_xf.state.schema import DailyStatusEntry, DecisionEntry, Entry, NegotiationSuccessEntry
from echelon.runtime.arrays import Float32


def commitments(
    q_in: list[int] | None = None,
    q_out: list[int] | None = None,
    payables: list[float] | None = None,
    receivables: list[float] | None = None,
) -> Commitments:
    """Lists may be left out; all are filled up with zeros to the longest."""
    given: list[list[Any]] = [list(row or []) for row in (q_in, q_out, payables, receivables)]
    length = max(1, *(len(row) for row in given))
    full = [[*row, *[0] * (length - len(row))] for row in given]
    return Commitments(*full)


def a_day(**changes: Any) -> DayState:
    """A middle-level factory on day 10 of 50 with 10 lines, 10,000 in the bank, prices 20 and 30, nothing signed."""
    day = DayState(
        current_step=10,
        n_steps=50,
        balance=10_000.0,
        initial_balance=10_000.0,
        score=1.0,
        inventory_input=0,
        inventory_output=0,
        spot_price_in=20.0,
        spot_price_out=30.0,
        trading_prices=[10.0, 20.0, 30.0, 40.0],
        n_lines=10,
        horizon=10,
        production_cost=5.0,
        commitments=commitments(),
        level=1,
        my_input_product=1,
        my_output_product=2,
        n_products=4,
        n_suppliers=3,
        n_consumers=3,
        needed_supplies=0,
        needed_sales=0,
        exogenous_input_quantity=0,
        exogenous_input_price=0.0,
        exogenous_output_quantity=0,
        exogenous_output_price=0.0,
        shortfall_penalty=0.5,
        storage_cost=0.05,
        disposal_cost=0.0,
        is_bankrupt=False,
        buy_issues=Issues((1, 30), (10, 20), (18, 22)),
        sell_issues=Issues((1, 30), (10, 20), (27, 33)),
        offers_snapshot=OffersSnapshot([], []),
    )
    return replace(day, **changes)


def last_day(stock: int) -> DayState:
    """Day 10 of 11 with some pieces to sell: what is safe today is all there is."""
    issues = Issues((1, 30), (10, 10), (27, 33))
    return a_day(n_steps=11, inventory_input=stock, sell_issues=issues, buy_issues=Issues((1, 30), (10, 10), (18, 22)))


def padded(values: list[float], length: int = 41) -> list[float]:
    """Values by days ahead, zeros to the end."""
    return [*values, *[0.0] * (length - len(values))]


@st.composite
def issues(draw: st.DrawFn, step: int, last: int) -> Issues:
    """Any bounds at all, now and then none that fit the limits."""
    q, p, first = draw(st.integers(1, 6)), draw(st.integers(0, 80)), draw(st.integers(step, last))
    wide, dear, until = draw(st.integers(0, 60)), draw(st.integers(0, 20)), draw(st.integers(first, last))
    return Issues((q, q + wide), (first, until), (p, p + dear))


@st.composite
def seen(draw: st.DrawFn, step: int) -> SeenOffer:
    time = draw(st.integers(max(0, step - 1), step + 10))
    return SeenOffer(time, draw(st.integers(1, 30)), draw(st.integers(1, 60)), draw(st.integers(0, 19)), 20)


@st.composite
def days(draw: st.DrawFn, healthy: bool = False) -> DayState:
    """Any day an agent could wake up to, the unsafe ones included; a healthy one has room to trade on both sides."""
    n_steps = draw(st.integers(2, 60))
    step = draw(st.integers(0, n_steps - 1))
    horizon = draw(st.integers(1, 12))
    last = min(horizon, n_steps - 1 - step)
    counts = st.lists(st.integers(0, 3 if healthy else 25), min_size=last + 1, max_size=last + 1)
    q_in, q_out = draw(counts), draw(counts)
    price = draw(st.integers(1, 40))
    level = draw(st.integers(0, 2))
    side = issues(step, step + last) if healthy else st.none() | issues(step, step + last)
    snapshot = st.lists(seen(step), max_size=6)
    return a_day(
        current_step=step,
        n_steps=n_steps,
        balance=draw(st.floats(3e3 if healthy else -5e3, 2e4)),
        initial_balance=draw(st.floats(0, 2e4)),
        inventory_input=draw(st.integers(0, 9 if healthy else 200)),
        inventory_output=draw(st.integers(20 if healthy else 0, 40)),
        spot_price_in=draw(st.floats(0.5, 60)),
        spot_price_out=draw(st.floats(0.5, 90)),
        n_lines=draw(st.integers(1, 12)),
        horizon=horizon,
        commitments=commitments(q_in, q_out, [float(q * price) for q in q_in], [float(q * price) for q in q_out]),
        level=level,
        my_input_product=level,
        my_output_product=level + 1,
        needed_supplies=draw(st.integers(-50, 50)),
        needed_sales=draw(st.integers(-50, 50)),
        buy_issues=draw(side),
        sell_issues=draw(side),
        offers_snapshot=OffersSnapshot(draw(snapshot), draw(snapshot)),
    )


@st.composite
def deals(draw: st.DrawFn, day: DayState) -> list[tuple[Role, Offer]]:
    """A few deals of that day, safe or not."""
    last = day.current_step + min(day.horizon, day.n_steps - 1 - day.current_step)
    offer = st.tuples(st.integers(1, 30), st.integers(day.current_step, last), st.integers(1, 60))
    role: st.SearchStrategy[Role] = st.sampled_from(("buyer", "seller"))
    return draw(st.lists(st.tuples(role, offer), max_size=4))


class Books(NamedTuple):
    """A factory's days as the game counts them, by days ahead."""

    made: list[int]
    stock: list[int]
    """of input at dusk"""
    short: list[int]


def books(stock: int, arrivals: Sequence[int], sales: Sequence[int], lines: int) -> Books:
    """The four lines of spec §4, day after day: the game's own books, with none of L1's formulas."""
    kept = Books([], [], [])
    for arriving, promised in zip(arrivals, sales, strict=True):
        made = min(stock + arriving, lines, promised)
        stock += max(0, arriving - made)
        kept.made.append(made)
        kept.stock.append(stock)
        kept.short.append(promised - made)
    return kept


def reference(
    day: DayState, signed: Sequence[tuple[Role, Offer]], H: int = 40
) -> tuple[list[float], list[float], float]:
    """What may still be bought and sold by days ahead, and free money, none of them clamped: asked of the books.

    Sold: the most that leaves a day whole when every line works on every day before it, less what is promised. Bought:
    the most that leaves at most L in stock at the end when every line works. Negative: so much is too much already.
    """
    L, t, days_left = day.n_lines, day.current_step, day.n_steps - day.current_step
    q_in, q_out = [0] * (H + 1), [0] * (H + 1)
    q_in[: len(day.commitments.Q_in)], q_out[: len(day.commitments.Q_out)] = day.commitments.Q_in, day.commitments.Q_out
    owed = sum(day.commitments.Payables)
    for role, (q, time, p) in signed:
        (q_in if role == "buyer" else q_out)[time - t] += q
        owed += q * p if role == "buyer" else 0
    busy = [L] * (H + 1)

    def stock_at_the_end(arrivals: Sequence[int]) -> int:
        return books(day.inventory_input, arrivals, busy, L).stock[-1]

    at_work = books(day.inventory_input, q_in, busy, L)
    sell = [float(made - promised) for made, promised in zip(at_work.made, q_out, strict=True)]
    buy = []
    for d in range(H + 1):
        lacking = L - stock_at_the_end(q_in)
        dawn = day.inventory_input if d == 0 else at_work.stock[d - 1]
        if d == days_left - 1:
            buy.append(float(L - dawn - q_in[d]))
        elif lacking <= 0:
            buy.append(float(lacking))
        else:
            more = 0
            while stock_at_the_end([*q_in[:d], q_in[d] + more + 1, *q_in[d + 1 :]]) <= L:
                more += 1
            buy.append(float(more))
    over = range(days_left, H + 1)
    for d in over:
        buy[d] = sell[d] = 0.0
    return buy, sell, day.balance - 0.1 * day.initial_balance - owed


def same_bits(a: Any, b: Any) -> bool:
    """Equal type, shape and bytes."""
    return a.dtype == b.dtype and a.shape == b.shape and bool(np.asarray(a).tobytes() == np.asarray(b).tobytes())


class DayRecord(NamedTuple):
    """One day of a log, as labels need it."""

    day: DayState
    deals: list[tuple[Role, Offer]]
    seen: list[tuple[Role, Offer, int, int]]
    """partners' offers: role of the agent, offer, round, rounds"""
    own: dict[str, tuple[Role, Offer]]
    """the agent's last sent offer by mechanism"""


def day_records(entries: Iterable[Entry]) -> list[DayRecord]:
    """The days of a log with their deals and offers, in order."""
    records: list[DayRecord] = []
    for entry in entries:
        if isinstance(entry, DailyStatusEntry):
            records.append(DayRecord(entry.data, [], [], {}))
        elif isinstance(entry, NegotiationSuccessEntry):
            records[-1].deals.append((entry.data.role, entry.data.agreement))
        elif isinstance(entry, DecisionEntry) and entry.data.asked != "framework":
            decision = entry.data
            if decision.offer is not None:
                records[-1].seen.append((decision.role, decision.offer, decision.round, decision.rounds))
            if decision.counter_offer is not None and decision.sent:
                records[-1].own[decision.mechanism_id] = (decision.role, decision.counter_offer)
    return records


def spoken(days: DayBatch, offers: Sequence[Sequence[tuple[Role, Offer, int, int]]]) -> Offers:
    """Offers (role, offer, round, rounds) of each day as columns."""
    flat = [
        (i, role == "seller", *offer, round_, rounds)
        for i, of_day in enumerate(offers)
        for role, offer, round_, rounds in of_day
    ]
    row, seller, quantity, time, price, round_, rounds = np.array(flat, np.int64).reshape(-1, 7).T
    step = days.current_step.astype(np.int64)
    return Offers(row, seller == 1, time - step[row], quantity, price, age_of(round_, rounds))


def ledger_of(days: DayBatch, deals: Sequence[Sequence[tuple[Role, Offer]]]) -> Ledger:
    """Everything in `deals[i]` signed on day i."""
    ledger, first = Ledger.after_each_deal(days, deals)
    return ledger.take(first + np.array([len(d) for d in deals], np.int64))


def goals_of(records: Sequence[DayRecord], horizon: int = 40) -> Float32:
    """The labels of a log's days.  # (N, 16)"""
    days = day_batch([record.day for record in records], horizon)
    ledger = ledger_of(days, [record.deals for record in records])
    seen = spoken(days, [record.seen for record in records])
    own = spoken(days, [[(role, offer, 0, 1) for role, offer in record.own.values()] for record in records])
    return reconstruct_l2_goals(days, ledger, seen, own)


BUSY = a_day(
    balance=8_000.0,
    inventory_input=50,
    inventory_output=25,
    commitments=commitments([5, 15], [10], [110.0, 300.0], [250.0]),
)


def signed_since(step: int, dawn: Commitments, now: Commitments, horizon: int = 40) -> Ledger:
    """The ledger of a live agent: commitments now less those at dawn."""
    signed = np.zeros((4, 1, horizon + 1))
    for table, name in zip(signed, ("Q_in", "Q_out", "Payables", "Receivables"), strict=True):
        table[0, : len(dawn.Q_in)] = np.subtract(getattr(now, name), getattr(dawn, name))
    return Ledger(np.array([step]), *signed)
