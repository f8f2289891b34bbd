"""Rounds: one version in each, true final states, memory of the own episode, shares side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from echelon.onpolicy.batch import Arrays, VersionError, check_version, join_rounds
from echelon.runtime.arrays import Array
from tests.onpolicy.batches import random_batch
from tests.onpolicy.step_collector import Choice, StepCollector
from tests.onpolicy.toys import Recall, Recurrent, ToyWorlds

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

    def act(self, observation: Arrays, state: Arrays, generator: torch.Generator) -> Choice:
        zeros = np.zeros(observation["observation"].shape[:2], np.int64)
        after = {"count": state["count"] + 1}
        return Choice(zeros, {"action": zeros}, zeros - 1.0, self.value(observation, state), after)

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


def _recurrent(seed: int) -> StepCollector:
    torch.manual_seed(0)
    return StepCollector(Recall(4, seed), Recurrent(2, 2), lambda: 0, seed, chunk=3)


def _same(one: Any, other: Any) -> None:
    for name in ("reward", "log_prob", "value", "next_value", "reset"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.state["actor"], other.state["actor"])


def test_loaded_in_the_middle_of_episodes_it_continues_bit_for_bit() -> None:
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
