"""Limits and baselines worked out by hand, a plain-Python reference, and what must hold whatever the day."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.state import l1_safety
from echelon.hrl_xf.state.day_batch import Ledger, day_batch, in_days_ahead, issue_bounds
from echelon.hrl_xf.state.day_state import Answer, DayState, Issues, Offer, Role
from echelon.hrl_xf.state.l1_safety import L1Output, L1SafetyLayer, compute_l1_baseline, compute_l1_baseline_offline
from tests.hrl_xf.state.examples import a_day, commitments, days, deals, issues, ledger_of, reference, same_bits
from tests.laws import examples

LAYER = L1SafetyLayer()


def look(day: DayState, role: Role = "buyer", signed: list[tuple[Role, Offer]] | None = None) -> L1Output:
    batch = day_batch([day])
    return LAYER.compute(batch, ledger_of(batch, [signed or []]), role)


def ask(out: L1Output, offer: Offer | None) -> tuple[Answer, Offer | None]:
    today = int(out.step[0])
    return LAYER.answer(out, None if offer is None else in_days_ahead([offer], today)).row(0, today)


def clip(out: L1Output, q: float, p: float, ahead: float) -> Offer | None:
    return LAYER.clip(out, np.array([[q, ahead, p]])).outcome(0, int(out.step[0]))


# -- limits --

DELIVERIES = a_day(inventory_input=4, commitments=commitments([0, 15, 3], [0, 6, 0, 10]))
"""L = 10; 5 of the 15 stay in stock whatever is sold: stock at dawn 4, 4, 9, 9, …"""


def test_safe_to_sell_by_hand() -> None:
    """min(10, stock + arrivals) − promised: 4−0, 10−6, 10−0, 9−10, 9, …: day 3 was promised one piece too many."""
    limits = LAYER.limits(day_batch([DELIVERIES]))
    assert limits.sell_room[0, :6].tolist() == [4, 4, 10, -1, 9, 9]
    assert look(DELIVERIES).Q_safe_sell[0, :6].tolist() == [4, 4, 10, 0, 9, 9]


def test_safe_to_buy_by_hand() -> None:
    """A full stock lacks 10 − 9 = 1 at the end; each day's idle lines come on top: 10, 0, 7, 10, …"""
    Q_safe = look(DELIVERIES).Q_safe[0]
    assert Q_safe[:5].tolist() == [11, 1, 8, 11, 11]
    assert Q_safe[39] == 1, "the last day: 10 lines less the stock of 9"
    assert Q_safe[40] == 0, "the game is over"


def test_no_day_ships_more_than_its_lines_whatever_was_idle_before() -> None:
    out = look(a_day(inventory_input=40), "seller")
    assert out.Q_safe_sell[0, :11].tolist() == [10] * 11, "not 30 on day 3: nothing is made ahead"


def test_stock_serves_every_day_again() -> None:
    sold: list[tuple[Role, Offer]] = [("seller", (6, day, 30)) for day in (10, 11, 12)]
    assert look(a_day(inventory_input=6), "seller", sold).Q_safe_sell[0, :5].tolist() == [0, 0, 0, 6, 6]


def test_a_full_stock_makes_every_purchase_useless() -> None:
    assert look(a_day(inventory_input=9)).Q_safe[0, :3].tolist() == [11, 11, 11]
    assert (look(a_day(inventory_input=10)).Q_safe[0] == 0).all()
    too_much = LAYER.limits(day_batch([a_day(inventory_input=13)]))
    assert too_much.buy_room[0, 0] == -3, "rooms stay signed"
    assert (too_much.Q_safe[0] == 0).all()


def test_nothing_can_be_sold_before_its_material_arrives() -> None:
    """8 pieces arrive in two days and are shipped that day: unsold they would stay, but L1 counts on no leftover."""
    out = look(a_day(commitments=commitments([0, 0, 8])), "seller")
    assert out.Q_safe_sell[0, :5].tolist() == [0, 0, 8, 0, 0]
    assert out.open[0, :4].tolist() == [False, False, True, False]
    assert out.baseline[0].tolist() == [4, 2, 31.5]


def test_nothing_is_bought_or_sold_after_the_end() -> None:
    """Three days left."""
    out = look(a_day(n_steps=13, inventory_input=8), "seller")
    assert out.Q_safe_sell[0].tolist() == [*[8] * 3, *[0] * 38]
    assert out.Q_safe[0].tolist() == [12, 12, 2, *[0] * 38]
    assert out.open[0].tolist() == [True] * 3 + [False] * 38


def test_free_money_is_what_is_neither_reserved_nor_owed() -> None:
    owing = commitments([1, 1], None, [500.0, 2_000.0])
    assert look(a_day(balance=9_000.0, commitments=owing)).B_free[0] == 9_000 - 1_000 - 2_500
    assert look(a_day(balance=3_000.0, commitments=owing)).B_free[0] == 0


def test_deals_since_dawn_count_like_commitments() -> None:
    """15 bought for tomorrow and 6 sold for tomorrow since dawn: the day of the first examples, less its third day."""
    signed: list[tuple[Role, Offer]] = [("buyer", (15, 11, 20)), ("seller", (6, 11, 30))]
    out = look(a_day(inventory_input=4), signed=signed)
    same = look(a_day(inventory_input=4, commitments=commitments([0, 15], [0, 6], [0, 300.0])))
    for f in fields(L1Output):
        assert same_bits(getattr(out, f.name), getattr(same, f.name)), f.name
    assert out.B_free[0] == 9_000 - 300


def test_a_ledger_of_another_day_is_refused() -> None:
    batch = day_batch([a_day()])
    with pytest.raises(ValueError, match="other days"):
        LAYER.limits(day_batch([a_day(current_step=11)]), Ledger.empty(batch))
    with pytest.raises(ValueError, match="use one horizon"):
        L1SafetyLayer(horizon=20).limits(batch)


def test_the_mask_ends_with_the_games_horizon_or_the_game() -> None:
    assert look(a_day()).open[0].sum() == 11
    assert look(a_day(current_step=47)).open[0].sum() == 3


# -- baseline --


def test_the_offline_baseline_is_the_same_function() -> None:
    assert compute_l1_baseline_offline is compute_l1_baseline
    assert L1SafetyLayer.baseline is compute_l1_baseline_offline
    assert l1_safety.compute_l1_baseline_offline is LAYER.baseline


@pytest.mark.parametrize(
    ("changes", "role", "expected"),
    [
        ({}, "buyer", [10, 0, 19]),  # 20/2 safe, 9000/19 affordable, 10 lines, 30 by the issue
        ({"n_lines": 40}, "buyer", [30, 0, 19]),  # the issue's maximum
        ({"n_steps": 11, "inventory_input": 5}, "buyer", [2.5, 0, 19]),  # half of the 5 that can still be processed
        ({"n_steps": 11, "inventory_input": 9}, "buyer", [1, 0, 19]),  # half of 1, but at least 1
        ({"balance": 1_057.0}, "buyer", [3, 0, 19]),  # 57 is enough for 3
        ({"balance": 1_018.0}, "buyer", [0, 0, 19]),  # not enough for one
        ({"inventory_input": 6}, "seller", [3, 0, 31.5]),
        ({"inventory_input": 100}, "seller", [5, 0, 31.5]),  # half of a day's lines
        ({"inventory_output": 12}, "seller", [0, 0, 31.5]),  # the game keeps no stock of output
        ({}, "seller", [0, 0, 31.5]),  # nothing to sell
        ({"inventory_input": 12, "sell_issues": None}, "seller", [0, 0, 31.5]),  # does not negotiate sales
    ],
)
def test_baseline_by_hand(changes: dict[str, Any], role: Role, expected: list[float]) -> None:
    assert look(a_day(**changes), role).baseline[0].tolist() == expected


# -- answers --


@pytest.mark.parametrize(
    ("offer", "answer"),
    [
        ((8, 10, 19), "ACCEPT"),
        ((8, 10, 18), "ACCEPT"),
        ((8, 10, 20), "REJECT"),  # too dear
        ((8, 20, 19), "ACCEPT"),  # the last open day
        ((8, 21, 19), "REJECT"),  # beyond the horizon
        ((8, 9, 19), "REJECT"),  # yesterday
        ((20, 10, 19), "ACCEPT"),  # all that is safe: a day's work and a full stock
        ((21, 10, 19), "REJECT"),
        ((0, 10, 19), "REJECT"),
    ],
)
def test_answers_of_a_buyer(offer: Offer, answer: Answer) -> None:
    given = ask(look(a_day()), offer)
    assert given == (answer, (10, 10, 19) if answer == "REJECT" else None)


def test_a_buyer_does_not_accept_what_it_cannot_pay() -> None:
    poor = look(a_day(balance=1_057.0))
    assert ask(poor, (3, 10, 19)) == ("ACCEPT", None)
    assert ask(poor, (4, 10, 19)) == ("REJECT", (3, 10, 19))
    assert ask(look(a_day(balance=1_017.0)), (1, 10, 18)) == ("END", None)


def test_answers_of_a_seller() -> None:
    """Baseline 31.5: it asks for 32 and takes 32, not 31."""
    out = look(a_day(inventory_input=8), "seller")
    assert ask(out, (8, 15, 32)) == ("ACCEPT", None)
    assert ask(out, (8, 15, 31)) == ("REJECT", (4, 10, 32))
    assert ask(out, (9, 15, 33)) == ("REJECT", (4, 10, 32))
    assert ask(out, None) == ("REJECT", (4, 10, 32)), "an opening"


def test_the_baseline_price_is_clipped_into_the_issue() -> None:
    """Prices 20..24: the baseline's 19 becomes 20, which is then good enough. Prices 30..31: a seller's 31.5 is 31."""
    dear = look(a_day(buy_issues=Issues((1, 30), (10, 20), (20, 24))))
    assert ask(dear, (8, 10, 20)) == ("ACCEPT", None)
    assert ask(dear, (8, 10, 21)) == ("REJECT", (10, 10, 20))
    cheap = look(a_day(inventory_input=8, sell_issues=Issues((1, 30), (10, 20), (30, 31))), "seller")
    assert ask(cheap, (8, 10, 31)) == ("ACCEPT", None)
    assert ask(cheap, (8, 10, 30)) == ("REJECT", (4, 10, 31))


@pytest.mark.parametrize(
    ("changes", "role"),
    [
        ({"inventory_input": 1_000}, "buyer"),
        ({}, "seller"),
        ({"buy_issues": None}, "buyer"),
        ({"inventory_input": 6, "commitments": commitments(None, [6] * 11)}, "seller"),
    ],
)
def test_an_all_closed_mask_ends_the_negotiation(changes: dict[str, Any], role: Role) -> None:
    out = look(a_day(**changes), role)
    assert not out.open.any()
    assert np.isfinite(out.baseline).all()
    assert ask(out, (1, 10, 19 if role == "buyer" else 33)) == ("END", None)
    assert ask(out, None) == ("END", None)
    assert clip(out, 5, 20, 0) is None


def test_rows_without_an_offer_open() -> None:
    batch = day_batch([a_day(), a_day()])
    out = LAYER.compute(batch, None, "buyer")
    answers = LAYER.answer(out, in_days_ahead([(8, 10, 19), (8, 10, 19)], 10), np.array([True, False]))
    assert [answers.row(0, 10), answers.row(1, 10)] == [("ACCEPT", None), ("REJECT", (10, 10, 19))]


# -- clipping --


def test_clip_by_hand() -> None:
    out = look(a_day())
    assert clip(out, 7.9, 19.9, 3) == (7, 13, 19), "a buyer rounds the price down"
    assert clip(out, 7.9999999, 19.9999999, 3) == (8, 13, 20), "what float32 nearly hit is hit"
    assert clip(out, -3, 5, -2) == (1, 10, 18)
    assert clip(out, 99, 99, 99) == (20, 20, 22)
    assert clip(out, float("nan"), 20, 0) is None
    assert clip(look(a_day(balance=1_057.0)), 9, 20, 0) == (2, 10, 20), "57 pays for 2"
    assert clip(look(a_day(balance=1_017.0)), 9, 18, 0) is None


def test_clip_moves_to_the_nearest_open_day() -> None:
    seller = look(a_day(commitments=commitments([0, 0, 8, 9])), "seller")
    assert clip(seller, 20, 29.2, 0) == (8, 12, 30), "a seller rounds the price up"
    assert clip(seller, 20, 30, 9) == (9, 13, 30)
    picky = L1SafetyLayer().compute(
        a_day(commitments=commitments([0, 0, 8, 9])), None, "seller", Issues((9, 30), (10, 20), (27, 33))
    )
    assert clip(picky, 1, 30, 0) == (9, 13, 30), "the issue's smallest quantity is there a day later"


@pytest.mark.parametrize("role", ["buyer", "seller"])
def test_the_baseline_is_its_own_clip(role: Role) -> None:
    out = look(a_day(inventory_input=8), role)
    offer = LAYER.legal_baseline(out).outcome(0, 10)
    assert offer is not None
    assert clip(out, offer[0], offer[2], offer[1] - 10) == offer


# -- whatever the day --


@examples(150)
@given(st.data())
def test_limits_are_those_of_the_reference(data: st.DataObject) -> None:
    day = data.draw(days())
    signed = data.draw(deals(day))
    batch = day_batch([day])
    limits = LAYER.limits(batch, ledger_of(batch, [signed]))
    buy, sell, money = reference(day, signed)
    assert limits.buy_room[0].tolist() == buy
    assert limits.sell_room[0].tolist() == sell
    assert limits.money_room[0] == pytest.approx(money, abs=1e-6)


@examples(150)
@given(st.data())
def test_what_clip_returns_is_legal_and_within_every_limit_or_nothing(data: st.DataObject) -> None:
    day = data.draw(days() | days(healthy=True))
    role: Role = data.draw(st.sampled_from(("buyer", "seller")))
    signed = data.draw(deals(day))
    last = min(day.horizon, day.n_steps - 1 - day.current_step)
    bounds = data.draw(issues(day.current_step, day.current_step + last))
    batch = day_batch([day])
    out = LAYER.compute(batch, ledger_of(batch, [signed]), role, bounds)
    number = st.floats(-100, 100) | st.sampled_from([float("nan"), float("inf"), float("-inf")])
    actions = [data.draw(st.tuples(number, number, number)), tuple(out.baseline[0])]
    buy, sell, money = reference(day, signed)
    for outcome in (
        *(clip(out, q, p, ahead) for q, ahead, p in actions),
        LAYER.answer(out).counter.outcome(0, day.current_step),
    ):
        if outcome is None:
            continue
        q, time, p = outcome
        assert bounds.quantity[0] <= q <= bounds.quantity[1]
        assert bounds.time[0] <= time <= bounds.time[1]
        assert bounds.price[0] <= p <= bounds.price[1]
        assert 1 <= q <= (sell if role == "seller" else buy)[time - day.current_step]
        assert role == "seller" or q * p <= max(money, 0.0) + 1e-6
        assert clip(out, q, p, time - day.current_step) == outcome, "a legal action is left as it is"


@examples(100)
@given(st.data())
def test_safety_is_closed_under_its_own_deals(data: st.DataObject) -> None:
    """Sign all that L1 accepts or proposes, one after the other: no limit that held is ever broken."""
    day = data.draw(days(healthy=True))
    batch = day_batch([day])
    ledger = ledger_of(batch, [data.draw(deals(day) if data.draw(st.booleans()) else st.just([]))])
    tradable = np.arange(41) <= batch.last[0]
    step, last = day.current_step, day.current_step + int(batch.last[0])
    offer = st.tuples(st.integers(1, 20), st.integers(step, last), st.integers(1, 90))
    for _ in range(8):
        role: Role = data.draw(st.sampled_from(("buyer", "seller")))
        before = LAYER.limits(batch, ledger)
        answer, deal = ask(LAYER.compute(batch, ledger, role), on_table := data.draw(offer))
        signed = on_table if answer == "ACCEPT" else deal
        if signed is None:
            continue
        ledger = ledger.with_deal(0, role, signed)
        after = LAYER.limits(batch, ledger)
        before_the_end = tradable & (
            np.arange(41) < day.n_steps - 1 - step
        )  # the last day's room shrinks with any stock
        assert (after.buy_room >= np.minimum(before.buy_room, 0))[0, before_the_end].all()
        assert (after.sell_room >= np.minimum(before.sell_room, 0))[0, tradable].all()
        assert after.money_room[0] >= min(before.money_room[0], 0.0) - 1e-6


@examples(40)
@given(st.data())
def test_a_threads_limits_do_not_depend_on_other_threads(data: st.DataObject) -> None:
    some = data.draw(st.lists(days() | days(healthy=True), min_size=1, max_size=4))
    signed = [data.draw(deals(day)) for day in some]
    sells = np.array([data.draw(st.booleans()) for _ in some])
    offers = np.array([[5, 0, 20] for _ in some])
    batch = day_batch(some)
    together = LAYER.compute(batch, ledger_of(batch, signed), sells)
    answers = LAYER.answer(together, offers)
    for i, day in enumerate(some):
        one = day_batch([day])
        alone = LAYER.compute(one, ledger_of(one, [signed[i]]), "seller" if sells[i] else "buyer")
        for f in fields(L1Output):
            assert same_bits(getattr(alone, f.name)[0], getattr(together, f.name)[i]), f.name
        assert LAYER.answer(alone, offers[i : i + 1]).row(0, 0) == answers.row(i, 0)


def test_limits_computed_once_serve_all_threads() -> None:
    batch = day_batch([DELIVERIES])
    rows = np.zeros(3, np.int64)
    sells = np.array([True, False, True])
    sides = [DELIVERIES.sell_issues, DELIVERIES.buy_issues, Issues((1, 5), (10, 20), (30, 40))]
    bounds = issue_bounds(sides, [DELIVERIES.current_step] * 3)
    shared = LAYER.compute(batch.take(rows), None, sells, bounds, LAYER.limits(batch).take(rows))
    again = LAYER.compute(batch.take(rows), None, sells, bounds)
    for f in fields(L1Output):
        assert same_bits(getattr(shared, f.name), getattr(again, f.name)), f.name
    assert shared.baseline[:, 0].tolist() == [2, 5.5, 2]
