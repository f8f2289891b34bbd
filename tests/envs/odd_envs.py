"""Small ParallelEnvs with one odd trait each, for the tests of the adapter; made by name, also in workers."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Sequence, Space, Text
from mpe2 import simple_spread_v3
from pettingzoo import ParallelEnv
from pettingzoo.classic import tictactoe_v3


class Counter(ParallelEnv):  # type: ignore[misc]
    """Agents see (seed, step, sum of all actions so far); reward is the action; truncated after `length` steps.

    In episodes whose seed is in `bad_seeds` (or in all, if it is None) step `bad_step` does `trouble`.
    """

    def __init__(
        self,
        length: int = 6,
        trouble: str = "",
        bad_seeds: list[int] | None = None,
        bad_step: int = 3,
        slow: float = 0.0,
    ) -> None:
        self.slow = slow
        self.metadata: dict[str, Any] = {"name": "counter"}
        self.possible_agents = ["a", "b"]
        self.agents: list[str] = []
        self.length, self.trouble, self.bad_seeds, self.bad_step = length, trouble, bad_seeds, bad_step
        self._seen = {a: Box(-np.inf, np.inf, (3,), np.float32) for a in self.possible_agents}
        self._acts = {a: Discrete(3) for a in self.possible_agents}

    def observation_space(self, agent: str) -> Space[Any]:
        return self._seen[agent]

    def action_space(self, agent: str) -> Space[Any]:
        return self._acts[agent]

    def _look(self) -> dict[str, Any]:
        noise = os.urandom(1)[0] if self.trouble == "noise" else 0
        return {a: np.array([self.seed, self.t, self.total + noise], dtype=np.float32) for a in self.agents}

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.seed, self.t, self.total = seed, 0, 0
        self.agents = list(self.possible_agents)
        if self.trouble == "bad reset" and self._bad():
            raise RuntimeError("reset went wrong")
        return self._look(), {a: {} for a in self.agents}

    def _bad(self) -> bool:
        return self.seed != 0 and (self.bad_seeds is None or self.seed in self.bad_seeds)

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        self.t += 1
        time.sleep(self.slow)
        if self._bad() and self.t == self.bad_step:
            if self.trouble == "raise":
                raise ZeroDivisionError("rotor fell off")
            if self.trouble == "exit":
                os._exit(7)
            if self.trouble == "hang":
                time.sleep(3600)
        self.total += sum(actions.values())
        seen, acted, over = self._look(), self.agents, self.t >= self.length
        self.agents = [] if over else self.agents
        rewards = {a: float(actions[a]) for a in acted}
        return seen, rewards, dict.fromkeys(acted, False), dict.fromkeys(acted, over), {a: {} for a in acted}


class Mortal(Counter):
    """Agent b dies in step 2; c is born in step 3; the rest terminate in step 5. Agents are numbered, not named."""

    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = [0, 1, 2]  # type: ignore[list-item]
        self._seen = {a: Box(-1, 1, (2,), np.float32) for a in self.possible_agents}
        self._acts = {a: Discrete(2, start=10) for a in self.possible_agents}
        self.given: list[dict[Any, int]] = []

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.t, self.agents = 0, [0, 1]  # type: ignore[list-item]
        return {a: np.ones(2, np.float32) for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        self.t += 1
        self.given.append(dict(actions))
        acted: list[Any] = list(self.agents)
        dead = {a: (self.t == 2 and a == 1) or self.t == 5 for a in acted}
        born: list[Any] = [2] if self.t == 3 else []
        self.agents = [a for a in acted if not dead[a]] + born
        seen = {a: np.full(2, 0.5, np.float32) for a in acted + born}
        return seen, dict.fromkeys(acted, 2.0), dead, dict.fromkeys(acted, False), {a: {} for a in acted + born}


class Shaped(Counter):
    """Any spaces one likes; observations are samples of them, all zeros where that is possible."""

    def __init__(self, seen: dict[str, Space[Any]], acts: dict[str, Space[Any]]) -> None:
        super().__init__()
        self.possible_agents, self._seen, self._acts = list(seen), seen, acts  # type: ignore[assignment]
        self.given: dict[str, Any] = {}

    def _look(self) -> dict[str, Any]:
        return {a: self._seen[a].sample() for a in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        self.given = actions
        return super().step(dict.fromkeys(actions, 0))


class LateMask(Counter):
    """An action mask from the first step on, none at reset."""

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        *others, infos = super().step(actions)
        return *others, {a: {"action_mask": np.ones(3)} for a in infos}


def late_mask() -> LateMask:
    return LateMask()


def counter(**kwargs: Any) -> Counter:
    return Counter(**kwargs)


def crowd(told: Any = None) -> Counter:
    """Says that the last two of its three numbers are entities, or what it is given to say."""
    env = Counter()
    others = {"name": "others", "start": 1, "count": 2, "width": 1}
    env.metadata = {"name": "crowd", "entity_sets": {"observation": [others]} if told is None else told}
    return env


def mortal() -> Mortal:
    return Mortal()


def masked() -> Shaped:
    mask = Box(0, 1, (3,), np.int8)
    seen = Dict({"observation": Box(5, 6, (2, 2), np.float32), "action_mask": mask})
    return Shaped({"a": seen}, {"a": Discrete(3)})


def picture(side: int = 4) -> Shaped:
    return Shaped({"a": Box(0, 255, (side, side, 3), np.uint8)}, {"a": Discrete(2)})


def two_boxes() -> Shaped:
    box = Box(0, 1, (2,), np.float32)
    return Shaped({"a": box, "b": box}, {"a": Box(-2, 4, (2, 2), np.float64), "b": Box(0, 1, (1,), np.float32)})


def nested() -> Shaped:
    seen = Dict({"where": Box(0, 1, (2,), np.float32), "what": Discrete(3)})
    return Shaped({"a": seen}, {"a": Discrete(2)})


def endless() -> Shaped:
    return Shaped({"a": Sequence(Discrete(3))}, {"a": Discrete(2)})


def mixed() -> Shaped:
    box = Box(0, 1, (2,), np.float32)
    return Shaped({"a": box, "b": box}, {"a": Discrete(2), "b": Box(0, 1, (1,), np.float32)})


def unbounded() -> Shaped:
    return Shaped({"a": Box(0, 1, (2,), np.float32)}, {"a": Box(-np.inf, np.inf, (1,), np.float32)})


def many_choices() -> Shaped:
    return Shaped({"a": Box(0, 1, (2,), np.float32)}, {"a": MultiDiscrete([9] * 4)})


def spoken() -> Shaped:
    return Shaped({"a": Box(0, 1, (2,), np.float32)}, {"a": Text(4)})


def in_turns() -> Any:
    return tictactoe_v3.env()


def one_after_the_other() -> Any:
    return simple_spread_v3.env(max_cycles=5)


def not_an_env() -> int:
    return 3
