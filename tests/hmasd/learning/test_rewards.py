"""Low-level rewards by hand, on what followed; discriminators learn from the round, after it was rewarded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from echelon.hmasd.learning.rewards import Discriminators, RewardUnit, SkillData
from echelon.hmasd.learning.rollout import DISCOVERER
from echelon.onpolicy.batch import RolloutBatch
from tests.hmasd.small import make, small
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric


def with_round(**changes: Any) -> tuple[Discriminators, RolloutBatch]:
    agent, collector = make(small(**changes))
    found = agent.learner.discriminators
    assert found is not None
    return found, collector.collect(0, 80)[DISCOVERER]


def test_the_reward_of_each_agent_is_the_weighted_sum_on_the_next_state_and_observation() -> None:
    both, batch = with_round(lambda_e=2.0, lambda_team=0.3, lambda_agent=0.7, skill_baseline=False)
    batch.reward[5, 1] = 1.5
    rewards = both.rewards(batch)
    for t, b, i in ((5, 1, 0), (5, 1, 1), (16, 2, 1), (19, 3, 0)):
        skills = batch.observation["skills"][t, b]
        state = torch.from_numpy(batch.extra["next_state"][t, b])
        observation = torch.from_numpy(batch.extra["next_observation"][t, b, i])
        with torch.no_grad():
            team = float(both.team(state)[skills[0]])
            own = float(both.individual(observation, torch.tensor(skills[0]))[skills[1 + i]])
        expected = 2.0 * batch.reward[t, b, i] + 0.3 * team + 0.7 * own
        assert rewards.total[t, b, i] == pytest.approx(expected, abs=1e-5)
    parts = rewards.environment + rewards.team + rewards.individual
    assert parts == pytest.approx(float(rewards.total.mean()), abs=1e-5)


def test_a_blind_guess_earns_nothing_with_the_baseline_and_pays_without() -> None:
    for baseline, expected in ((True, 0.0), (False, -0.3 * math.log(2) - 0.7 * math.log(3))):
        both, batch = with_round(lambda_e=0.0, lambda_team=0.3, lambda_agent=0.7, skill_baseline=baseline)
        for layers in (both.team.layers, both.individual.layers):
            last = layers[-1]
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        assert_equal_but_for_rounding(both.rewards(batch).total, expected)


def test_an_agent_that_is_gone_earns_what_the_team_earns_and_teaches_nothing() -> None:
    both, batch = with_round()
    batch.alive[:, 2, 1] = False
    batch.reward[:, 2] = 1.5
    batch.extra["next_observation"][:, 2, 1] = np.nan
    total = both.rewards(batch).total
    skills, state = (torch.from_numpy(x[:, 2]) for x in (batch.observation["skills"], batch.extra["next_state"]))
    with torch.no_grad():
        team = both.team(state).gather(1, skills[:, :1])[:, 0].numpy() + math.log(2)
    np.testing.assert_allclose(total[:, 2, 1], 1.5 + 0.1 * team, atol=1e-5)
    assert len(SkillData.of(batch).observation) == 140


def test_weights_are_shares_of_what_the_environment_pays() -> None:
    """Rewards a hundred times as large, or weighted so: the bonus grows with them; it never vanishes."""
    bonus = {}
    for scale in (0.0, 1.0, 100.0):
        both, batch = with_round(relative_intrinsic=True, lambda_e=2.0)
        batch.reward[:] = np.where(np.arange(20) % 2, scale, -scale)[:, None, None]
        rewarded, parts = both.rewarded(batch)
        bonus[scale] = rewarded.reward - 2.0 * batch.reward
        assert both.unit.value == pytest.approx(max(2.0 * scale, 0.01))
        assert abs(parts.environment) < 1e-4
    np.testing.assert_allclose(bonus[100.0], 100 * bonus[1.0], rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(bonus[0.0], 0.005 * bonus[1.0], rtol=1e-2, atol=1e-5)
    assert np.abs(bonus[0.0]).max() > 0


def test_the_unit_is_a_mean_over_rounds() -> None:
    unit = RewardUnit()
    assert unit.value == 1.0
    for mean in (1.0, 3.0):
        unit.update(np.array([mean, -mean]))
    assert unit.value == pytest.approx((0.99 * 1.0 + 3.0) / 1.99)
    again = RewardUnit()
    again.load_state_dict(unit.state_dict())
    assert again.value == unit.value


def test_where_a_return_is_over_nothing_is_earned_or_taught() -> None:
    both, batch = with_round()
    for flags in (batch.alive, batch.earns):
        flags[:, 2, 1] = False
        flags[:, 3] = False
    batch.extra["next_observation"][:, 2, 1] = np.nan
    batch.extra["next_state"][:, 3] = np.nan
    rewards = both.rewards(batch)
    assert (rewards.total[:, 2, 1] == 0).all()
    assert (rewards.total[:, 3] == 0).all()
    assert np.isfinite(rewards.total).all()
    data = SkillData.of(batch)
    assert (len(data.state), len(data.observation)) == (60, 100)
    assert math.isfinite(both.update(batch).loss)


def test_they_learn_skills_that_can_be_distinguished() -> None:
    both, batch = with_round(discriminator_epochs=60, lr=1e-2)
    skills = batch.observation["skills"]
    batch.extra["next_state"][..., 0] = 2.0 * skills[:, :, 0]
    batch.extra["next_observation"][..., 0] = 2.0 * skills[:, :, 1:]
    first = both.update(batch)
    second = both.update(batch)
    assert second.loss < first.loss
    assert second.team_accuracy > 0.95
    assert second.individual_accuracy > 0.95


def test_the_loss_is_the_sum_of_both_cross_entropies() -> None:
    both, batch = with_round()
    data = SkillData.of(batch)
    with torch.no_grad():
        team = -both.team(data.state).gather(1, data.team_skill[:, None]).mean()
        own = -both.individual(data.observation, data.its_team_skill).gather(1, data.agent_skill[:, None]).mean()
    assert both.update(batch).loss == pytest.approx(float(team + own), rel=1e-5)


def test_minibatches_divide_what_the_discriminators_learn_from() -> None:
    both, batch = with_round(minibatches=3, discriminator_epochs=2)
    whole = SkillData.of(batch)
    parts = whole.split(3)
    for name, rows in vars(whole).items():
        together = torch.cat([vars(part)[name] for part in parts])
        assert sorted(together.flatten().tolist()) == sorted(rows.flatten().tolist())
    assert max(len(part.observation) for part in parts) < len(whole.observation) / 2
    both.update(batch)
    assert int(both.optimizer.state_dict()["0.step"]) == 6
    assert len(whole.split(1000)) == len(whole.state)  # no part is empty
