"""The training loop: collect, update, hand over. Logging, evaluation and checkpoints are the body of the caller's
`for`.

    loop = TrainingLoop(collector, learner, total_steps=4_000_000, round_steps=1024)
    for done in loop:
        log(done.stats)
        if (multiple := done.crossed(160_000)) is not None:
            save(f"checkpoint_{multiple}", loop.state_dict())

The body runs between rounds, when nothing is half done: a state saved there and loaded into a new loop continues bit
for bit as if the run had never stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from echelon.onpolicy.batch import Rollout, VersionError, check_version
from echelon.onpolicy.ppo import PPOLearner, PPOStats, part_of_state

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Collector(Protocol):
    """Makes rounds of experience. A system with several clocks writes its own over `RolloutBuilder`."""

    def collect(self, version: int, steps: int) -> Rollout:
        """A round of `steps` joint environment steps, all decided by `version`; a VersionError if it holds another."""

    def state_dict(self) -> dict[str, Tensor]:
        """Worlds, recurrent states and random streams: what the next round depends on besides the policy."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state, bit for bit."""


class Learner(Protocol[S_co]):
    """Learns from one round of its own version and is then one version further."""

    @property
    def version(self) -> int:
        """The policy that must make the next round."""

    def update(self, rollout: Rollout, /) -> S_co:
        """Learn from all levels of a round."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that changes."""

    def load_state_dict(self, state: Mapping[str, Tensor], /) -> None:
        """Continue from a saved state."""


class LevelLearner:
    """One PPO learner for each level, updated in the order of the names, all of one version."""

    def __init__(self, levels: Mapping[str, PPOLearner]) -> None:
        self.levels = dict(levels)
        self.frozen: frozenset[str] = frozenset()
        """levels that learn nothing for now: their policy stays, their version moves with the others'"""
        if not self.levels:
            raise ValueError("a learner needs at least one level")
        _ = self.version

    @property
    def version(self) -> int:
        """The one version of all levels."""
        versions = {level: learner.version for level, learner in self.levels.items()}
        if len(set(versions.values())) != 1:
            raise VersionError(f"all levels must have one version, not {versions}; load them from one checkpoint")
        return next(iter(versions.values()))

    def update(self, rollout: Rollout, /) -> dict[str, PPOStats]:
        """Update every level that is not frozen; refused before anything changes if a level is missing, unknown or of
        another version."""
        if rollout.keys() != self.levels.keys():
            raise ValueError(f"the rollout has the levels {sorted(rollout)}, the learner {sorted(self.levels)}")
        if unknown := sorted(self.frozen - self.levels.keys()):
            raise ValueError(f"frozen names {unknown}, the learner has the levels {sorted(self.levels)}")
        check_version(rollout, self.version)
        learning = {level: learner for level, learner in self.levels.items() if level not in self.frozen}
        for level in self.frozen:
            self.levels[level].skip(rollout[level])
        return {level: learner.update(rollout[level]) for level, learner in learning.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """States of all levels under their names."""
        return {f"{level}.{k}": v for level, learner in self.levels.items() for k, v in learner.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Tensor], /) -> None:
        """Continue all levels."""
        for level, learner in self.levels.items():
            learner.load_state_dict(part_of_state(state, f"{level}."))
        _ = self.version


def crossed(previous: int, now: int, every: int) -> int | None:
    """The greatest multiple of `every` in (previous, now], or None.

    Rounds move in strides, so a step count need never equal a multiple; crossing one is what can be asked.
    """
    if every < 1:
        raise ValueError(f"every={every} must be at least 1")
    multiple = now // every * every
    return multiple if multiple > previous else None


@dataclass(frozen=True)
class Round(Generic[S]):
    """One finished round."""

    index: int
    """Rounds finished before this one, over all runs."""
    version: int
    """The policy that collected it; the policy is now one further."""
    steps: int
    """Joint environment steps of this round."""
    env_steps: int
    """Joint environment steps so far, this round included."""
    rollout: Rollout
    stats: S
    collect_seconds: float
    update_seconds: float

    def crossed(self, every: int) -> int | None:
        """The greatest multiple of `every` environment steps that this round crossed, or None."""
        return crossed(self.env_steps - self.steps, self.env_steps, every)


class TrainingLoop(Generic[S]):
    """Rounds until `total_steps`; iterate over it, once or in several goes.

    `round_steps` is the size of a round, or a function of the steps so far (a batch that follows progress).
    """

    def __init__(
        self,
        collector: Collector,
        learner: Learner[S],
        total_steps: int,
        round_steps: int | Callable[[int], int],
    ) -> None:
        if total_steps < 0:
            raise ValueError(f"total_steps={total_steps} must not be negative")
        self.collector, self.learner, self.total_steps = collector, learner, total_steps
        self._round_steps = round_steps
        self.rounds, self.env_steps = 0, 0

    def __iter__(self) -> Iterator[Round[S]]:
        """Collect, update, yield; picks up where an earlier iteration or a loaded state left off."""
        while self.env_steps < self.total_steps:
            yield self._round()

    def _round(self) -> Round[S]:
        version = self.learner.version
        steps = self._round_steps if isinstance(self._round_steps, int) else self._round_steps(self.env_steps)
        if steps < 1:
            raise ValueError(f"a round of {steps} steps would never end the loop; use at least 1")
        began = time.perf_counter()
        rollout = check_version(self.collector.collect(version, steps), version, "the collected rollout")
        collected = time.perf_counter()
        stats = self.learner.update(rollout)
        updated = time.perf_counter()
        if self.learner.version != version + 1:
            raise VersionError(f"after one update the version must be {version + 1}, not {self.learner.version}")
        self.rounds, self.env_steps = self.rounds + 1, self.env_steps + steps
        return Round(
            index=self.rounds - 1,
            version=version,
            steps=steps,
            env_steps=self.env_steps,
            rollout=rollout,
            stats=stats,
            collect_seconds=collected - began,
            update_seconds=updated - collected,
        )

    def state_dict(self) -> dict[str, Tensor]:
        """The whole run: counters, learner, collector. Flat; tensors only."""
        state = {"loop.rounds": torch.tensor(self.rounds), "loop.env_steps": torch.tensor(self.env_steps)}
        state |= {f"learner.{name}": tensor for name, tensor in self.learner.state_dict().items()}
        return state | {f"collector.{name}": tensor for name, tensor in self.collector.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state, bit for bit."""
        self.learner.load_state_dict(part_of_state(state, "learner."))
        self.collector.load_state_dict(part_of_state(state, "collector."))
        self.rounds, self.env_steps = int(state["loop.rounds"]), int(state["loop.env_steps"])
