"""Normalisation: by hand, and by law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.onpolicy.normalize import ValueNormalizer, normalize_advantage
from tests.laws import examples

pytestmark = pytest.mark.numeric


def test_advantages_by_hand() -> None:
    """Acting: 1, 3, 5 with mean 3 and deviation sqrt(8/3); the 100 does not act."""
    advantage, acts = np.array([1.0, 100.0, 3.0, 5.0]), np.array([True, False, True, True])
    scaled = normalize_advantage(advantage, acts)
    np.testing.assert_allclose(scaled, np.array([-2.0, 0.0, 0.0, 2.0]) / math.sqrt(8 / 3))


def test_the_floor_keeps_small_advantages_small() -> None:
    advantage = np.array([-0.001, 0.001])
    acts = np.ones(2, bool)
    np.testing.assert_allclose(normalize_advantage(advantage, acts, std_floor=0.1), [-0.01, 0.01])
    np.testing.assert_allclose(normalize_advantage(advantage, acts), [-1.0, 1.0])
    np.testing.assert_allclose(normalize_advantage(np.full(2, 7.0), acts), [0.0, 0.0])
    np.testing.assert_allclose(normalize_advantage(advantage, ~acts), [0.0, 0.0])
    with pytest.raises(ValueError, match="one shape"):
        normalize_advantage(advantage, np.ones(3, bool))


def test_running_moments_by_hand() -> None:
    """beta = .5. After [1, 3]: mean 2, E x^2 = 5, var 1. After [6]: weights 1/4 and 1/2 of 3/4:
    mean (.25*2 + .5*6)/.75 = 14/3, E x^2 (.25*5 + .5*36)/.75 = 77/3, var 77/3 - 196/9 = 35/9.
    """
    running = ValueNormalizer(beta=0.5)
    assert (running.mean, running.std) == (0.0, 1.0)
    running.update(np.array([1.0, 3.0]))
    assert (running.mean, running.std) == (2.0, 1.0)
    running.update(np.array([6.0]))
    assert running.mean == pytest.approx(14 / 3)
    assert running.std == pytest.approx(math.sqrt(35) / 3)
    running.update(np.array([]))
    assert running.mean == pytest.approx(14 / 3)


@examples(50)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), st.floats(0.0, 0.99999))
def test_the_first_batch_counts_in_full_whatever_beta(numbers: list[float], beta: float) -> None:
    running, x = ValueNormalizer(beta, std_floor=1e-3), np.array(numbers)
    running.update(x)
    assert running.mean == pytest.approx(x.mean(), abs=1e-6)
    assert running.std == pytest.approx(max(x.std(), 1e-3), abs=1e-2)
    np.testing.assert_allclose(running.denormalize(running.normalize(x)), x, atol=1e-6)


def test_a_slow_average_of_equal_batches_is_their_plain_average() -> None:
    running, rng = ValueNormalizer(0.99999), np.random.default_rng(0)
    rounds = rng.normal(5.0, 2.0, size=(50, 100))
    for x in rounds:
        running.update(x)
    assert running.mean == pytest.approx(rounds.mean(), abs=1e-3)
    assert running.std == pytest.approx(rounds.std(), abs=1e-3)


def test_saved_and_loaded_it_continues_bit_for_bit() -> None:
    one, other = ValueNormalizer(0.9), ValueNormalizer(0.9)
    one.update(np.array([0.1, 0.7]))
    other.load_state_dict(one.state_dict())
    for running in (one, other):
        running.update(np.array([2.3]))
    assert (one.mean, one.std) == (other.mean, other.std)


def test_what_would_poison_it_is_refused() -> None:
    with pytest.raises(ValueError, match="must be finite"):
        ValueNormalizer().update(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="beta=1"):
        ValueNormalizer(beta=1.0)
    with pytest.raises(ValueError, match="std_floor=0"):
        ValueNormalizer(std_floor=0.0)
