"""Rewards and weights by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.day_batch import Floats
from echelon.hrl_xf.rewards import Advantages, deal_rewards, phases_of

SPOT = np.array([[20.0, 40.0]])
COSTS = np.array([[0.5, 0.05, 0.1]])
SAFE = np.full((1, 11), 8.0)


def reward(deal: tuple[int, int, int], seller: bool, safe: Floats = SAFE) -> float:
    return float(deal_rewards(np.array([deal]), np.array([seller]), SPOT, safe, COSTS)[0])


def test_surplus_against_spot_times_quantity() -> None:
    assert reward((5, 18, 2), seller=False) == pytest.approx(5 * 2 / 20)
    assert reward((5, 22, 2), seller=False) == pytest.approx(-5 * 2 / 20)
    assert reward((4, 44, 0), seller=True) == pytest.approx(4 * 4 / 40)
    assert reward((4, 36, 0), seller=True) == pytest.approx(-4 * 4 / 40)


def test_no_deal_is_worth_nothing() -> None:
    assert reward((0, 0, 0), seller=False) == 0
    assert reward((0, 0, 0), seller=True, safe=np.zeros((1, 11))) == 0


def test_pieces_beyond_what_was_safe_cost_penalties() -> None:
    # seller of 10 with 8 safe: 2 pieces short, each half of spot
    assert reward((10, 44, 3), seller=True) == pytest.approx((10 * 4 - 2 * 0.5 * 40) / 40)
    # buyer of 10 with 8 safe: 2 pieces paid for in vain and stored
    assert reward((10, 18, 3), seller=False) == pytest.approx((10 * 2 - 2 * (18 + 0.15 * 20)) / 20)
    tight = SAFE.copy()
    tight[0, 3] = 0
    assert reward((5, 18, 2), seller=False, safe=tight) == pytest.approx(0.5)  # the limit of its own day counts
    assert reward((5, 18, 3), seller=False, safe=tight) < 0


def test_phases() -> None:
    history, time = np.array([0, 1, 1, 3, 3, 9]), np.array([0.0, 0.0, 0.33, 0.34, 0.7, 1.0])
    assert phases_of(history, time).tolist() == [0, 1, 1, 2, 3, 3]


def test_weights_by_hand() -> None:
    r = np.array([0.0, 1.0, 2.0, 0.0, 9.0])
    seller = np.array([False, False, False, True, True])
    phase = np.array([1, 1, 1, 2, 3])
    made = Advantages.fit(r, seller, phase, beta=0.5, max_weight=20.0)
    assert made.mean[0, 1] == pytest.approx(1.0)
    assert made.mean[1, 3] == pytest.approx(9.0)
    np.testing.assert_allclose(made.weights(r, seller, phase), [np.exp(-2), 1, np.exp(2), 1, 1])
    assert made.weights(np.array([100.0]), np.array([False]), np.array([1]))[0] == pytest.approx(20.0)


@given(st.lists(st.tuples(st.floats(-50, 50), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30))
def test_advantages_of_a_group_sum_to_zero_and_weights_are_bounded(rows: list[tuple[float, bool, int]]) -> None:
    r, seller, phase = (np.array(column) for column in zip(*rows, strict=True))
    made = Advantages.fit(r, seller, phase)
    advantage = made.advantage(r, seller, phase)
    for role in (False, True):
        for p in range(4):
            group = (seller == role) & (phase == p)
            assert abs(advantage[group].sum()) < 1e-9 * (1 + len(rows))
    weights = made.weights(r, seller, phase)
    assert (weights >= 0).all()
    assert (weights <= 20.0 + 1e-9).all()


def test_senseless_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="beta=0"):
        Advantages(np.zeros((2, 4)), 0, 20)
