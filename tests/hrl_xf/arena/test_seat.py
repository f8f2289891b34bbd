"""What a focal seat's record says, beside plain computations from the same log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scml.oneshot.common import SYSTEM_BUYER_ID

from echelon.hrl_xf.arena.plan import ArenaPlan, configuration, parse_field
from echelon.hrl_xf.arena.seat import SeatRecord, seat_record
from echelon.hrl_xf.arena.world import start
from echelon.hrl_xf.competitors.specs import parse_agent
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.day_state import DayState, Offer, Role
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer, safe_quantity
from echelon.hrl_xf.state.schema import (
    AgentLog,
    ContractSignedEntry,
    DailyStatusEntry,
    DecisionEntry,
    NegotiationSuccessEntry,
)
from tests.hrl_xf.state.examples import ledger_of

Seat = tuple[SeatRecord, AgentLog, Any, str]


@pytest.fixture(scope="module")
def seats() -> list[Seat]:
    """SyncRandomStdAgent on every level of a real world: it offers much, and much of it is unsafe."""
    made = configuration(ArenaPlan(parse_field("PenguinAgent,AS0"), "each-level", 8, 1), 0)
    world = start(made, parse_agent("SyncRandomStdAgent"))
    world.run()
    found = []
    for number in made.focal:
        adapter = list(world.non_system_agents)[number]
        agent = adapter.adapted_object
        log = agent.echelon_recorder.finish(agent, world_id="w", config_id="c", seed=0)
        found.append((seat_record(world, adapter, log, number), log, world, adapter.id))
    return found


def test_safe_quantity_by_hand() -> None:
    """Buyers: min(Q_safe, money/price), rounded down; sellers: Q_safe_sell, whatever the price."""
    Q_safe, Q_sell = np.array([[4.0, 9.0]] * 3), np.array([[2.0, 7.5]] * 3)
    seller, ahead, price = np.array([False, False, True]), np.array([0, 1, 1]), np.array([10, 10, 99])
    safe = safe_quantity(Q_safe, Q_sell, np.array([55.0, 55.0, 0.0]), seller, ahead, price)
    assert safe.tolist() == [4.0, 5.0, 7.0]


def beyond(day: DayState, deals: list[tuple[Role, Offer]], role: Role, offer: Offer) -> int:
    """Pieces beyond L1's limits, by the plain route: one day, its ledger, one offer."""
    days = day_batch([day])
    limits = L1SafetyLayer().limits(days, ledger_of(days, [deals]))
    q, time, price = offer
    room = (limits.Q_safe_sell if role == "seller" else limits.Q_safe)[0, time - day.current_step]
    if role == "buyer" and price:
        room = min(room, limits.B_free[0] // price)
    return max(0, q - int(room))


def test_unsafe_pieces_are_those_of_the_plain_computation(seats: list[Seat]) -> None:
    for record, log, _, _ in seats:
        day: DayState | None = None
        deals: list[tuple[Role, Offer]] = []
        sent = unsafe = signed = beyond_l1_signed = 0
        for entry in log.entries:
            if isinstance(entry, DailyStatusEntry):
                day, deals = entry.data, []
            elif isinstance(entry, NegotiationSuccessEntry):
                assert day is not None
                signed += entry.data.agreement[0]
                beyond_l1_signed += beyond(day, deals, entry.data.role, entry.data.agreement)
                deals = [*deals, (entry.data.role, entry.data.agreement)]
            elif isinstance(entry, DecisionEntry) and entry.data.sent:
                assert day is not None
                said = entry.data.offer if entry.data.answer == "ACCEPT" else entry.data.counter_offer
                if said is not None:
                    sent += said[0]
                    unsafe += beyond(day, deals[: entry.data.deals_before], entry.data.role, said)
        assert (record.sent, record.beyond_l1_sent) == (sent, unsafe)
        assert (record.signed, record.beyond_l1_signed) == (signed, beyond_l1_signed)
    assert sum(record.beyond_l1_sent for record, *_ in seats) > 0
    assert sum(record.beyond_l1_signed for record, *_ in seats) > 0


def test_money_adds_up_to_the_world_s_own_books(seats: list[Seat]) -> None:
    for record, log, world, aid in seats:
        stats = world.stats
        assert record.score == world.scores()[aid]
        assert record.balance[-1] == pytest.approx(record.score * record.initial_balance)
        assert record.losses.shortfall == pytest.approx(sum(stats[f"shortfall_penalty_{aid}"]))
        assert record.losses.storage == pytest.approx(
            sum(stats[f"storage_cost_{aid}"]) + sum(stats[f"disposal_cost_{aid}"])
        )
        assert record.shortfall == sum(stats[f"shortfall_quantity_{aid}"])
        assert record.leftover == stats[f"inventory_input_{aid}"][-1] + stats[f"inventory_output_{aid}"][-1]
        used = sum(stats[f"productivity_{aid}"])
        assert record.idle_lines == round(10 * (len(record.balance) - used))
        deals = [e.data for e in log.entries if isinstance(e, ContractSignedEntry) and not e.data.exogenous]
        assert record.contracts == len(deals)
        assert record.bought + record.sold == sum(d.quantity for d in deals) == record.signed


def test_undelivered_are_the_pieces_short_by_the_agent_s_own_promises(seats: list[Seat]) -> None:
    """By the world's books: what it says is short of a day, as far as the agent had sold pieces for that day."""
    for record, _, world, aid in seats:
        short = world.stats[f"shortfall_quantity_{aid}"]
        due = [0] * len(short)
        for contract in world.saved_contracts:
            if contract["seller_name"] == aid and contract["buyer_name"] != SYSTEM_BUYER_ID:
                due[contract["delivery_time"]] += contract["quantity"]
        assert record.undelivered == sum(min(s, d) for s, d in zip(short, due, strict=True))
    first, *_, last = (record for record, *_ in seats)
    assert first.undelivered == first.shortfall > 0, "it sells what it does not have"
    assert last.undelivered == 0, "all it sells are exogenous contracts"


def test_places(seats: list[Seat]) -> None:
    assert [record.place for record, *_ in seats] == ["first", *["middle"] * (len(seats) - 2), "last"]
    assert seats[0][0].bought == 0
    assert seats[-1][0].sold == 0
    assert all(record.recorder_failures == record.exceptions == 0 for record, *_ in seats)


def test_days_with_a_shortfall_are_the_simulator_s_own(seats: list[Seat]) -> None:
    """scml's `is_breach` adds exogenous quantities that are in its arguments already; its daily books do not."""
    for record, _, world, aid in seats:
        by_day = world.stats[f"shortfall_quantity_{aid}"]
        assert record.shortfall_days == sum(pieces > 0 for pieces in by_day)
        assert record.shortfall == sum(by_day)
    assert any(record.shortfall_days for record, *_ in seats)
    breaches = [sum(map(bool, world._breaches_of[aid])) for _, _, world, aid in seats]
    assert breaches != [record.shortfall_days for record, *_ in seats], "the two counts differ in this world"
