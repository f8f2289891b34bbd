"""Features calculated by hand, and the laws of batches and ledgers."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.day_state import DayState, OffersSnapshot, SeenOffer
from echelon.hrl_xf.state.features import STATIC_RANGES, TEMPORAL_RANGES, StateBuilder, role_one_hot
from tests.hrl_xf.state.examples import BUSY, a_day, commitments, days, same_bits
from tests.laws import examples


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
def test_future_price_mixes_the_known_prices(
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


def test_offers_for_past_days_have_no_effect() -> None:
    assert same_bits(temporal(a_day(offers_snapshot=snapshot([(9, 5, 15, 3, 20)], []))), temporal(a_day()))


@pytest.mark.parametrize(("level", "role"), [(0, [0, 1]), (1, [1, 1]), (2, [1, 0])])
def test_roles_by_level(level: int, role: list[int]) -> None:
    day = a_day(level=level, my_input_product=level, my_output_product=level + 1)
    assert StateBuilder().build(day).x_role.tolist() == role


def test_roles_of_threads() -> None:
    assert role_one_hot(np.array([False, True])).tolist() == [[1, 0], [0, 1]]


@examples(60)
@given(st.lists(days(), min_size=1, max_size=4))
def test_features_stay_in_their_ranges_and_do_not_depend_on_other_days(some: list[DayState]) -> None:
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
