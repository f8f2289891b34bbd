"""Features calculated by hand, and the laws of batches and ledgers."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.day_batch import DayBatch, Ledger, Offers, day_batch
from echelon.hrl_xf.schema import DayState, Offer, OffersSnapshot, Role, SeenOffer
from echelon.hrl_xf.state_builder import (
    STATIC_RANGES,
    TEMPORAL_RANGES,
    StateBuilder,
    commitments_of,
    day_state,
    role_one_hot,
)
from tests.hrl_xf.conftest import MakeWorld
from tests.hrl_xf.day_examples import a_day, commitments, days, deals, same_bits
from tests.laws import examples

BUSY = a_day(
    balance=8_000.0,
    inventory_input=50,
    inventory_output=25,
    commitments=commitments([5, 15], [10], [110.0, 300.0], [250.0]),
)


def temporal(day: DayState) -> Any:
    return StateBuilder().build(day).X_temporal


def snapshot(buy: list[tuple[int, int, int, int, int]], sell: list[tuple[int, int, int, int, int]]) -> OffersSnapshot:
    return OffersSnapshot([SeenOffer(*o) for o in buy], [SeenOffer(*o) for o in sell])


def test_static_features_by_hand() -> None:
    built = StateBuilder().build(BUSY)
    assert built.x_static.dtype == np.float32
    expected = [0.8, 0.1, 0.05, 0.2, 1.0, 0.1, 0.4, 0.6, 0.04, 0.02, 0.041, 0.025]
    np.testing.assert_allclose(built.x_static, expected, rtol=1e-6)


def test_temporal_features_by_hand() -> None:
    """I_max 500. Material 50+5−10, +15−10, −10 a day; money 8000+250−110−50, −300−50, −50 a day; C 400, 390, …, 0."""
    X = temporal(BUSY)
    assert X.shape == (41, 10)
    assert X.dtype == np.float32
    # V = 22 and 20 for the input: .75·22 + .25·20 = 21.5; V = 25 for the output: .75·25 + .25·30 = 26.25
    first = [0.01, 0.02, 0.02, 0.09, 0.71, 0.809, 0.03, -0.075, 0.025, 0.0125]
    second = [0.03, 0.0, 0.02, 0.1, 0.68, 0.774, 0.0, 0.0, 0.0, 15 / 390]
    last = [0.0, 0.0, 0.02, (50 + 20 - 410) / 500, 340 / 500, (7740 - 39 * 50) / 10_000, 0.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(X[[0, 1, 40]], [first, second, last], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("q_in", "payables", "offers", "future"),
    [
        (4, 100.0, [(12, 5, 15, 3, 20)], 0.6 * 25 + 0.3 * 15 + 0.1 * 20),
        (4, 100.0, [], 0.75 * 25 + 0.25 * 20),
        (0, 0.0, [(12, 5, 15, 3, 20)], 0.6 * 15 + 0.4 * 20),
        (0, 0.0, [], 20.0),
    ],
)
def test_future_price_mixes_what_is_there(
    q_in: int, payables: float, offers: list[tuple[int, int, int, int, int]], future: float
) -> None:
    """V = 25, A = 15, S = 20, for the day after tomorrow."""
    signed = commitments([0, 0, q_in], None, [0, 0, payables])
    X = temporal(a_day(commitments=signed, offers_snapshot=snapshot(offers, [])))
    assert X[2, 6] == pytest.approx((future - 20.0) / 50.0, abs=1e-7)
    assert X[3, 6] == 0.0
    assert not X[:, 7].any()


def test_offers_weigh_by_age_and_size() -> None:
    """Made in the last round of 20, age 0; one before, age 1. 10 pieces weigh sqrt(10/20), 30 sqrt(30/40)."""
    late, early = math.sqrt(0.5), math.exp(-0.3) * math.sqrt(0.75)
    X = temporal(a_day(offers_snapshot=snapshot([], [(11, 10, 36, 19, 20), (11, 30, 24, 18, 20)])))
    mean = (late * 36 + early * 24) / (late + early)
    assert X[1, 7] == pytest.approx((0.6 * mean + 0.4 * 30 - 30) / 50, abs=1e-7)
    # demand for the output: price 36 at spot 30 counts 1.2 times, 24 counts .8 times; C[1] = 390
    assert X[1, 8] == pytest.approx((late * 10 * 1.2 + early * 30 * 0.8) / 390, rel=1e-6)
    assert not X[:, [6, 9]].any()


def test_supply_presses_more_the_cheaper_it_is() -> None:
    weight = math.sqrt(0.5)
    cheap, dear, giveaway = (
        temporal(a_day(offers_snapshot=snapshot([(10, 10, price, 19, 20)], [])))[0, 9] for price in (16, 25, 2)
    )
    assert cheap == pytest.approx(weight * 10 * 1.25 / 400, rel=1e-6)
    assert dear == pytest.approx(weight * 10 * 0.8 / 400, rel=1e-6)
    assert giveaway == pytest.approx(weight * 10 * 2.0 / 400, rel=1e-6), "the price ratio is clipped at 2"


def test_offers_for_yesterday_say_nothing_about_today() -> None:
    assert same_bits(temporal(a_day(offers_snapshot=snapshot([(9, 5, 15, 3, 20)], []))), temporal(a_day()))


@pytest.mark.parametrize(("level", "role"), [(0, [0, 1]), (1, [1, 1]), (2, [1, 0])])
def test_roles_by_level(level: int, role: list[int]) -> None:
    day = a_day(level=level, my_input_product=level, my_output_product=level + 1)
    assert StateBuilder().build(day).x_role.tolist() == role


def test_roles_of_threads() -> None:
    assert role_one_hot(np.array([False, True])).tolist() == [[1, 0], [0, 1]]


@examples(60)
@given(st.lists(days(), min_size=1, max_size=4))
def test_features_stay_in_their_ranges_and_do_not_feel_their_neighbours(some: list[DayState]) -> None:
    together = StateBuilder().build(day_batch(some))
    assert ((together.x_static >= STATIC_RANGES[:, 0]) & (together.x_static <= STATIC_RANGES[:, 1])).all()
    assert ((together.X_temporal >= TEMPORAL_RANGES[:, 0]) & (together.X_temporal <= TEMPORAL_RANGES[:, 1])).all()
    for row, day in enumerate(some):
        alone = StateBuilder().build(day)
        for f in fields(alone):
            assert same_bits(getattr(alone, f.name), getattr(together, f.name)[row]), f.name


def test_horizons_must_agree() -> None:
    with pytest.raises(ValueError, match="use one horizon"):
        StateBuilder(horizon=20).build(day_batch([BUSY]))
    with pytest.raises(ValueError, match="use a longer one"):
        day_batch([a_day(commitments=commitments([1] * 12))], horizon=10)
    assert day_batch([a_day(commitments=commitments([1] * 11))], horizon=10).Q_in.tolist() == [[1.0] * 11]


def assert_same_batch(a: DayBatch, b: DayBatch) -> None:
    for f in fields(DayBatch)[:-1]:
        assert same_bits(getattr(a, f.name), getattr(b, f.name)), f.name
    for f in fields(Offers):
        assert same_bits(getattr(a.offers, f.name), getattr(b.offers, f.name)), f.name


@examples(30)
@given(st.lists(days(), min_size=1, max_size=3), st.lists(st.integers(0, 2), max_size=5))
def test_days_may_be_taken_in_any_order_and_repeated(some: list[DayState], rows: list[int]) -> None:
    rows = [row % len(some) for row in rows]
    taken = day_batch(some).take(np.array(rows, np.int64))
    assert_same_batch(taken, day_batch([some[row] for row in rows]))


# -- the ledger --

DEALS: list[tuple[Role, Offer]] = [("buyer", (5, 12, 20)), ("seller", (3, 10, 30)), ("buyer", (2, 12, 21))]


def test_a_ledger_holds_quantities_and_money_by_days_ahead() -> None:
    ledger = Ledger.from_deals(day_batch([BUSY]), [DEALS])
    assert ledger.q_in[0, :4].tolist() == [0, 0, 7, 0]
    assert ledger.payables[0, :4].tolist() == [0, 0, 142, 0]
    assert ledger.q_out[0, :4].tolist() == [3, 0, 0, 0]
    assert ledger.receivables[0, :4].tolist() == [90, 0, 0, 0]
    assert ledger.q_in.shape == (1, 41)


def assert_same_ledger(a: Ledger, b: Ledger) -> None:
    for f in fields(Ledger):
        np.testing.assert_array_equal(getattr(a, f.name), getattr(b, f.name), err_msg=f.name)


@examples(50)
@given(st.data())
def test_a_ledger_after_n_deals_is_the_ledger_of_those_deals(data: st.DataObject) -> None:
    some = data.draw(st.lists(days(), min_size=1, max_size=3))
    signed = [data.draw(deals(day)) for day in some]
    batch = day_batch(some)
    ledgers, first = Ledger.after_each_deal(batch, signed)
    for i, of_day in enumerate(signed):
        alone = day_batch([some[i]])
        step_by_step = Ledger.empty(alone)
        for n in range(len(of_day) + 1):
            row = ledgers.take(np.array([first[i] + n]))
            assert_same_ledger(row, step_by_step)
            assert_same_ledger(row, Ledger.from_deals(alone, [of_day[:n]]))
            if n < len(of_day):
                step_by_step = step_by_step.with_deal(0, *of_day[n])


def test_a_live_ledger_is_now_less_dawn() -> None:
    dawn = commitments([5, 15, 0], [10], [110.0, 300.0], [250.0])
    now = commitments([5, 15, 7], [13], [110.0, 300.0, 142.0], [340.0])
    assert_same_ledger(Ledger.between(10, dawn, now), Ledger.from_deals(day_batch([BUSY]), [DEALS]))
    with pytest.raises(ValueError):
        Ledger.between(10, dawn, commitments([5, 15], [13]))


def test_deals_outside_the_horizon_are_refused() -> None:
    batch = day_batch([BUSY])
    with pytest.raises(ValueError, match=r"not within 0\.\.40"):
        Ledger.empty(batch).with_deal(0, "buyer", (1, 9, 20))
    with pytest.raises(ValueError, match=r"not within 0\.\.40"):
        Ledger.from_deals(batch, [[("seller", (1, 51, 20))]])
    with pytest.raises(ValueError, match="deals of 2 days"):
        Ledger.from_deals(batch, [[], []])


# -- reading the live interface --


class Watched:
    """A world interface that notes what is read of it, and may lack one name."""

    def __init__(self, awi: Any, missing: str = "") -> None:
        self._awi, self._missing, self.read = awi, missing, set[str]()

    def __getattr__(self, name: str) -> Any:
        if name == self._missing:
            raise AttributeError(name)
        self.read.add(name)
        return getattr(self._awi, name)


def test_a_name_the_interface_lacks_fails_loudly(make_world: MakeWorld) -> None:
    world = make_world(["RandomStdAgent"], n_steps=8, levels=3, per_level=2)
    world.step()
    awi = next(a.awi for a in world.agents.values() if not a.id.startswith(("SELLER", "BUYER")) and a.awi.level == 1)
    watched = Watched(awi)
    whole = day_state(watched, 100.0, OffersSnapshot([], []))
    assert whole.commitments == commitments_of(awi)
    assert {"current_balance", "future_supplies_cost", "current_exogenous_input_price"} <= watched.read
    for name in watched.read:
        with pytest.raises(AttributeError, match=name):
            day_state(Watched(awi, name), 100.0, OffersSnapshot([], []))
