"""Advantages of moments: by hand, against Monte Carlo, and the baseline of the group."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.hrl_xf.online.returns import Moments, Seat, group_baseline, moments_of, normalised
from echelon.hrl_xf.online.wishes import SeatWishes


def seat(balance: list[float], score: float, day: list[int], group: str = "a") -> Seat:
    """A seat with these balances at dawn; `day` of each moment."""
    days = {"balance": np.array(balance), "z": np.zeros((len(balance), 16))}
    return Seat(group, 0, SeatWishes(score, 1, days, {"day": np.array(day)}, {}, {}, np.zeros((0, 4)), 0, 0, 0))


def test_two_days_by_hand() -> None:
    # Rewards .1 and .2, at the second and third moment. Values .5, .4, .3; λ = .5, γ = 1.
    # δ: −.1, .1 + .3 − .4 = 0, .2 − .3 = −.1;  A: −.1, −.1 · .5, … = −.125, −.05, −.1
    found = moments_of([seat([1.0, 1.1], 1.3, [0, 0, 1])], [np.array([0.5, 0.4, 0.3])], 0.5, grouped=False)
    np.testing.assert_allclose(found.advantage, [-0.125, -0.05, -0.1], atol=1e-6)
    np.testing.assert_allclose(found.target, found.advantage + found.value, atol=1e-6)


def test_with_lambda_1_the_target_is_what_was_earned_from_then_on() -> None:
    values = [np.array([3.0, -1.0, 0.5, 2.0]), np.array([0.0, 1.0])]
    seats = [seat([1.0, 1.1, 0.9], 1.3, [0, 0, 1, 2]), seat([1.0], 0.7, [0, 0])]
    found = moments_of(seats, values, 1.0, grouped=False)
    np.testing.assert_allclose(found.target, [0.3, 0.3, 0.2, 0.4, -0.3, -0.3], atol=1e-6)
    np.testing.assert_array_equal(found.seat, [0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(found.first(), [0, 4, 6])


def test_the_groups_baseline_is_the_mean_of_the_other_plays_on_that_day() -> None:
    seats = [seat([1.0], 1.0, [0, 0]), seat([1.0, 1.0], 1.0, [0, 1]), seat([1.0], 1.0, [0], group="b")]
    moments = Moments(
        seat=np.array([0, 0, 1, 1, 2]), day=np.array([0, 0, 0, 1, 0]), value=np.zeros(5),
        advantage=np.array([1.0, 3.0, 10.0, 4.0, 7.0]), target=np.zeros(5),
    )  # fmt: skip
    # Play 0 sees play 1's day 0; play 1 sees the mean of play 0's two moments; day 1 and group b stand alone.
    np.testing.assert_allclose(group_baseline(seats, moments), [10.0, 10.0, 2.0, 0.0, 0.0])


def test_normalised_within_each_kind() -> None:
    found = normalised(np.array([1.0, 3.0, 10.0, 30.0, 5.0]), np.array([0, 0, 1, 1, 2]))
    np.testing.assert_allclose(found, [-1, 1, -1, 1, 0])


def test_rewards_can_be_replaced() -> None:
    values = [np.zeros(2)]
    found = moments_of([seat([1.0, 1.1], 1.3, [0, 1])], values, 1.0, False, [np.array([5.0, 7.0])])
    assert found.target.tolist() == pytest.approx([12.0, 7.0])
