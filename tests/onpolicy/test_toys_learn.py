"""Toys with a known optimum that really train; each with the control that must fail."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from echelon.onpolicy.batch import Arrays
from echelon.onpolicy.chunks import Chunks
from echelon.onpolicy.distributions import SquashedNormal
from echelon.onpolicy.loop import LevelLearner, TrainingLoop
from echelon.onpolicy.loss import Evaluation
from echelon.onpolicy.optimizer import JointAdam
from echelon.onpolicy.options import PPOOptions
from echelon.onpolicy.ppo import PPOLearner
from echelon.runtime.arrays import Array
from tests.onpolicy.step_collector import Choice, Step, StepCollector
from tests.onpolicy.toys import Bandit, Endless, MatrixGame, Recall, ToyWorlds, make_loop


def test_bandit_finds_the_best_arm() -> None:
    worlds = Bandit(32)
    loop, policy = make_loop(worlds, PPOOptions(epochs=5, entropy_coef=0.01), 12_000, 256, lr=1e-2)
    for _ in loop:
        pass
    with torch.no_grad():
        probs = policy.actor(torch.ones(1)).softmax(-1)
    assert probs[2] > 0.95
    assert np.mean(worlds.returns[:256]) < 0.6
    assert np.mean(worlds.returns[-256:]) > 0.95


def test_two_agents_find_the_joint_optimum_behind_a_worse_looking_choice() -> None:
    worlds = MatrixGame(32)
    loop, _ = make_loop(worlds, PPOOptions(epochs=10, entropy_coef=0.05), 20_000, 256, lr=5e-3)
    for _ in loop:
        pass
    assert np.mean(worlds.returns[-256:]) > 7.2


def _recall(recurrent: bool) -> float:
    worlds = Recall(32)
    options = PPOOptions(epochs=8, entropy_coef=0.01)
    loop, _ = make_loop(worlds, options, 18_000, 32 * 16, recurrent=recurrent, chunk=10 if recurrent else 1, lr=5e-3)
    for _ in loop:
        pass
    return float(np.mean(worlds.returns[-512:]))


def test_only_a_recurrent_policy_solves_the_memory_task() -> None:
    assert _recall(recurrent=True) > 0.95
    assert 0.4 < _recall(recurrent=False) < 0.6


class EndlessCutWrong(Endless):
    """The mistake: a time limit reported as the end of the task."""

    truncates = False


def _value_of(worlds: Endless) -> float:
    options = PPOOptions(gamma=0.9, gae_lambda=1.0, epochs=10, entropy_coef=0.0)
    loop, _ = make_loop(worlds, options, 7_200, 8 * 15, lr=5e-3)
    value = 0.0
    for done in loop:
        value = done.stats["agent"].mean_value
    return value


def test_truncation_taken_for_termination_gives_a_measurably_wrong_value() -> None:
    assert abs(_value_of(Endless(8)) - 10.0) < 0.2
    # with 1 to 5 steps left 1, 1.9, 2.71, 3.439 and 4.0951 are still earned: a blind critic learns their mean, 2.63
    assert abs(_value_of(EndlessCutWrong(8)) - 2.63) < 0.2


class Target(ToyWorlds):
    """Pays most, 0, for the action .6 of [-1, 1]."""

    def earn(self, actions: Array) -> Array:
        return -((actions[:, 0] - 0.6) ** 2)


class Gaussian(nn.Module):
    """The same bounded distribution everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.log_std, self.level = (nn.Parameter(torch.zeros(1)) for _ in range(3))

    def choice(self, *shape: int) -> SquashedNormal:
        return SquashedNormal(self.mean.expand(*shape, 1), self.log_std)

    def evaluate(self, chunks: Chunks) -> Evaluation:
        choice = self.choice(*chunks.log_prob.shape)
        return Evaluation(choice.log_prob(chunks.action["u"]), choice.entropy(), self.level.expand_as(chunks.value))

    def initial_state(self, columns: int) -> Arrays:
        return {}

    def act(self, observation: Arrays, state: Arrays, generator: torch.Generator) -> Choice:
        choice = self.choice(len(observation["state"]), 1)
        u = choice.sample(generator)
        action = choice.action(u).squeeze(-1).numpy()
        return Choice(action, {"u": u.numpy()}, choice.log_prob(u).numpy(), self.value(observation, state))

    def value(self, observation: Arrays, state: Arrays) -> Array:
        out: Array = self.level.expand(len(observation["state"]), 1).numpy()
        return out


def test_a_bounded_continuous_action_finds_its_target_and_grows_sure() -> None:
    policy = Gaussian()
    learner = PPOLearner(policy, [JointAdam(policy.parameters(), 1e-2)], PPOOptions(epochs=10, entropy_coef=0.001))
    collector = StepCollector(Target(64), policy, lambda: learner.version, seed=0)
    for _ in TrainingLoop(collector, LevelLearner({"agent": learner}), 8_000, 128):
        pass
    choice = policy.choice(1)
    assert abs(choice.action(choice.mode()).item() - 0.6) < 0.05
    assert choice.std.item() < 0.25  # it began at .78


def test_toy_steps_keep_the_true_final_observation() -> None:
    worlds = Recall(4)
    worlds.reset()
    last: Step | None = None
    for _ in range(worlds.limit):
        last = worlds.step(np.zeros((4, 1), np.int64))
    assert last is not None
    np.testing.assert_allclose(last.final.observation[:, 0, 1], 1.0)
    np.testing.assert_allclose(last.seen.observation[:, 0, 1], 0.0)
