"""One update of everything: order, versions, and every parameter in exactly one optimiser."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.rollout import COORDINATOR, DISCOVERER
from echelon.onpolicy.batch import VersionError
from tests.hmasd.small import SKY, SMALL, make, small

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        SKY,
        small(critic_sees_skills=True),
        small(algorithm="mappo"),
        small(algorithm="ippo"),
        small(algorithm="mat"),
        small(SKY, algorithm="mat"),
        small(SKY, recurrent=False, state_noise=True),
    ],
)
def test_every_parameter_is_in_one_optimiser_and_changes(config: HMASDConfig) -> None:
    agent, collector = make(config)
    learner = agent.learner
    held = [
        id(p)
        for level in learner.levels.levels.values()
        for optimizer in level.optimizers
        for p in optimizer.parameters
    ]
    if learner.discriminators is not None:
        held += [id(p) for p in learner.discriminators.optimizer.parameters]
    assert sorted(held) == sorted(id(p) for p in agent.networks.parameters())
    before = agent.weights()
    for version in range(3):
        agent.update(collector.collect(version, 80))
    unmoved = [name for name, t in agent.weights().items() if torch.equal(t, before[name])]
    assert unmoved == []


def test_rewards_come_from_the_discriminators_that_existed_while_collecting() -> None:
    agent, collector = make()
    rollout = collector.collect(0, 80)
    discriminators = agent.learner.discriminators
    assert discriminators is not None
    expected = discriminators.rewards(rollout[DISCOVERER])
    stats = agent.update(rollout)
    assert stats.rewards is not None
    assert (stats.rewards.total == expected.total).all()
    assert (discriminators.rewards(rollout[DISCOVERER]).total != expected.total).any()


def test_all_epochs_are_run_and_the_version_moves_by_one() -> None:
    agent, collector = make(small(epochs=7))
    stats = agent.update(collector.collect(0, 80))
    assert stats.coordinator is not None
    assert (stats.discoverer.epochs, stats.coordinator.epochs) == (7, 7)
    assert stats.discoverer.ratio_error < 1e-5
    assert stats.coordinator.ratio_error < 1e-5
    assert agent.policy_version == 1


def test_a_round_of_another_version_changes_nothing() -> None:
    agent, collector = make()
    old = collector.collect(0, 80)
    agent.update(old)
    before = agent.weights()
    with pytest.raises(VersionError, match="must be of policy version 1"):
        agent.learner.update(old)
    mixed = collector.collect(1, 80)
    mixed[COORDINATOR] = replace(mixed[COORDINATOR], version=0)
    with pytest.raises(VersionError, match="coordinator"):
        agent.learner.update(mixed)
    assert all(torch.equal(t, before[name]) for name, t in agent.weights().items())


def test_accumulated_gradients_are_those_of_the_whole() -> None:
    weights = []
    for parts in (1, 3):
        agent, collector = make(small(accumulate=parts, epochs=1))
        agent.update(collector.collect(0, 80))
        weights.append(agent.weights())
    # Adam divides by the gradient's own size, so compare with room for rounding of tiny gradients
    close = [torch.allclose(weights[0][n], weights[1][n], atol=3e-5) for n in weights[0]]
    assert all(close)


@pytest.mark.parametrize("level", [COORDINATOR, DISCOVERER])
def test_the_floor_keeps_rounds_without_reward_quiet(level: str) -> None:
    """All rewards zero: without the floor the critic's noise becomes full-size gradients of the policy."""
    option = {COORDINATOR: "advantage_std_floor", DISCOVERER: "discoverer_std_floor"}[level]
    silent = small(lambda_h=0.0, lambda_l=0.0, lambda_team=0.0, lambda_agent=0.0, value_coef=0.0, epochs=1)
    norms = []
    for floor in (1e-5, 50.0):
        agent, collector = make(small(silent, **{option: floor}))
        rollout = collector.collect(0, 80)
        assert not rollout[level].reward.any()
        stats = agent.update(rollout)
        learnt = stats.coordinator if level == COORDINATOR else stats.discoverer
        assert learnt is not None
        norms.append(learnt.grad_norm)
    assert norms[1] < 0.1 * norms[0]


def test_saved_and_loaded_it_learns_on_bit_for_bit() -> None:
    agent, collector = make(small(minibatches=2))
    agent.update(collector.collect(0, 80))
    saved = agent.state_dict()
    rollout = collector.collect(1, 80)
    other, _ = make(small(minibatches=2), seed=9)
    other.load_state_dict(saved)
    agent.update(rollout)
    other.update(rollout)
    assert all(torch.equal(t, other.weights()[name]) for name, t in agent.weights().items())
    assert other.policy_version == 2
