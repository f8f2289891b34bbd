"""What is known of habits: the regression against a hand-computed one, and what it must tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.hrl_xf.evolve.knowledge import ARMS, PRIOR, Knowledge, best_levels, played_arms, prior
from echelon.hrl_xf.evolve.numbers import SIZE
from echelon.hrl_xf.layers.l3_habits import BUYERS, TERMS

pytestmark = pytest.mark.numeric


def test_before_anything_is_played_all_levels_are_worth_nothing_and_large_ones_may_be_worth_more() -> None:
    mean, covariance = Knowledge(1.0).posterior()
    assert not mean.any()
    assert covariance == pytest.approx(prior(), abs=1e-12)
    block = prior()[:4, :4] / PRIOR**2
    third = 1 / 3
    assert block == pytest.approx(
        np.array([[1, third, 0, 0], [third, third, 0, 0], [0, 0, third, third], [0, 0, third, 1]])
    )
    assert not prior()[:4, 4 : 4 * len(TERMS)].any(), "terms know nothing of each other"
    last = 4 * len(TERMS)
    assert prior()[:4, last : last + 4] == pytest.approx(0.6 * prior()[:4, :4]), "all buyers are similar"
    assert not prior()[:4, BUYERS * last :].any(), "sellers are others"


def test_the_posterior_of_one_level_is_that_of_a_mean_with_a_normal_prior() -> None:
    """Pairs of plays of one seat, one of them with the largest level of the first number; the worth by hand."""
    draw, pairs = np.random.default_rng(0), 50
    gain = 0.01 + 0.03 * draw.standard_normal(pairs)
    base = draw.standard_normal(pairs)  # a configuration's own level of scores must not matter
    arms = np.zeros((2 * pairs, ARMS))
    arms[::2, 3] = 1.0
    score = np.repeat(base, 2)
    score[::2] += gain
    knowledge = Knowledge(1.0)
    knowledge.add(arms, score, np.repeat(np.arange(pairs), 2))
    mean, covariance = knowledge.posterior()
    noise = 0.03**2  # of a difference; what the regression leaves is an estimate of half of it
    precision = 1 / PRIOR**2 + pairs / noise
    assert mean[3] == pytest.approx(gain.mean() * (pairs / noise) / precision, rel=0.05)
    assert np.sqrt(covariance[3, 3]) == pytest.approx(precision**-0.5, rel=0.15)
    assert mean[2] == pytest.approx(mean[3] / 3), "a third of the weight has shown a third of it, as far as is known"
    assert mean[:2] == pytest.approx(0.0, abs=1e-12)
    assert mean[4 * len(TERMS) + 3] == pytest.approx(0.6 * mean[3])
    assert mean[4 * BUYERS * len(TERMS) :] == pytest.approx(0.0, abs=1e-12)


def test_numbers_that_are_tried_together_are_told_apart() -> None:
    draw, seats = np.random.default_rng(1), 3000
    arms = np.zeros((seats, ARMS))
    first = draw.random(seats) < 0.5
    second = np.where(draw.random(seats) < 0.9, first, ~first)  # mostly together
    arms[:, 3], arms[:, 7] = first, second
    score = 0.02 * first + 0.06 * draw.standard_normal(seats)
    knowledge = Knowledge(1.0)
    knowledge.add(arms, score, np.arange(seats) // 6)
    mean, covariance = knowledge.posterior()
    error = np.sqrt(np.diag(covariance))
    assert mean[3] == pytest.approx(0.02, abs=2.5 * error[3])
    assert mean[3] > 2.0 * error[3]
    assert abs(mean[7]) < 2.5 * error[7]


def test_earlier_generations_count_less() -> None:
    draw = np.random.default_rng(2)
    arms = np.zeros((400, ARMS))
    arms[::2, 3] = 1.0
    group, score = np.arange(400) // 2, 0.05 * draw.standard_normal(400)
    changing, keeping = Knowledge(0.1), Knowledge(1.0)
    for knowledge in (changing, keeping):
        knowledge.add(arms, score + 0.03 * arms[:, 3], group)
        knowledge.add(arms, score - 0.03 * arms[:, 3], group)
    assert changing.posterior()[0][3] < -0.012
    assert abs(keeping.posterior()[0][3]) < 0.01
    again = Knowledge(0.1)
    again.load_state_dict(changing.state_dict())
    assert np.array_equal(again.posterior()[0], changing.posterior()[0])


def test_levels() -> None:
    worth = np.full(ARMS, -1.0)
    worth[[1, 3, 4]] = [0.5, 0.7, 0.1]
    assert best_levels(worth)[:3].tolist() == [4, 1, 0]
    levels = np.zeros((2, SIZE), int)
    levels[:, 0], levels[:, 5] = 4, 1
    used = np.ones((2, SIZE), bool)
    used[1, 5] = False
    arms = played_arms(levels, used)
    assert [np.flatnonzero(row).tolist() for row in arms] == [[3, 20], [3]]
