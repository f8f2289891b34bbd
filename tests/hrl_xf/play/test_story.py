"""A log told as a story: by hand, and against real logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from echelon.hrl_xf.layers.rules import HeuristicManager
from echelon.hrl_xf.play.story import DayBuilder, totals_of
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.day_state import Answer, Issues, Offer, Role
from echelon.hrl_xf.state.schema import (
    ContractEvent,
    ContractSignedEntry,
    DailyStatusEntry,
    DayClosed,
    DayClosedEntry,
    Decision,
    DecisionEntry,
    Entry,
    NegotiationFailure,
    NegotiationFailureEntry,
    NegotiationSuccess,
    NegotiationSuccessEntry,
)
from tests.hrl_xf.log_examples import LONG, SHORT, log_of
from tests.hrl_xf.state.examples import a_day

ISSUES = Issues((1, 30), (10, 20), (18, 33))
DUSK = DayClosed(9_000.0, 1, 2, 3, 4, 0.4, 7.5, 2, 1.25, 0.0, -100.0)


def decision(
    partner: str, role: Role, offer: Offer | None, answer: Answer, counter: Offer | None = None, sent: bool = True
) -> Entry:
    made = Decision(0, "counter_all", partner, role, partner, 0, 20, 0.1, ISSUES, offer, answer, counter, 0, sent)
    return DecisionEntry(day=10, data=made)


def deal(partner: str, role: Role, agreement: Offer) -> Entry:
    return NegotiationSuccessEntry(day=10, data=NegotiationSuccess(partner, partner, role, agreement, 3))


def test_a_day_by_hand() -> None:
    """Each of the five ways a negotiation ends; spot prices are 20 and 30."""
    entries: list[Entry] = [
        DailyStatusEntry(day=10, data=a_day(inventory_input=6, needed_sales=5)),
        decision("p", "seller", None, "REJECT", (3, 12, 33), sent=False),  # overtaken
        decision("p", "seller", (4, 12, 28), "REJECT", (3, 12, 32)),
        decision("p", "seller", (4, 12, 28), "REJECT", (2, 12, 31)),
        deal("p", "seller", (2, 12, 31)),
        decision("q", "buyer", (5, 11, 18), "ACCEPT"),
        deal("q", "buyer", (5, 11, 18)),
        decision("r", "buyer", (9, 11, 22), "END"),
        NegotiationFailureEntry(day=10, data=NegotiationFailure("r", "r", "buyer", 1, False)),
        decision("s", "buyer", None, "REJECT", (1, 10, 18)),
        NegotiationFailureEntry(day=10, data=NegotiationFailure("s", "s", "buyer", 20, True)),
        NegotiationFailureEntry(day=10, data=NegotiationFailure("t", "t", "seller", 0, False)),
        ContractSignedEntry(day=10, data=ContractEvent("BUYER", "seller", 6, 10, 29.0, 10, True)),
        DayClosedEntry(day=10, data=DUSK),
    ]
    (story,) = DayBuilder(HeuristicManager()).add_all(entries)
    keys: list[tuple[str, Role]] = [("p", "seller"), ("q", "buyer"), ("r", "buyer"), ("s", "buyer"), ("t", "seller")]
    p, q, r, s, t = (story.threads[key] for key in keys)
    assert p.heard == [(4, 12, 28), (4, 12, 28)], "repeated after our answer it is said again"
    assert p.offered == [(3, 12, 32), (2, 12, 31)], "what was overtaken never left"
    assert [x.end for x in (p, q, r, s, t)] == [
        "they accepted", "we accepted", "we ended it", "time ran out", "they ended it",
    ]  # fmt: skip
    assert story.deals == [("p", "seller", (2, 12, 31)), ("q", "buyer", (5, 11, 18))]
    assert story.exogenous == [("seller", (6, 10, 29))]
    assert story.may_sell == 6
    total = totals_of([story])
    assert (total.bought, total.sold, total.contracts) == (5, 2, 2)
    assert total.bought_at == pytest.approx(18 / 20)
    assert total.sold_at == pytest.approx(31 / 30)
    assert (total.shortfall, total.storage) == (7.5, 1.25)


def test_nothing_may_be_sold_where_the_side_is_not_negotiated() -> None:
    day = DailyStatusEntry(day=10, data=a_day(inventory_output=6, sell_issues=None))
    (story,) = DayBuilder(HeuristicManager()).add_all([day, DayClosedEntry(day=10, data=DUSK)])
    assert story.may_sell == 0
    assert story.may_buy > 0


def test_a_day_is_reported_when_it_has_ended() -> None:
    chronicle = DayBuilder(HeuristicManager())
    assert chronicle.add_all([DailyStatusEntry(day=10, data=a_day())]) == []
    (told,) = chronicle.add_all([DayClosedEntry(day=10, data=DUSK)])
    assert told.dusk == DUSK
    assert chronicle.add_all([DayClosedEntry(day=10, data=DUSK)]) == [], "no day is open"


@pytest.mark.parametrize("path", sorted([*(SHORT / "tracker_logs").iterdir(), *(LONG / "tracker_logs").iterdir()])[::3])
def test_nothing_of_a_real_log_is_lost(path: Path) -> None:
    log = log_of(path)
    days = DayBuilder(HeuristicManager()).add_all(log.entries)
    assert len(days) == log.stats.days
    assert sum(len(day.deals) for day in days) == log.stats.deals == totals_of(days).contracts
    sent = [e.data for e in log.entries if isinstance(e, DecisionEntry) and e.data.sent]
    counters = sum(d.counter_offer is not None for d in sent)
    assert sum(len(thread.offered) for day in days for thread in day.threads.values()) == counters
    assert all(thread.end != "still open" for day in days for thread in day.threads.values())
    for day in days:
        expected = HeuristicManager().goals_of_days(day_batch([day.dawn]))
        assert np.array_equal(day.goal.reshape(1, 16), expected)
