"""Small ParallelEnvs with one trait each and an optimum that is known, so that tests can ask what was *learnt*."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from pettingzoo import ParallelEnv

Result = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class Small(ParallelEnv):  # type: ignore[misc]
    """Two agents for `length` steps, then all are truncated. A subclass says what is seen, paid, and who leaves."""

    length = 10
    names: tuple[str, ...] = ("a", "b")

    def __init__(self) -> None:
        self.metadata = {"name": type(self).__name__.lower()}
        self.possible_agents = list(self.names)
        self.agents: list[str] = []
        self.rng = np.random.default_rng(0)

    def observation_space(self, agent: str) -> Space[Any]:
        return Box(-1, 1, (len(self.look(agent)),), np.float32)

    def action_space(self, agent: str) -> Space[Any]:
        return Discrete(2)

    def begin(self) -> None:
        """Draw an episode."""

    def look(self, agent: str) -> Any:
        """What one agent sees; must work before the first reset."""
        raise NotImplementedError

    def pay(self, actions: dict[str, Any]) -> float:
        """The reward, shared by all."""
        raise NotImplementedError

    def dies(self, actions: dict[str, Any]) -> set[str]:
        """Who dies in this step."""
        return set()

    def leaves(self) -> set[str]:
        """Who is cut in this step while the others go on."""
        return set()

    def info(self, agent: str) -> dict[str, Any]:
        return {}

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.rng = np.random.default_rng(seed)
        self.t, self.agents = 0, list(self.possible_agents)
        self.begin()
        return {a: self.look(a) for a in self.agents}, {a: self.info(a) for a in self.agents}

    def step(self, actions: dict[str, Any]) -> Result:
        acted = list(self.agents)
        assert set(actions) == set(acted), f"{sorted(actions)} acted, {acted} live"
        self.t += 1
        reward = self.pay(actions)
        dead, over = self.dies(actions), self.t >= self.length
        cut = set(acted) if over else self.leaves()
        self.agents = [a for a in acted if a not in dead | cut]
        seen = {a: self.look(a) for a in acted}
        terminated, truncated = {a: a in dead for a in acted}, {a: a in cut - dead for a in acted}
        return seen, dict.fromkeys(acted, reward), terminated, truncated, {a: self.info(a) for a in acted}


class Sacrifice(Small):
    """Agent a can open a gate and dies of it; the team earns .1 a step before and 1 a step after.

    At best 9.1 + the last step's 1 in ten steps (it dies in the first): 10. Who lives for himself earns 1 in all.
    With `ghost` a stays, and can do nothing more.
    """

    def __init__(self, ghost: bool = False) -> None:
        super().__init__()
        self.ghost, self.open = ghost, False

    def begin(self) -> None:
        self.open = False

    def look(self, agent: str) -> Any:
        return np.array([agent == "a", self.open], np.float32)

    def pay(self, actions: dict[str, Any]) -> float:
        self.opens = not self.open and actions.get("a") == 1
        reward = 1.0 if self.open or self.opens else 0.1
        self.open = self.open or self.opens
        return reward

    def dies(self, actions: dict[str, Any]) -> set[str]:
        return {"a"} if self.opens and not self.ghost else set()

    def info(self, agent: str) -> dict[str, Any]:
        return {"action_mask": np.array([1, 0], np.int8)} if self.ghost and self.open and agent == "a" else {}


class Temptation(Small):
    """Nothing is ever paid. An agent walks on a line of five places, and dies if it stands still."""

    length = 20

    def begin(self) -> None:
        self.place = dict.fromkeys(self.possible_agents, 2)

    def look(self, agent: str) -> Any:
        place = self.place[agent] if self.agents else 0
        return np.eye(5, dtype=np.float32)[place]

    def action_space(self, agent: str) -> Space[Any]:
        return Discrete(3)

    def pay(self, actions: dict[str, Any]) -> float:
        for agent, action in actions.items():
            self.place[agent] = min(max(self.place[agent] + int(action) - 1, 0), 4)
        return 0.0

    def dies(self, actions: dict[str, Any]) -> set[str]:
        return {a for a, action in actions.items() if action == 1}


class LoneCut(Small):
    """Agent b is cut after three of ten steps; whether it ever took action 1 decides what a's steps pay after that.

    At best 7 (1 in each step after b has left), and nothing comes while b is there: only the bootstrapped value of the
    state that b left can tell it what was good.
    """

    def begin(self) -> None:
        self.pressed = False

    def look(self, agent: str) -> Any:
        pressed = bool(self.agents) and self.pressed
        return np.array([agent == "a", pressed], np.float32)

    def pay(self, actions: dict[str, Any]) -> float:
        self.pressed = self.pressed or actions.get("b") == 1
        return float(self.t > 3 and self.pressed)

    def action_space(self, agent: str) -> Space[Any]:
        return Discrete(6)

    def leaves(self) -> set[str]:
        return {"b"} if self.t == 3 else set()


def sacrifice(ghost: bool = False) -> Sacrifice:
    return Sacrifice(ghost)


def temptation() -> Temptation:
    return Temptation()


def lone_cut() -> LoneCut:
    return LoneCut()
