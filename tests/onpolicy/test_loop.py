"""The loop: resume equals not stopping, versions are checked, multiples are crossed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from echelon.onpolicy.batch import Rollout, VersionError
from echelon.onpolicy.loop import LevelLearner, TrainingLoop, crossed
from echelon.onpolicy.optimizer import JointAdam
from echelon.onpolicy.options import PPOOptions
from echelon.onpolicy.ppo import PPOLearner, PPOStats
from tests.onpolicy.batches import random_batch
from tests.onpolicy.toys import FeedForward, MatrixGame, Recall, make_loop

pytestmark = pytest.mark.numeric

OPTIONS = PPOOptions(epochs=2, minibatches=2, accumulate=2)
Loop = TrainingLoop[dict[str, PPOStats]]


def _loop(recurrent: bool, seed: int = 0, total: int = 6) -> Loop:
    worlds = Recall(6, seed) if recurrent else MatrixGame(6, seed)
    return make_loop(worlds, OPTIONS, total * 48, 48, recurrent=recurrent, chunk=5 if recurrent else 1, seed=seed)[0]


@pytest.mark.parametrize("recurrent", [False, True])
def test_stopped_and_resumed_equals_never_stopped_bit_for_bit(recurrent: bool, tmp_path: Path) -> None:
    """Six rounds of 8 steps, episodes of 6 (or 2): the stop is in the middle of episodes. Through a file."""
    whole = _loop(recurrent)
    stats = [done.stats["agent"] for done in whole]

    first = _loop(recurrent)
    for done in first:
        if done.index == 2:
            save_file(first.state_dict(), tmp_path / "state.safetensors")
            break
    second = _loop(recurrent, seed=9)  # other weights, worlds and streams: all must come from the file
    second.load_state_dict(load_file(tmp_path / "state.safetensors"))
    assert (second.rounds, second.env_steps, second.learner.version) == (3, 144, 3)
    assert [done.stats["agent"] for done in second] == stats[3:]

    one, other = whole.state_dict(), second.state_dict()
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def test_saving_does_not_disturb_and_is_not_disturbed() -> None:
    plain, watched = _loop(True), _loop(True)
    for _ in plain:
        pass
    saved: dict[str, Tensor] = {}
    copy: dict[str, Tensor] = {}
    for done in watched:
        if done.index == 1:
            saved = watched.state_dict()
            copy = {name: tensor.clone() for name, tensor in saved.items()}
    assert all(torch.equal(saved[name], copy[name]) for name in copy)
    assert all(torch.equal(t, plain.state_dict()[name]) for name, t in watched.state_dict().items())


def test_rounds_are_counted_and_end() -> None:
    loop = _loop(False, total=3)
    rounds = list(loop)
    assert [r.index for r in rounds] == [0, 1, 2]
    assert [r.version for r in rounds] == [0, 1, 2]
    assert [r.env_steps for r in rounds] == [48, 96, 144]
    assert all(r.rollout["agent"].decisions == 48 for r in rounds)
    assert [r.crossed(100) for r in rounds] == [None, None, 100]
    assert list(loop) == []


def test_rounds_may_grow_with_progress() -> None:
    loop = _loop(False)
    grown = TrainingLoop(loop.collector, loop.learner, 120, lambda so_far: 24 if so_far < 48 else 48)
    assert [r.steps for r in grown] == [24, 24, 48, 48]


class Stale:
    """A collector that hands out rounds of an old policy."""

    def __init__(self, inner: Loop) -> None:
        self.inner = inner.collector

    def collect(self, version: int, steps: int) -> Rollout:
        return {level: replace(b, version=version - 1) for level, b in self.inner.collect(version, steps).items()}

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        pass


def test_a_collector_of_another_version_is_refused() -> None:
    loop = _loop(False)
    with pytest.raises(VersionError, match=r"must be of policy version 0, but has {'agent': -1}"):
        next(iter(TrainingLoop(Stale(loop), loop.learner, 48, 48)))


def _learner(version: int = 0) -> PPOLearner:
    policy = FeedForward(3, 4)
    return PPOLearner(policy, [JointAdam(policy.parameters(), 1e-3)], PPOOptions(ratio_tolerance=None), version=version)


def test_levels_are_updated_together_or_not_at_all() -> None:
    learner = LevelLearner({"high": _learner(), "low": _learner()})
    before = learner.state_dict()
    with pytest.raises(ValueError, match=r"\['high'\], the learner \['high', 'low'\]"):
        learner.update({"high": random_batch()})
    with pytest.raises(VersionError, match="'low': 1"):
        learner.update({"high": random_batch(), "low": random_batch(version=1)})
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.state_dict().items())
    assert learner.update({"high": random_batch(), "low": random_batch()}).keys() == {"high", "low"}
    assert learner.version == 1
    with pytest.raises(VersionError, match="one version, not"):
        LevelLearner({"high": _learner(1), "low": _learner(2)})


@given(st.integers(0, 10_000), st.integers(0, 500), st.integers(1, 700))
def test_crossed_is_the_last_multiple_on_the_way(previous: int, stride: int, every: int) -> None:
    passed = [n for n in range(previous + 1, previous + stride + 1) if n % every == 0]
    assert crossed(previous, previous + stride, every) == (passed[-1] if passed else None)


def test_every_multiple_is_crossed_by_exactly_one_round() -> None:
    steps = range(0, 400_000, 1024)
    hits = [crossed(a, a + 1024, 160_000) for a in steps]
    assert [hit for hit in hits if hit is not None] == [160_000, 320_000]
    with pytest.raises(ValueError, match="every=0"):
        crossed(0, 1, 0)
