"""Draws of L2 and L4: densities by hand, bounds, and that the learner's networks give the same log-probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from echelon.hrl_xf.online.exploring import LOG_STD, bounded, log_density, unbounded
from echelon.hrl_xf.online.policies import L2Policy, L3Policy, L4Policy, LayerPolicy
from echelon.hrl_xf.online.returns import Seat, moments_of
from echelon.hrl_xf.online.rollout import rollout_of
from echelon.hrl_xf.online.trainer import initial_layers
from echelon.onpolicy.chunks import to_chunks
from echelon.onpolicy.distributions import soft_bounded
from tests.hrl_xf.online.examples import seats

pytestmark = pytest.mark.numeric


def test_log_density_by_hand() -> None:
    z, mean = np.array([1.0, 5.0], np.float32), np.array([0.0, 0.0], np.float32)
    log_std = np.array([math.log(2.0), 0.0], np.float32)
    found = log_density(z, mean, log_std, np.array([True, False]))
    assert found == pytest.approx(-0.5 * 0.25 - math.log(2.0) - 0.5 * math.log(2 * math.pi))


def test_deviations_are_bounded_alike_in_numpy_and_torch() -> None:
    raw = np.linspace(-10, 5, 31, dtype=np.float32)
    np.testing.assert_allclose(bounded(raw), soft_bounded(torch.from_numpy(raw), *LOG_STD).numpy(), atol=1e-5)
    assert bounded(np.full(1, unbounded(math.log(0.2)), np.float32))[0] == pytest.approx(math.log(0.2), abs=1e-5)
    with pytest.raises(ValueError, match=r"deviation of 2 must be between 0\.03 and 1"):
        unbounded(math.log(2.0))


@pytest.mark.parametrize("level", ["l2", "l3", "l4"])
def test_the_learner_scores_a_real_worlds_draws_as_the_players_did(level: str) -> None:
    played = [Seat("a", i, wishes) for i, wishes in enumerate(seats())]
    moments = moments_of(played, [np.zeros(len(s.wishes.moments["day"])) for s in played], 0.9, grouped=False)
    batch = rollout_of([s.wishes for s in played], moments, 0, 40, "residual")[level]
    l2, l3, l4 = initial_layers("bundled")
    policies: dict[str, LayerPolicy] = {"l2": L2Policy(l2), "l3": L3Policy(l3), "l4": L4Policy(l4, 0.3)}
    with torch.no_grad():
        policies["l4"].get_parameter("raw").fill_(unbounded(-1.2))
        scored = policies[level].evaluate(to_chunks(batch, batch.reward, batch.reward)).log_prob
    assert batch.columns > 20
    assert batch.log_prob.std() > 0.1
    np.testing.assert_allclose(scored.numpy(), batch.log_prob, atol=1e-3)
