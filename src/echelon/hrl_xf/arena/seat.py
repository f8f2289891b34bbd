"""What one competitor's factory did in a world: score, trade, losses by cause, promises not kept, offers beyond L1.

All of it is read from the log of the recorder that sits in the focal seats, so champions and our own agent are measured
by the same rule, from the outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from echelon.hrl_xf.options.play import Place
from echelon.hrl_xf.recording.log_columns import LogColumns, columns_of
from echelon.hrl_xf.state.day_batch import DayBatch, Ledger, day_batch
from echelon.hrl_xf.state.day_state import ACCEPT, REJECT, DayState
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer, safe_quantity
from echelon.hrl_xf.state.schema import AgentLog, ContractEvent, ContractSignedEntry, DayClosed
from echelon.runtime.arrays import Bools, Ints


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """Where money went, in the world's money; what is not a payment is an estimate at trading prices."""

    shortfall: float
    """penalties for pieces sold and not delivered"""
    storage: float
    """storage and disposal of stock"""
    price_bought: float
    """Σ quantity · (price − trading price of the signing day) over negotiated purchases; negative is a gain"""
    price_sold: float
    """the same for sales, trading price − price"""
    idle_lines: float
    """Σ idle lines · margin of the day: output price − input price − production cost, where positive"""
    leftover: float
    """stock at the end, at the last day's trading prices"""


class SeatRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One focal seat of one world."""

    seat: int
    agent_id: str
    level: int
    place: Place
    score: float
    initial_balance: float
    bankrupt: bool
    contracts: int
    """negotiated ones; exogenous contracts are given"""
    bought: int
    sold: int
    shortfall: int
    """pieces sold and not delivered"""
    undelivered: int
    """of these, pieces the agent had promised itself: Σ over days min(pieces short, negotiated sales due that day)"""
    leftover: int
    """pieces in stock at the end"""
    shortfall_days: int
    """days on which pieces sold were not delivered, by the world's books (scml's own `is_breach` counts exogenous
    quantities twice)"""
    sent: int
    """pieces in all offers and acceptances that reached a partner"""
    beyond_l1_sent: int
    """of these, pieces beyond what L1 held safe at that moment, each answer taken alone"""
    signed: int
    """pieces in all deals"""
    beyond_l1_signed: int
    """of these, pieces beyond what L1 held safe, deal after deal in the order of signing"""
    exceptions: int
    negotiator_exceptions: int
    recorder_failures: int
    fallbacks: int
    """of our agents: how often a layer failed or there was no answer, and the rules played or threads ended"""
    idle_lines: int
    losses: Losses
    balance: list[float]
    """by day, at its end; so are the stocks"""
    inventory_input: list[int]
    inventory_output: list[int]
    seconds: float
    """what the agent's calls took, recording included; the only number here that differs from run to run"""
    log_file: str | None = None
    """the tracker's log of this seat, in the arena's folder; None if it was not kept"""
    diary_file: str | None = None
    """what the layers computed (`diary.py`), for seats of LitaAgentHRL whose log was kept"""


def seat_record(world: Any, adapter: Any, log: AgentLog, seat: int, fallbacks: int = 0) -> SeatRecord:
    """The record of a focal seat of an ended world."""
    columns = columns_of(log)
    closed = [day for day in columns.closed if day is not None]
    days = day_batch(columns.days)
    first = columns.days[0]
    signed = [e.data for e in log.entries if isinstance(e, ContractSignedEntry) and not e.data.exogenous]
    bought = [c for c in signed if c.role == "buyer"]
    sold = [c for c in signed if c.role == "seller"]
    prices = {day.current_step: day for day in columns.days}
    idle = days.n_lines * np.array([1.0 - day.productivity for day in closed])
    margin = days.spot_price_out - days.spot_price_in - days.production_cost
    last = closed[-1]
    sent, beyond_l1_sent = answers_beyond_l1(columns, days)
    dealt, beyond_l1_dealt = deals_beyond_l1(columns, days)
    return SeatRecord(
        seat=seat,
        agent_id=log.agent_id,
        level=first.level,
        place="first" if first.level == 0 else "last" if first.level == first.n_products - 2 else "middle",
        score=float(world.scores()[adapter.id]),
        initial_balance=first.initial_balance,
        bankrupt=bool(world.is_bankrupt[adapter.id]),
        contracts=len(signed),
        bought=sum(c.quantity for c in bought),
        sold=sum(c.quantity for c in sold),
        shortfall=sum(day.shortfall_quantity for day in closed),
        undelivered=_undelivered(columns.days, columns.closed, sold),
        leftover=last.inventory_input + last.inventory_output,
        shortfall_days=sum(day.shortfall_quantity > 0 for day in closed),
        sent=sent,
        beyond_l1_sent=beyond_l1_sent,
        signed=dealt,
        beyond_l1_signed=beyond_l1_dealt,
        exceptions=len(world.agent_exceptions[adapter.id]),
        negotiator_exceptions=len(world.negotiator_exceptions[adapter.id]),
        recorder_failures=log.stats.tracker_failures,
        fallbacks=fallbacks,
        idle_lines=round(float(idle.sum())),
        losses=Losses(
            shortfall=sum(day.shortfall_penalty for day in closed),
            storage=sum(day.storage_cost + day.disposal_cost for day in closed),
            price_bought=sum(c.quantity * (c.price - prices[c.signed_at].spot_price_in) for c in bought),
            price_sold=sum(c.quantity * (prices[c.signed_at].spot_price_out - c.price) for c in sold),
            idle_lines=float((idle * np.maximum(margin, 0.0)).sum()),
            leftover=_worth(last, days),
        ),
        balance=[day.balance for day in closed],
        inventory_input=[day.inventory_input for day in closed],
        inventory_output=[day.inventory_output for day in closed],
        seconds=float(world.times[adapter.id]),
    )


def _undelivered(days: Sequence[DayState], closed: Sequence[DayClosed | None], sold: Sequence[ContractEvent]) -> int:
    """Pieces short by the agent's own promises: of a day's shortfall, at most what the agent itself had sold for it."""
    due: Counter[int] = Counter()
    for contract in sold:
        due[contract.time] += contract.quantity
    short = {d.current_step: c.shortfall_quantity for d, c in zip(days, closed, strict=True) if c is not None}
    return sum(min(pieces, due[day]) for day, pieces in short.items())


def _worth(last: DayClosed, days: DayBatch) -> float:
    return float(last.inventory_input * days.spot_price_in[-1] + last.inventory_output * days.spot_price_out[-1])


def answers_beyond_l1(columns: LogColumns, days: DayBatch) -> tuple[int, int]:
    """(pieces in offers and acceptances that were sent, those beyond L1's limits when they were decided)."""
    op, sent = columns.column("op"), columns.column("sent") == 1
    rows = np.flatnonzero(sent & ((op == ACCEPT) | (op == REJECT)))
    accepted = op[rows] == ACCEPT
    quantity, ahead, price = (
        np.where(accepted, columns.column(f"{name}_seen")[rows], columns.column(name)[rows])
        for name in ("quantity", "ahead", "price")
    )
    day, before = columns.column("day")[rows], columns.column("deals_before")[rows]
    seller = columns.column("seller")[rows] == 1
    return _beyond(columns, days, day, before, seller, quantity, ahead, price)


def deals_beyond_l1(columns: LogColumns, days: DayBatch) -> tuple[int, int]:
    """(pieces in deals, those beyond L1's limits when they were signed), one deal after the other."""
    flat = [
        (row, n, role == "seller", q, t - columns.days[row].current_step, p)
        for row, deals in enumerate(columns.deals)
        for n, (role, (q, t, p)) in enumerate(deals)
    ]
    day, before, seller, quantity, ahead, price = np.array(flat, np.int64).reshape(-1, 6).T
    return _beyond(columns, days, day, before, seller == 1, quantity, ahead, price)


def _beyond(
    columns: LogColumns,
    days: DayBatch,
    day: Ints,
    before: Ints,
    seller: Bools,
    quantity: Ints,
    ahead: Ints,
    price: Ints,
) -> tuple[int, int]:
    """Pieces in all, and beyond what is safe after the day's first `before` deals."""
    if not len(day):
        return 0, 0
    ledger, first = Ledger.after_each_deal(days, columns.deals)
    limits = L1SafetyLayer(days.H).limits(days.take(day), ledger.take(first[day] + before))
    safe = safe_quantity(limits.Q_safe, limits.Q_safe_sell, limits.B_free, seller, ahead, price)
    return int(quantity.sum()), int(np.maximum(quantity - safe, 0).sum())
