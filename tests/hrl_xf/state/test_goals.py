"""The tables of the goal labels, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.state.day_batch import Ledger, day_batch
from echelon.hrl_xf.state.day_state import Answer, DayState, Issues, Offer, Role
from echelon.hrl_xf.state.goals import BUCKETS, Buckets, goal_mask, open_goal
from echelon.hrl_xf.state.schema import (
    DailyStatusEntry,
    Decision,
    DecisionEntry,
    Entry,
    NegotiationSuccess,
    NegotiationSuccessEntry,
)
from tests.hrl_xf.state.examples import DayRecord, a_day, day_records, days, deals, goals_of, ledger_of, same_bits
from tests.laws import examples

Seen = tuple[Role, Offer, int, int]


def label(
    day: DayState | None = None,
    signed: list[tuple[Role, Offer]] | None = None,
    seen: list[Seen] | None = None,
    own: list[tuple[Role, Offer]] | None = None,
) -> Any:
    """(bucket, [Q_buy, P_buy, Q_sell, P_sell]) of one day."""
    mine = {str(i): offer for i, offer in enumerate(own or [])}
    return goals_of([DayRecord(day or a_day(), signed or [], seen or [], mine)])[0].reshape(4, 4)


def late(role: Role, offer: Offer) -> Seen:
    """An offer of the last round: age 0."""
    return role, offer, 19, 20


# -- buckets --


@pytest.mark.parametrize(
    ("ahead", "weights"),
    [
        (0, [1, 0, 0, 0]),
        (1, [1, 0, 0, 0]),
        (2, [0.75, 0.25, 0, 0]),
        (3, [0.25, 0.75, 0, 0]),
        (4, [0, 1, 0, 0]),
        (6, [0, 1, 0, 0]),
        (7, [0, 0.75, 0.25, 0]),
        (8, [0, 0.25, 0.75, 0]),
        (10, [0, 0, 1, 0]),
        (14, [0, 0, 0.75, 0.25]),
        (15, [0, 0, 0.25, 0.75]),
        (16, [0, 0, 0, 1]),
        (40, [0, 0, 0, 1]),
    ],
)
def test_soft_buckets(ahead: int, weights: list[float]) -> None:
    assert BUCKETS.weights(np.array(ahead)).tolist() == weights


def test_gap_shares() -> None:
    """∝ 1/2, 1/6, 1/12, 1/28.5"""
    np.testing.assert_allclose(BUCKETS.shares, [0.6369, 0.2123, 0.1061, 0.0447], atol=5e-5)
    assert BUCKETS.shares.sum() == pytest.approx(1.0)


def test_edges_are_configurable_but_without_holes() -> None:
    narrow = Buckets(((0, 0), (1, 1), (2, 5), (6, 40)))
    weights = narrow.weights(np.arange(41))
    assert weights[1].tolist() == [0.25, 0.5, 0.25, 0]
    assert (weights >= 0).all()
    assert (weights.sum(axis=1) == 1).all()
    for edges in (((0, 2), (4, 7), (8, 14), (15, 40)), ((1, 2), (3, 7), (8, 14), (15, 40)), ((0, 2), (3, 40))):
        with pytest.raises(ValueError, match="4 ranges"):
            Buckets(edges)


def test_unreachable_buckets_and_sides_are_masked() -> None:
    """Horizon 10 reaches the third bucket; with 4 days to go only the second."""
    batch = day_batch(
        [a_day(), a_day(current_step=45), a_day(current_step=49, my_input_product=0, my_output_product=1)]
    )
    assert BUCKETS.reachable(batch).tolist() == [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]]
    assert goal_mask(batch)[2].tolist() == [0, 0, 1, 1] + [0] * 12
    assert goal_mask(batch)[1].tolist() == [1] * 8 + [0] * 8


# -- quantities --


def test_signed_quantities_are_soft_bucketed() -> None:
    """8 for the day after tomorrow: 6 and 2; 4 today; a sale of 12 in three days: 3 and 9."""
    goal = label(signed=[("buyer", (8, 12, 20)), ("buyer", (4, 10, 20)), ("seller", (12, 13, 30))])
    assert goal[:, 0].tolist() == [10, 2, 0, 0]
    assert goal[:, 2].tolist() == [3, 9, 0, 0]


def test_a_gap_adds_six_tenths_of_itself() -> None:
    goal = label(a_day(needed_supplies=20, needed_sales=-20), [("buyer", (4, 10, 20))])
    np.testing.assert_allclose(goal[:, 0], 12 * BUCKETS.shares + [4, 0, 0, 0], rtol=1e-6)
    assert goal[:, 2].tolist() == [0, 0, 0, 0], "a surplus is not a gap"


def test_active_intent_counts_only_where_nothing_was_signed() -> None:
    """Own last offers of 6 and 4 for today, 8 in two days: .15 · (10 + 6) and .15 · 2."""
    own: list[tuple[Role, Offer]] = [("buyer", (6, 10, 19)), ("buyer", (4, 10, 18)), ("buyer", (8, 12, 19))]
    np.testing.assert_allclose(label(own=own)[:, 0], [2.4, 0.3, 0, 0], rtol=1e-6)
    assert label(signed=[("buyer", (1, 20, 20))], own=own)[:, 0].tolist() == [0, 0, 1, 0]
    np.testing.assert_allclose(label(signed=[("seller", (1, 20, 30))], own=own)[:, 0], [2.4, 0.3, 0, 0], rtol=1e-6)
    assert not label(seen=[late("buyer", (8, 10, 20))])[:, 0].any(), "partners' offers are not the agent's intent"


# -- prices --

DEAL: list[tuple[Role, Offer]] = [("buyer", (3, 10, 18)), ("buyer", (1, 11, 22))]
"""D = 19"""
OFFERS = [late("buyer", (5, 10, 16)), late("buyer", (5, 10, 17)), late("buyer", (5, 11, 24))]
"""of one weight: mean 19, median 17, A = 18"""


@pytest.mark.parametrize(
    ("signed", "seen", "price"),
    [
        (DEAL, OFFERS, 0.65 * 19 + 0.25 * 19 + 0.10 * 20),  # beside deals A is the mean alone
        (DEAL, [], 0.775 * 19 + 0.225 * 20),
        ([], OFFERS, 0.575 * 18 + 0.425 * 20),
        ([], [], 0.95 * 20),
    ],
)
def test_prices_mix_deals_offers_and_spot(signed: list[tuple[Role, Offer]], seen: list[Seen], price: float) -> None:
    goal = label(signed=signed, seen=seen)
    assert goal[0, 1] == pytest.approx(price, rel=1e-6)
    np.testing.assert_allclose(goal[1:, 1], [19, 19, 19], rtol=1e-6)
    np.testing.assert_allclose(goal[:, 3], [31.5] * 4, rtol=1e-6)


def test_the_median_is_weighted_and_fair_to_two() -> None:
    """Two offers of one weight: midway. An early one (age 19, weight e^−5.7) hardly counts beside a late one."""
    two = label(seen=[late("seller", (5, 10, 30)), late("seller", (5, 10, 40))])
    assert two[0, 3] == pytest.approx(0.575 * 35 + 0.425 * 30, rel=1e-6)
    early: Seen = ("seller", (5, 10, 40), 0, 20)
    faint = math.exp(-0.3 * 19)
    mean = (30 + faint * 40) / (1 + faint)
    one = label(seen=[early, late("seller", (5, 10, 30))])
    assert one[0, 3] == pytest.approx(0.575 * (0.5 * mean + 0.5 * 30) + 0.425 * 30, rel=1e-6)


def test_an_offer_on_a_boundary_counts_in_both_buckets() -> None:
    goal = label(seen=[late("buyer", (5, 12, 24))])
    expected = 0.575 * 24 + 0.425 * 20
    np.testing.assert_allclose(goal[:, 1], [expected, expected, 19, 19], rtol=1e-6)


def test_a_side_that_cannot_be_negotiated_is_zero() -> None:
    first = a_day(my_input_product=0, my_output_product=1, needed_supplies=9, needed_sales=10)
    goal = label(first)
    assert not goal[:, :2].any()
    assert goal[:, 2:].all()


# -- what is still open --


def test_open_goal_by_hand() -> None:
    """Wanted to buy 10, 4, 1, 0 and sell 3, 0, 0, 2; bought 8 for the day after tomorrow, sold 5 today."""
    goal = np.array([[10, 19, 3, 31], [4, 19, 0, 31], [1, 19, 0, 31], [0, 19, 2, 31]], np.float32).reshape(1, 16)
    batch = day_batch([a_day()])
    ledger = ledger_of(batch, [[("buyer", (8, 12, 20)), ("seller", (5, 10, 30))]])
    assert open_goal(goal, Ledger.empty(batch)).tolist() == [[[10, 3], [4, 0], [1, 0], [0, 2]]]
    assert open_goal(goal, ledger).tolist() == [[[4, 0], [2, 0], [1, 0], [0, 2]]]


# -- from a log --


def said(answer: Answer, mechanism: str, round_: int, **more: Any) -> DecisionEntry:
    """A decision of a buyer in one of its threads; sent, unless `more` says otherwise."""
    given: dict[str, Any] = {"asked": "counter_all", "offer": None, "counter_offer": None, "sent": True, **more}
    decision = Decision(
        call=round_,
        partner="them",
        role="buyer",
        mechanism_id=mechanism,
        round=round_,
        rounds=20,
        relative_time=round_ / 20,
        issues=Issues((1, 30), (10, 20), (18, 22)),
        answer=answer,
        deals_before=0,
        **given,
    )
    return DecisionEntry(day=10, data=decision)


def test_a_logs_day_is_what_partners_offered_and_what_the_agent_last_sent() -> None:
    entries: list[Entry] = [
        DailyStatusEntry(day=10, data=a_day()),
        said("REJECT", "a", 0, asked="first_proposals", counter_offer=(6, 10, 18)),
        said("REJECT", "a", 1, offer=(9, 12, 22), counter_offer=(5, 10, 19)),
        said("REJECT", "a", 2, offer=(8, 12, 22), counter_offer=(4, 10, 20), sent=False),
        said("REJECT", "b", 0, asked="framework", offer=(7, 11, 21), counter_offer=(30, 20, 22)),
        said("END", "c", 3, offer=(3, 13, 20)),
        NegotiationSuccessEntry(day=10, data=NegotiationSuccess("d", "them", "seller", (2, 14, 30), 4)),
        DailyStatusEntry(day=11, data=a_day(current_step=11)),
    ]
    today, tomorrow = day_records(entries)
    assert today.deals == [("seller", (2, 14, 30))]
    seen = [(offer, round_) for _, offer, round_, _ in today.seen]
    assert seen == [((9, 12, 22), 1), ((8, 12, 22), 2), ((3, 13, 20), 3)]
    assert today.own == {"a": ("buyer", (5, 10, 19))}
    assert tomorrow[1:] == ([], [], {})


# -- whatever the days --


@examples(50)
@given(st.data())
def test_labels_do_not_depend_on_other_days_or_the_order_of_offers(data: st.DataObject) -> None:
    records = []
    for day in data.draw(st.lists(days(), min_size=1, max_size=4)):
        seen = [late(*offer) for offer in data.draw(deals(day))]
        own = {str(i): offer for i, offer in enumerate(data.draw(deals(day)))}
        records.append(DayRecord(day, data.draw(deals(day)), seen, own))
    together = goals_of(records)
    assert np.isfinite(together).all()
    assert (together >= 0).all()
    for row, record in enumerate(records):
        assert same_bits(goals_of([record])[0], together[row])
        backwards = record._replace(seen=record.seen[::-1], deals=record.deals[::-1])
        np.testing.assert_allclose(goals_of([backwards])[0], together[row], rtol=1e-6)
