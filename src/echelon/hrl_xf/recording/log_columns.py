"""One log as columns, checked: the only place where the pipeline loops over entries.

What the schema cannot say is checked here: entries in the order of the day, a decision's ledger that agrees with the
deals before it, threads that keep their partner and role. A log that fails is left out with the entry's number; no
sample is ever made of entries that contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import numpy as np

from echelon.hrl_xf.state.day_state import DayState, Issues, Offer, Role
from echelon.hrl_xf.state.schema import (
    AgentInitializedEntry,
    AgentLog,
    DailyStatusEntry,
    DayClosed,
    DayClosedEntry,
    Decision,
    DecisionEntry,
    LogError,
    NegotiationSuccess,
    NegotiationSuccessEntry,
)
from echelon.runtime.arrays import Ints

ASKED: Final = ("first_proposals", "counter_all", "respond", "framework")
FRAMEWORK = ASKED.index("framework")
OPS: Final = ("ACCEPT", "REJECT", "END")
_ASKED = {name: code for code, name in enumerate(ASKED)}
_OPS = {name: code for code, name in enumerate(OPS)}

MOST_PIECES = MOST_PRICE = 30_000
MOST_MONEY = 1e12
MOST_DAYS = 10_000
_CONSTANT = (
    "n_steps", "n_lines", "initial_balance", "horizon", "production_cost", "my_input_product", "my_output_product",
    "n_products",
)  # fmt: skip

_STOCKS = (
    "inventory_input", "inventory_output", "needed_supplies", "needed_sales", "my_input_product", "my_output_product",
    "n_products",
)  # fmt: skip
_AMOUNTS = (
    "balance", "initial_balance", "spot_price_in", "spot_price_out", "production_cost", "shortfall_penalty",
    "storage_cost", "disposal_cost",
)  # fmt: skip
_OUTCOMES = ("profit", "shortfall_penalty", "storage_cost", "disposal_cost")
_stocks, _amounts, _outcomes = attrgetter(*_STOCKS), attrgetter(*_AMOUNTS), attrgetter(*_OUTCOMES)

COLUMNS: Final = (
    "day", "thread", "call", "asked", "seller", "round", "rounds", "on_table", "quantity_seen", "ahead_seen",
    "price_seen", "op", "quantity", "ahead", "price", "deals_before", "sent",
)  # fmt: skip


@dataclass
class LogColumns:
    """A log's days, deals and decisions."""

    agent_type: str
    agent_id: str
    world_id: str
    config_id: str
    days: list[DayState] = field(default_factory=list)
    closed: list[DayClosed | None] = field(default_factory=list)
    deals: list[list[tuple[Role, Offer]]] = field(default_factory=list)
    """of each day, in the order they were signed"""
    threads: list[tuple[int, str, bool]] = field(default_factory=list)
    """(day, partner, seller) of each negotiation in which the agent or the framework for it said something"""
    agreements: dict[int, Offer] = field(default_factory=dict)
    """by thread"""
    decisions: Ints = field(default_factory=lambda: np.zeros((0, len(COLUMNS)), np.int64))  # (N, columns)
    relative_time: list[float] = field(default_factory=list)  # (N,)

    def column(self, name: str) -> Ints:
        return self.decisions[:, COLUMNS.index(name)]


def columns_of(log: AgentLog, horizon: int = 40) -> LogColumns:
    """The columns of a log, or a `LogError` that names the entry that cannot be."""
    reader = _Reader(LogColumns(log.agent_type, log.agent_id, log.world_id, log.config_id), horizon)
    for number, entry in enumerate(log.entries):
        try:
            kind = type(entry)
            if kind is DecisionEntry:
                reader.decision(entry.day, entry.data)  # type: ignore[arg-type]
            elif kind is DailyStatusEntry:
                reader.dawn(entry.day, entry.data)  # type: ignore[arg-type]
            elif kind is NegotiationSuccessEntry:
                reader.deal(entry.day, entry.data)  # type: ignore[arg-type]
            elif kind is DayClosedEntry:
                reader.dusk(entry.day, entry.data)  # type: ignore[arg-type]
            elif kind is AgentInitializedEntry and entry.data.agent_type_base != log.agent_type:  # type: ignore[union-attr]
                raise LogError(f"agent_type_base is not the log's agent_type {log.agent_type!r}")
        except LogError as error:
            raise LogError(f"entry {number} ({_event(entry)}, day {entry.day}): {error}") from error
    return reader.finish()


def check_complete(log: AgentLog) -> None:
    """The log says itself how much it holds and whether recording it went well."""
    stats = log.stats
    if stats.tracker_failures:
        line = stats.first_tracker_failure.strip().splitlines()[-1:] or ["unknown"]
        raise LogError(f"recording failed {stats.tracker_failures} times, so entries are missing; first: {line[0]}")
    answers = [e.data.answer for e in log.entries if type(e) is DecisionEntry]
    found = {
        "days": sum(type(e) is DailyStatusEntry for e in log.entries),
        "decisions": len(answers),
        "accepts": answers.count("ACCEPT"),
        "rejects": answers.count("REJECT"),
        "ends": answers.count("END"),
        "deals": sum(type(e) is NegotiationSuccessEntry for e in log.entries),
    }
    for name, number in found.items():
        said = getattr(stats, name)
        if said != number:
            raise LogError(f"its stats count {said} {name}, its entries {number}: entries are missing or changed")


def _event(entry: Any) -> str:
    return str(entry.__struct_config__.tag)


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise LogError(f"{name} {value} is not within {low:g}..{high:g}")


def _legal(offer: Offer, issues: Issues) -> bool:
    (q0, q1), (t0, t1), (p0, p1) = issues.quantity, issues.time, issues.price
    return q0 <= offer[0] <= q1 and t0 <= offer[1] <= t1 and p0 <= offer[2] <= p1


class _Reader:
    """Reads entries in their order; `LogError` at the first that contradicts those before."""

    def __init__(self, columns: LogColumns, horizon: int) -> None:
        self.columns, self.horizon = columns, horizon
        self.day: DayState | None = None
        self.row = -1
        self.call = 0
        self.n_deals = 0
        self.thread_of: dict[str, int] = {}
        self.rounds_of: list[tuple[int, int]] = []  # of each thread: the last round, and how many there are
        self.last_offer: list[Offer | None] = []  # of each thread: what can be agreed
        self.rows: list[tuple[int, ...]] = []

    def dawn(self, day: int, state: DayState) -> None:
        before = self.day
        if day != state.current_step:
            raise LogError(f"current_step is {state.current_step}")
        if before is not None and day <= before.current_step:
            raise LogError(f"comes after day {before.current_step}")
        if before is not None:
            changed = [name for name in _CONSTANT if getattr(state, name) != getattr(before, name)]
            if changed:
                raise LogError(f"{changed[0]} changed from {getattr(before, changed[0])}")
        self._check_day(state)
        columns = self.columns
        self.day, self.row, self.call, self.n_deals = state, self.row + 1, 0, 0
        columns.days.append(state)
        columns.closed.append(None)
        columns.deals.append([])

    def _check_day(self, state: DayState) -> None:
        step, commitments = state.current_step, state.commitments
        _within("n_steps", state.n_steps, 1, MOST_DAYS)
        _within("current_step", step, 0, state.n_steps - 1)
        _within("n_lines", state.n_lines, 1, MOST_PIECES)
        _within("horizon", state.horizon, 0, MOST_DAYS)
        _within("commitments' days", len(commitments.Q_in), 0, self.horizon + 1)
        for name, value in zip(_STOCKS, _stocks(state), strict=True):
            _within(name, value, -1e8, 1e8)
        for name, value in zip(_AMOUNTS, _amounts(state), strict=True):
            _within(name, value, -MOST_MONEY, MOST_MONEY)
        quantities = (*commitments.Q_in, *commitments.Q_out, 0)
        _within("the smallest commitment", min(quantities), 0, 1e8)
        _within("the largest commitment", max(quantities), 0, 1e8)
        amounts = (*commitments.Payables, *commitments.Receivables, 0)
        _within("the smallest payment", min(amounts), -MOST_MONEY, MOST_MONEY)
        _within("the largest payment", max(amounts), -MOST_MONEY, MOST_MONEY)
        for issues in (state.buy_issues, state.sell_issues):
            if issues is not None:
                _within("the quantity issue's lower end", issues.quantity[0], 0, issues.quantity[1])
                _within("the quantity issue's upper end", issues.quantity[1], 0, MOST_PIECES)
                _within("the price issue's lower end", issues.price[0], 0, issues.price[1])
                _within("the price issue's upper end", issues.price[1], 0, MOST_PRICE)
                _within("the time issue's lower end", issues.time[0], step, issues.time[1])
                _within("the time issue's upper end", issues.time[1], step, step + self.horizon)
        for seen in (*state.offers_snapshot.buy, *state.offers_snapshot.sell):
            self._check_offer((seen.quantity, seen.time, seen.price))
            if not 0 <= seen.round <= seen.rounds <= MOST_DAYS:
                raise LogError(f"an offer of round {seen.round} of {seen.rounds} cannot be")

    def _check_offer(self, offer: Offer) -> None:
        quantity, time, price = offer
        if not (-MOST_PIECES <= quantity <= MOST_PIECES and -MOST_PRICE <= price <= MOST_PRICE):
            raise LogError(f"offer {offer} has a quantity or price beyond {MOST_PIECES}")
        if not 0 <= time <= 2 * MOST_DAYS:
            raise LogError(f"offer {offer} is for a day that no world has")

    def _today(self, day: int) -> DayState:
        if self.day is None or day != self.day.current_step:
            raise LogError("no daily_status opened this day")
        return self.day

    def decision(self, day: int, d: Decision) -> None:
        state = self._today(day)
        seller = d.role == "seller"
        thread = self._thread(d.mechanism_id, d.partner, seller)
        issues = state.sell_issues if seller else state.buy_issues
        if issues is None or d.issues != issues:
            raise LogError(f"its issues {d.issues} are not the day's")
        if d.deals_before != self.n_deals:
            raise LogError(f"deals_before is {d.deals_before}, but {self.n_deals} deals come before it")
        if d.call < self.call:
            raise LogError(f"call {d.call} comes after call {self.call}")
        last_round, rounds = self.rounds_of[thread]
        if d.offer is None:  # a thread that was answered along with others: the moment is that of the one that asked
            last_round = 0
        if not last_round <= d.round <= d.rounds <= MOST_DAYS or rounds not in (-1, d.rounds):
            raise LogError(f"round {d.round} of {d.rounds} comes after round {last_round} of {rounds}")
        if not 0.0 <= d.relative_time <= 1.0:
            raise LogError(f"relative_time {d.relative_time} is not within 0..1")
        offer, counter, answer = d.offer, d.counter_offer, d.answer
        if (counter is not None) != (answer == "REJECT") or (answer == "ACCEPT" and offer is None):
            raise LogError(f"{answer} with offer {offer} and counter-offer {counter} means nothing")
        seen_q, seen_t, seen_p = (0, day, 0) if offer is None else offer
        if offer is not None and not _legal(offer, issues):
            raise LogError(f"the partner's offer {offer} is outside the issues {d.issues}")
        q, t, p = (0, day, 0) if counter is None else counter
        if counter is not None:
            self._check_offer(counter)  # experts do offer what the issues forbid; it only has to be a number
        if d.sent:
            self.last_offer[thread] = offer if answer == "ACCEPT" else counter
        self.rounds_of[thread] = (self.rounds_of[thread][0] if offer is None else d.round, d.rounds)
        self.call = d.call
        self.rows.append((
            self.row, thread, d.call, _ASKED[d.asked], seller, d.round, d.rounds, offer is not None, seen_q,
            seen_t - day, seen_p, _OPS[answer], q, t - day, p, d.deals_before, d.sent,
        ))  # fmt: skip
        self.columns.relative_time.append(d.relative_time)

    def _thread(self, mechanism: str, partner: str, seller: bool) -> int:
        thread = self.thread_of.get(mechanism)
        if thread is None:
            thread = self.thread_of[mechanism] = len(self.columns.threads)
            self.columns.threads.append((self.row, partner, seller))
            self.rounds_of.append((0, -1))
            self.last_offer.append(None)
        elif self.columns.threads[thread] != (self.row, partner, seller):
            raise LogError(f"negotiation {mechanism} was with another partner, in another role or on another day")
        elif thread in self.columns.agreements:
            raise LogError(f"negotiation {mechanism} had ended with a deal")
        return thread

    def deal(self, day: int, success: NegotiationSuccess) -> None:
        state = self._today(day)
        known = success.mechanism_id in self.thread_of
        thread = self._thread(success.mechanism_id, success.partner, success.role == "seller")
        if not known or success.agreement != self.last_offer[thread]:
            raise LogError(f"agreement {success.agreement} is not what was offered last in {success.mechanism_id}")
        self._check_offer(success.agreement)
        _within("days ahead of the agreement", success.agreement[1] - state.current_step, 0, self.horizon)
        self.columns.agreements[thread] = success.agreement
        self.columns.deals[self.row].append((success.role, success.agreement))
        self.n_deals += 1

    def dusk(self, day: int, closed: DayClosed) -> None:
        self._today(day)
        if self.columns.closed[self.row] is not None:
            raise LogError("the day was closed before")
        for name, value in zip(_OUTCOMES, _outcomes(closed), strict=True):
            _within(name, value, -MOST_MONEY, MOST_MONEY)
        self.columns.closed[self.row] = closed

    def finish(self) -> LogColumns:
        if not self.columns.days:
            raise LogError("it has no day")
        self.columns.decisions = np.array(self.rows, np.int64).reshape(-1, len(COLUMNS))
        return self.columns
