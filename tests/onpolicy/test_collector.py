"""Collecting: one version a round, true final states, memory of the own episode, the dead and the broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch

from echelon.onpolicy.advantage import batch_gae
from echelon.onpolicy.batch import Array, Arrays, VersionError
from echelon.onpolicy.collector import Decision, StepCollector, check_version, join_rounds, shares
from tests.onpolicy.batches import random_batch
from tests.onpolicy.toys import Recall, Recurrent, ToySeen, ToyStep, ToyWorlds

pytestmark = pytest.mark.numeric


class Counting(ToyWorlds):
    """Shows its clock, pays it, and is cut after three steps."""

    agents, limit, truncates = 2, 3, True

    def look(self) -> Array:
        return np.broadcast_to(self.clock[:, None, None], (self.num_envs, 2, 1)).astype(np.float32)

    def earn(self, actions: Array) -> Array:
        return self.clock + 10.0


class Clockwork:
    """An actor whose value is what it sees plus 100 times its memory, and whose memory counts decisions."""

    def initial_state(self, columns: int) -> Arrays:
        return {"count": np.zeros((columns, 1), np.float32)}

    def act(self, observation: Arrays, mask: Arrays, state: Arrays, generator: torch.Generator) -> Decision:
        zeros = np.zeros(observation["observation"].shape[:2], np.int64)
        after = {"count": state["count"] + 1}
        return Decision(zeros, {"action": zeros}, zeros - 1.0, self.value(observation, state), after)

    def value(self, observation: Arrays, state: Arrays) -> Array:
        out: Array = observation["observation"][..., 0] + 100 * state["count"]
        return out


def test_a_round_by_hand() -> None:
    """Five steps of one world: clocks 0 1 2 | 0 1, cut after the third; the memory counts within an episode."""
    collector = StepCollector(Counting(1), Clockwork(), lambda: 0, seed=0, chunk=2)
    batch = collector.collect(0, 5)["agent"]
    assert batch.observation["observation"][:, 0, 1, 0].tolist() == [0, 1, 2, 0, 1]
    assert batch.reward[:, 0, 0].tolist() == [10, 11, 12, 10, 11]
    assert batch.value[:, 0, 0].tolist() == [0, 101, 202, 0, 101]
    # after the cut: the state that followed (3) with the memory of its own episode (3), not the new episode's start
    assert batch.next_value[:, 0, 0].tolist() == [101, 202, 303, 101, 202]
    assert batch.done[:, 0, 0].tolist() == [False, False, True, False, False]
    assert not batch.terminated.any()
    assert batch.reset[:, 0].tolist() == [True, False, False, True, False]
    assert batch.state["count"][:, 0, 0].tolist() == [0, 2, 1]
    again = collector.collect(0, 2)["agent"]
    assert again.observation["observation"][:, 0, 0, 0].tolist() == [2, 0]
    assert again.state["count"][0, 0, 0] == 2


def test_an_actor_of_another_version_is_refused() -> None:
    collector = StepCollector(Counting(2), Clockwork(), lambda: 4, seed=0)
    with pytest.raises(VersionError, match="version 3, but the actor holds 4"):
        collector.collect(3, 4)
    assert collector.collect(4, 4)["agent"].version == 4


def test_a_version_that_changes_within_a_round_is_refused() -> None:
    asked = iter([0, 0, 0, 1, 1])
    collector = StepCollector(Counting(2), Clockwork(), lambda: next(asked), seed=0)
    with pytest.raises(VersionError, match="began with 0, this decision is of 1"):
        collector.collect(0, 8)


class Mortal(Counting):
    """The second agent dies in the first step of an episode; the first world breaks in its second step."""

    def _alive(self, clock: Array) -> Array:
        return np.stack([clock >= 0, clock < 1], 1)

    def reset(self) -> ToySeen:
        return replace(super().reset(), alive=self._alive(self.clock))

    def step(self, actions: Array, /) -> ToyStep:
        now = super().step(actions)
        late = now.truncated
        final = self._alive(np.where(late, self.limit, self.clock))
        return replace(now, alive=self._alive(self.clock), final_alive=final)


def test_with_a_team_reward_the_return_of_a_dead_agent_goes_on() -> None:
    batch = StepCollector(Mortal(1), Clockwork(), lambda: 0, seed=0).collect(0, 3)["agent"]
    assert batch.alive[:, 0].tolist() == [[True, True], [True, False], [True, False]]
    assert batch.earns.all()
    assert not batch.terminated.any()
    assert batch.done[:, 0].tolist() == [[False, False], [False, False], [True, True]]
    _, target = batch_gae(batch, 0.9, 1.0)
    assert target[0, 0, 0] == target[0, 0, 1] != 0  # the dead earn what the living earn


def test_with_its_own_reward_a_dying_agent_is_terminated_alone() -> None:
    batch = StepCollector(Mortal(1), Clockwork(), lambda: 0, seed=0, reward="agent").collect(0, 3)["agent"]
    assert batch.alive[:, 0].tolist() == [[True, True], [True, False], [True, False]]
    assert batch.terminated[:, 0].tolist() == [[False, True], [False, False], [False, False]]
    assert batch.done[:, 0].tolist() == [[False, True], [False, False], [True, True]]


class Leaving(Mortal):
    """The second agent is cut in the first step of an episode; it does not die."""

    def step(self, actions: Array, /) -> ToyStep:
        now = super().step(actions)
        return replace(now, final_alive=np.ones_like(now.final_alive))


@pytest.mark.parametrize("reward", ["team", "agent"])
def test_an_agent_cut_alone_is_bootstrapped_alone(reward: Literal["team", "agent"]) -> None:
    batch = StepCollector(Leaving(1), Clockwork(), lambda: 0, seed=0, reward=reward).collect(0, 3)["agent"]
    assert not batch.terminated.any()
    assert batch.done[:, 0].tolist() == [[False, True], [False, False], [True, True]]
    assert batch.next_value[0, 0, 1] == batch.value[1, 0, 0] != 0  # what the critic says of the state it left


class Fragile(Counting):
    """World 0 breaks in the second step it ever takes; as any broken world it counts as cut and starts anew."""

    steps = 0

    def step(self, actions: Array, /) -> ToyStep:
        now = super().step(actions)
        self.steps += 1
        if self.steps != 2:
            return now
        broken = np.arange(self.num_envs) == 0
        self.clock[broken] = 0
        seen = self.look()
        return replace(now, dropped=broken, truncated=now.truncated | broken, observation=seen)


def test_the_partial_episode_of_a_broken_world_is_forgotten() -> None:
    batch = StepCollector(Fragile(2), Clockwork(), lambda: 0, seed=0).collect(0, 8)["agent"]
    assert batch.acts[:, 0, 0].tolist() == [False, False, True, True]
    assert batch.acts[:, 1, 0].tolist() == [True, True, True, True]
    assert batch.observation["observation"][:, 0, 0, 0].tolist() == [0, 1, 0, 1]


def test_individual_rewards_can_be_asked_for() -> None:
    class Unequal(Counting):
        def step(self, actions: Array, /) -> ToyStep:
            return replace(super().step(actions), agent_reward=np.array([[1.0, 2.0]]))

    batch = StepCollector(Unequal(1), Clockwork(), lambda: 0, seed=0, reward="agent").collect(0, 1)["agent"]
    assert batch.reward[0, 0].tolist() == [1.0, 2.0]


def _recurrent(seed: int) -> StepCollector:
    torch.manual_seed(0)
    return StepCollector(Recall(4, seed), Recurrent(2, 2), lambda: 0, seed, chunk=3)


def _same(one: Any, other: Any) -> None:
    for name in ("reward", "log_prob", "value", "next_value", "reset"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.state["actor"], other.state["actor"])


def test_loaded_in_the_middle_of_episodes_it_goes_on_bit_for_bit() -> None:
    one, other = _recurrent(3), _recurrent(8)
    one.collect(0, 4 * 4)
    other.load_state_dict(one.state_dict())
    _same(one.collect(0, 4 * 7)["agent"], other.collect(0, 4 * 7)["agent"])


def test_shares_of_several_collectors_join_in_order() -> None:
    first, second = _recurrent(1).collect(0, 4 * 5), _recurrent(2).collect(0, 4 * 5)
    joined = join_rounds([first, second], version=0)["agent"]
    np.testing.assert_array_equal(joined.log_prob[:, :4], first["agent"].log_prob)
    np.testing.assert_array_equal(joined.state["critic"][:, 4:], second["agent"].state["critic"])


def test_a_share_of_another_version_is_refused_by_name() -> None:
    good, old = {"low": random_batch(version=5)}, {"low": random_batch(version=4)}
    with pytest.raises(VersionError, match=r"share 1 must be of policy version 5, but has {'low': 4}"):
        join_rounds([good, old], version=5)
    with pytest.raises(ValueError, match="levels"):
        join_rounds([good, {"high": random_batch(version=5)}], version=5)
    with pytest.raises(ValueError, match="no level"):
        check_version({}, 0)


def test_a_round_is_an_equal_share_of_every_world() -> None:
    assert shares(1024, 32) == 32
    with pytest.raises(ValueError, match="1000 steps is not a multiple of 32 worlds; use 992 or 1024"):
        shares(1000, 32)
    with pytest.raises(ValueError, match="use 32"):
        shares(5, 32)
