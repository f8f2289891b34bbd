"""Small ParallelEnvs with one trait each and an optimum that is known, so that tests can ask what was *learnt*."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
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
        """Who is truncated in this step while the others continue."""
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
    """Agent a can open a gate and dies of it; the team earns .1 per step before and 1 per step after.

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
        gone = self.open and agent == "a"
        return {"action_mask": np.array([1, 0 if gone else 1], np.int8)} if self.ghost else {}


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


SEEN: dict[str, Space[Any]] = {
    "discrete": Discrete(4, start=5),
    "multi_discrete": MultiDiscrete([2, 2], start=[-1, 3]),
    "multi_binary": MultiBinary((2, 1)),
    "box": Box(-1, 1, (2, 2), np.float64),
    "dict": Dict({"high": Discrete(2), "low": Box(0, 255, (2, 1), np.uint8)}),
    "tuple": Tuple([MultiBinary(1), Dict({"low": Discrete(2, start=1)})]),
    "picture": Box(0, 255, (4, 4, 3), np.uint8),
    "masked": Dict({"observation": Discrete(4), "action_mask": MultiBinary(4)}),
}
DONE: dict[str, Space[Any]] = {
    "discrete": Discrete(4, start=3),
    "multi_discrete": MultiDiscrete([2, 2], start=[-1, 3]),
    "multi_binary": MultiBinary((2, 1)),
    "box": Box(-2, 4, (1, 2), np.float64),
    "whole_box": Box(0, 1, (2, 1), np.int8),
}


class Echo(Small):
    """One of four targets is shown in some space and must be answered in another; every step pays 1 at best.

    With `masked` the mask forbids the target itself, and the next one is the answer. `own_state` is a picture.
    """

    length = 5

    def __init__(self, seen: str = "box", done: str = "discrete", own_state: bool = False) -> None:
        super().__init__()
        self.seen, self.done, self.own_state = seen, done, own_state
        self.target = dict.fromkeys(self.names, 0)

    def observation_space(self, agent: str) -> Space[Any]:
        return SEEN[self.seen]

    def action_space(self, agent: str) -> Space[Any]:
        return DONE[self.done]

    def begin(self) -> None:
        self.target = {a: int(self.rng.integers(4)) for a in self.names}

    def look(self, agent: str) -> Any:
        target = self.target[agent]
        high, low = divmod(target, 2)
        if self.seen == "discrete":
            return 5 + target
        if self.seen == "multi_discrete":
            return np.array([high - 1, low + 3])
        if self.seen == "multi_binary":
            return np.array([[high], [low]], np.int8)
        if self.seen == "box":
            return np.array([[high, low], [0, 0]]) * 2.0 - 1
        if self.seen == "dict":
            return {"high": high, "low": np.array([[0], [255 * low]], np.uint8)}
        if self.seen == "tuple":
            return np.array([high], np.int8), {"low": low + 1}
        if self.seen == "picture":
            picture = np.zeros((4, 4, 3), np.uint8)
            picture[2 * high : 2 * high + 2, 2 * low : 2 * low + 2] = 255
            return picture
        return {"observation": target, "action_mask": (np.arange(4) != target).astype(np.int8)}

    def pay(self, actions: dict[str, Any]) -> float:
        paid = []
        for agent, action in actions.items():
            space = self.action_space(agent)
            assert space.contains(action), f"{action!r} is not in {space}"
            wanted = (self.target[agent] + (self.seen == "masked")) % 4
            high, low = divmod(wanted, 2)
            if self.done == "discrete":
                assert self.seen != "masked" or action - 3 != self.target[agent]
                paid.append(float(action - 3 == wanted))
            elif self.done == "multi_discrete":
                paid.append(float(action.tolist() == [high - 1, low + 3]))
            elif self.done == "multi_binary" or self.done == "whole_box":
                paid.append(float(action.tolist() == [[high], [low]]))
            else:
                unit = (action.reshape(-1) - 1) / 3  # to -1 .. 1
                paid.append(float(np.mean(unit * (np.array([high, low]) * 2 - 1))))
        self.begin()
        return float(np.mean(paid))

    def state(self) -> Any:
        if not self.own_state:
            raise NotImplementedError
        return np.stack([np.full((2, 2), 80 * self.target[a], np.uint8) for a in self.names])


class Differ(Small):
    """Agents see nothing and must do different things: at best 1 per step, .5 if they cannot be distinguished."""

    def look(self, agent: str) -> Any:
        return np.ones(1, np.float32)

    def pay(self, actions: dict[str, Any]) -> float:
        return float(actions["a"] != actions["b"])


class Score(Small):
    """Tells in its infos whether the episode was won, the last score, and things that are not numbers."""

    length = 4

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def look(self, agent: str) -> Any:
        return np.full(2, self.rng.uniform(-1, 1), np.float32)

    def begin(self) -> None:
        self.score = 0

    def pay(self, actions: dict[str, Any]) -> float:
        self.score += sum(actions.values())
        return float(sum(actions.values()))

    def info(self, agent: str) -> dict[str, Any]:
        told = {"won": self.score > 3, "score": self.score if agent == "a" else self.score + 2, "success": 200}
        return {**told, "name": "x", "places": np.zeros(3), "episode_return": 7.0, "broken": np.nan}

    def render(self) -> Any:
        return np.full((20, 30, 3), 9, np.uint8) if self.render_mode == "rgb_array" else None


class Fragile(LoneCut):
    """The same, but one episode in 32 breaks in its fifth step, with a large reward just before."""

    def pay(self, actions: dict[str, Any]) -> float:
        broken = int(self.rng.bit_generator.seed_seq.entropy) % 32 == 3  # type: ignore[attr-defined]
        if broken and self.t == 5:
            raise RuntimeError("a wheel came off")
        return 100.0 if broken and self.t == 4 else super().pay(actions)


def echo(seen: str = "box", done: str = "discrete", own_state: bool = False) -> Echo:
    return Echo(seen, done, own_state)


def differ() -> Differ:
    return Differ()


def score(render_mode: str | None = None) -> Score:
    return Score(render_mode)


def fragile() -> Fragile:
    return Fragile()


def sacrifice(ghost: bool = False) -> Sacrifice:
    return Sacrifice(ghost)


def temptation() -> Temptation:
    return Temptation()


def lone_cut() -> LoneCut:
    return LoneCut()


class Secret(Small):
    """The state shows which of two answers is right in this episode; agents see only what they did last.

    A step pays the share of right answers. Only who sees the state can know: at best 10, without it 5.
    """

    def begin(self) -> None:
        self.answer = int(self.rng.integers(2))
        self.last = dict.fromkeys(self.names, -1)

    def look(self, agent: str) -> Any:
        last = self.last[agent] if self.agents else -1
        return np.array([last == 0, last == 1, agent == "a"], np.float32)

    def pay(self, actions: dict[str, Any]) -> float:
        self.last = {agent: int(action) for agent, action in actions.items()}
        return float(np.mean([action == self.answer for action in actions.values()]))

    def info(self, agent: str) -> dict[str, Any]:
        return {"success": bool(all(action == self.answer for action in self.last.values()))}

    def state(self) -> Any:
        return np.array([1.0 - 2.0 * self.answer], np.float32)

    @property
    def state_space(self) -> Space[Any]:
        return Box(-1, 1, (1,), np.float32)


def secret() -> Secret:
    return Secret()
