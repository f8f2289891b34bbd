"""A collector for the toys: one level that decides at every step of worlds whose agents all live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from echelon.onpolicy.batch import Arrays, Rollout, VersionError
from echelon.onpolicy.builder import RolloutBuilder
from echelon.onpolicy.ppo import part_of_state
from echelon.runtime.arrays import Array


@dataclass(frozen=True)
class Seen:
    """What agents see now, in B worlds."""

    observation: Array  # (B, n, F)
    state: Array  # (B, S)

    def named(self) -> dict[str, Array]:
        return {"observation": self.observation, "state": self.state}


@dataclass(frozen=True)
class Step:
    """What a joint step gave."""

    seen: Seen  # of the new episode where one ended
    final: Seen
    reward: Array  # (B,)
    terminated: Array  # (B,)
    truncated: Array  # (B,)


class Worlds(Protocol):
    num_envs: int

    def reset(self) -> Seen: ...

    def step(self, actions: Array, /) -> Step: ...

    def state_dict(self) -> dict[str, Array]: ...

    def load_state_dict(self, state: Mapping[str, Array], /) -> Seen: ...


@dataclass(frozen=True)
class Choice:
    """What an actor chose for B worlds."""

    action: Array  # what the worlds take
    stored: Arrays  # each (B, ...): what `evaluate` scores, by part
    log_prob: Array  # (B, U)
    value: Array  # (B, U) the critic's raw output
    state: Arrays = field(default_factory=dict)  # each (B, ...): recurrent states after the decision


class Actor(Protocol):
    def initial_state(self, columns: int) -> Arrays: ...

    def act(self, observation: Arrays, state: Arrays, generator: torch.Generator) -> Choice: ...

    def value(self, observation: Arrays, state: Arrays) -> Array: ...


class StepCollector:
    """One decision per step in every world; a unit is an agent. `version_of` says which version the actor holds."""

    def __init__(self, worlds: Worlds, actor: Actor, version_of: Callable[[], int], seed: int, chunk: int = 1) -> None:
        self.worlds, self.actor, self.version_of, self.chunk = worlds, actor, version_of, chunk
        self.generator = torch.Generator().manual_seed(seed)
        self._begin(worlds.reset())

    def _begin(self, seen: Seen) -> None:
        self._seen = seen
        self._memory = {name: array.copy() for name, array in self.actor.initial_state(self.worlds.num_envs).items()}
        self._reset = np.ones(self.worlds.num_envs, bool)

    def collect(self, version: int, steps: int) -> Rollout:
        if self.version_of() != version:
            raise VersionError(
                f"asked to collect with policy version {version}, but the actor holds {self.version_of()}"
            )
        slots, agents = steps // self.worlds.num_envs, self._seen.observation.shape[1]
        builder = RolloutBuilder(slots, self.worlds.num_envs, agents, self.chunk)
        with torch.no_grad():
            for _ in range(slots):
                self._step(builder)
            last_value = self.actor.value(self._seen.named(), self._memory)
        return {"agent": builder.take(last_value)}

    def _step(self, builder: RolloutBuilder) -> None:
        seen, before, version = self._seen.named(), self._memory, self.version_of()
        chosen = self.actor.act(seen, before, self.generator)
        now = self.worlds.step(chosen.action)
        ended, cut = now.terminated | now.truncated, now.truncated & ~now.terminated
        next_value = np.full(chosen.value.shape, np.nan, np.float32)
        if cut.any():
            final = {name: array[cut] for name, array in now.final.named().items()}
            next_value[cut] = self.actor.value(final, {name: array[cut] for name, array in chosen.state.items()})
        builder.store(
            version,
            seen,
            chosen.stored,
            chosen.log_prob,
            chosen.value,
            now.reward,
            now.terminated,
            ended,
            next_value,
            state=before,
            reset=self._reset,
        )
        self._seen, self._reset = now.seen, ended
        self._memory = {name: array.copy() for name, array in chosen.state.items()}
        for array in self._memory.values():
            array[ended] = 0.0

    def state_dict(self) -> dict[str, Tensor]:
        state = {f"worlds.{name}": torch.from_numpy(array) for name, array in self.worlds.state_dict().items()}
        state |= {f"memory.{name}": torch.from_numpy(array.copy()) for name, array in self._memory.items()}
        return state | {"reset": torch.from_numpy(self._reset.copy()), "generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._begin(
            self.worlds.load_state_dict({name: t.numpy() for name, t in part_of_state(state, "worlds.").items()})
        )
        self._memory = {name: t.numpy().copy() for name, t in part_of_state(state, "memory.").items()}
        self._reset = state["reset"].numpy().copy()
        self.generator.set_state(state["generator"])
