"""A block of third-party worlds in one process that read and write shared arrays.

The serial environment is one block over local arrays; each worker process is one block over its slice of shared
memory. Seeds, episode numbers and crash counts live in the arrays too, so that a new process can take over a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.envs.foreign.world import ForeignWorld, WorldView
from echelon.envs.random_streams import episode_seed
from echelon.envs.vector import EnvSpec
from echelon.runtime.arrays import Array

MAX_CRASHES = 3
ALIGN = 64  # bytes; a cache line

Layout = dict[str, tuple[tuple[int, ...], str]]


Note = tuple[int, dict[str, float]]
"""A world, and the metrics in the last infos of its episode."""


class EnvCrashedError(RuntimeError):
    """A world crashed MAX_CRASHES times in a row."""


class Crash(NamedTuple):
    """One crash that was survived."""

    world: int
    seed: int
    error: str
    in_a_row: int


def crash_message(factory: str, crash: Crash) -> str:
    return (
        f"{factory}: world {crash.world} crashed in the episode with seed {crash.seed} ({crash.error}); "
        f"restarted, its partial episode is dropped (crash {crash.in_a_row} of {MAX_CRASHES} in a row)"
    )


def layout(spec: EnvSpec, num_envs: int, masked: bool) -> Layout:
    """Name, shape and type of every array of a block."""
    n, seen = spec.num_agents, (num_envs, spec.num_agents, spec.obs_dim)
    arrays: Layout = {
        "actions": (spec.action_shape(num_envs), np.dtype(spec.action_dtype).str),
        "observation": (seen, "<f4"),
        "state": ((num_envs, spec.state_dim), "<f4"),
        "alive": ((num_envs, n), "|b1"),
        "final_observation": (seen, "<f4"),
        "final_state": ((num_envs, spec.state_dim), "<f4"),
        "final_alive": ((num_envs, n), "|b1"),
        "agent_reward": ((num_envs, n), "<f4"),
        "terminated": ((num_envs,), "|b1"),
        "truncated": ((num_envs,), "|b1"),
        "dropped": ((num_envs,), "|b1"),
        "world_seed": ((num_envs,), "<i8"),
        "episode": ((num_envs,), "<i8"),
        "crashes": ((num_envs,), "<i8"),
    }
    if masked:
        arrays["action_mask"] = ((num_envs, n, spec.actions.width), "|b1")
    return arrays


def size_of(arrays: Layout) -> int:
    return sum(_padded_size(shape, kind) for shape, kind in arrays.values())


def _padded_size(shape: tuple[int, ...], kind: str) -> int:
    return -(-math.prod(shape) * np.dtype(kind).itemsize // ALIGN) * ALIGN


def views_of(arrays: Layout, memory: Any) -> dict[str, Array]:
    """The arrays of a layout as views into one piece of memory."""
    views, at = {}, 0
    for name, (shape, kind) in arrays.items():
        views[name] = np.ndarray(shape, dtype=kind, buffer=memory, offset=at)
        at += _padded_size(shape, kind)
    return views


class WorldBlock:
    """Worlds `first` .. `first + count − 1`; `arrays` are already cut to these."""

    def __init__(self, factory: str, kwargs: Mapping[str, Any], first: int, count: int) -> None:
        self.factory, self.kwargs, self.first = factory, dict(kwargs), first
        self.worlds = [ForeignWorld(factory, kwargs) for _ in range(count)]
        self.spec, self.masked = self.worlds[0].spec, self.worlds[0].masked
        self.arrays: dict[str, Array] = {}
        self._notes: list[Note] = []

    def notes(self) -> list[Note]:
        """Metrics in the infos of episodes that ended since the last call, by world."""
        notes, self._notes = self._notes, []
        return notes

    def command(self, name: str, *arguments: Any) -> list[Crash]:
        """Do what an environment asks all of its blocks to do."""
        commands: dict[str, Callable[..., list[Crash]]] = {
            "reset": self.reset,
            "step": self.step,
            "replay": self.replay,
            "renew": self.renew,
        }
        return commands[name](*arguments)

    def reset(self) -> list[Crash]:
        """The next episode in every world."""
        return self.renew(np.ones(len(self.worlds), np.bool_))

    def step(self) -> list[Crash]:
        """One step of every world with the actions in the arrays; finished or crashed worlds start again."""
        a, crashes = self.arrays, list[Crash]()
        a["dropped"][:] = False
        for i, world in enumerate(self.worlds):
            try:
                result = world.step(a["actions"][i])
            except Exception as error:  # noqa: BLE001 (foreign code may raise anything; it is counted and reported)
                self._crashed(i, error, crashes)
                void_step(a, slice(i, i + 1))
                self._begin(i, crashes)
                continue
            self._write(i, result)
            a["final_observation"][i], a["final_state"][i] = result.observation, result.state
            a["final_alive"][i], a["agent_reward"][i] = result.final_alive, result.agent_reward
            a["terminated"][i], a["truncated"][i] = result.terminated, result.truncated
            if result.terminated or result.truncated:
                a["crashes"][i] = 0
                if result.metrics:
                    self._notes.append((self.first + i, dict(result.metrics)))
                self._begin(i, crashes)
        return crashes

    def replay(self, actions: Array, lengths: Array) -> list[Crash]:
        """Bring every world to where `lengths[i]` steps of its current episode led; the last rows are the latest.

        A world that crashes on the way begins a new episode.
        """
        crashes: list[Crash] = []
        for i, world in enumerate(self.worlds):
            try:
                view: WorldView = world.reset(self._seed(i))
                for joint in actions[len(actions) - int(lengths[i]) :, i]:
                    view = world.step(joint)
            except Exception as error:  # noqa: BLE001 (as in step)
                self._crashed(i, error, crashes)
                self._begin(i, crashes)
                continue
            self._write(i, view)
        return crashes

    def renew(self, worlds: Array) -> list[Crash]:
        """The next episode in these worlds, given as a mask."""
        crashes: list[Crash] = []
        for i in np.flatnonzero(worlds).tolist():
            self._begin(i, crashes)
        return crashes

    def render(self, world: int) -> NDArray[np.uint8]:
        return self.worlds[world].render()

    def close(self) -> None:
        for world in self.worlds:
            world.close()

    def _seed(self, i: int) -> int:
        return episode_seed(int(self.arrays["world_seed"][i]), int(self.arrays["episode"][i]))

    def _begin(self, i: int, crashes: list[Crash]) -> None:
        while True:
            self.arrays["episode"][i] += 1
            try:
                view = self.worlds[i].reset(self._seed(i))
            except Exception as error:  # noqa: BLE001 (as in step)
                self._crashed(i, error, crashes)
                continue
            self._write(i, view)
            return

    def _crashed(self, i: int, error: Exception, crashes: list[Crash]) -> None:
        """Count it; raise at the third in a row, else replace the environment by a new one."""
        self.arrays["crashes"][i] += 1
        crash = Crash(self.first + i, self._seed(i), f"{type(error).__name__}: {error}", int(self.arrays["crashes"][i]))
        crashes.append(crash)
        check_crashes(self.factory, crash)
        with suppress(Exception):  # what has just crashed may well fail to close
            self.worlds[i].close()
        self.worlds[i] = ForeignWorld(self.factory, self.kwargs)

    def _write(self, i: int, view: WorldView) -> None:
        a = self.arrays
        a["observation"][i], a["state"][i], a["alive"][i] = view.observation, view.state, view.alive
        if view.action_mask is not None:
            a["action_mask"][i] = view.action_mask


def check_crashes(factory: str, crash: Crash) -> None:
    if crash.in_a_row >= MAX_CRASHES:
        raise EnvCrashedError(
            f"{factory}: world {crash.world} crashed {MAX_CRASHES} times in a row, the last time in the episode with "
            f"seed {crash.seed}: {crash.error}. Repeat that episode with workers=0 to see where"
        )


def void_step(arrays: dict[str, Array], rows: slice) -> None:
    """Mark this step of these worlds as void: no reward, truncated at the last good observation."""
    arrays["final_observation"][rows] = arrays["observation"][rows]
    arrays["final_state"][rows] = arrays["state"][rows]
    arrays["final_alive"][rows] = arrays["alive"][rows]
    arrays["agent_reward"][rows] = 0.0
    arrays["terminated"][rows] = False
    arrays["truncated"][rows] = arrays["dropped"][rows] = True
