"""Any third-party PettingZoo `ParallelEnv` as arrays of one fixed shape.

Spaces may differ between agents: observations are padded with zeros, discrete actions masked, continuous ones padded.
Agents may die or appear: `alive` says who acts. The global state is the environment's own `state()` if it has one of
bearable size, else all observations side by side.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Space
from gymnasium.spaces.utils import flatdim, flatten
from numpy.typing import NDArray

from echelon.envs.vector import Array, Bool, BoxActions, DiscreteActions, EnvSpec, Float32

MAX_WIDTH = 16_384  # numbers in one observation or state: a small picture; more needs a convolution, not this engine


class EnvSetupError(ValueError):
    """An environment that cannot be made or cannot be put behind the protocol."""


def load_factory(path: str) -> Any:
    """The callable that `package.module:factory` names."""
    module, _, name = path.partition(":")
    try:
        return importlib.import_module(module).__dict__[name]
    except ImportError as error:
        raise EnvSetupError(f"{path}: cannot import {module} ({error}); install it or correct the name") from error
    except KeyError:
        raise EnvSetupError(f"{path}: {module} has no {name}; ParallelEnv factories are often `parallel_env`") from None


@dataclass(frozen=True)
class WorldView:
    """One world as its arrays see it."""

    observation: Float32  # (n, obs_dim)
    state: Float32  # (state_dim,)
    alive: Bool  # (n,)
    action_mask: Bool | None  # (n, width)


@dataclass(frozen=True)
class WorldStep(WorldView):
    """What one step of one world gave."""

    final_alive: Bool  # (n,): not terminated
    agent_reward: Float32  # (n,)
    terminated: bool
    truncated: bool


class ForeignWorld:
    """One third-party environment. Exceptions from it pass through."""

    def __init__(self, factory: str, kwargs: Mapping[str, Any]) -> None:
        make = load_factory(factory)
        try:
            self.env = make(**kwargs)
            observations, infos = self.env.reset(seed=0)
        except Exception as error:  # foreign code may raise anything; it is told with its cause
            raise EnvSetupError(f"{factory}(**{dict(kwargs)}) failed: {type(error).__name__}: {error}") from error
        self.factory = factory
        try:
            ids = list(self.env.possible_agents)
        except AttributeError:
            raise EnvSetupError(f"{factory}: no possible_agents; is it a PettingZoo ParallelEnv factory?") from None
        self.agents = tuple(str(a) for a in ids)
        self._index = {a: i for i, a in enumerate(ids)}
        self._views = [_view_of(factory, str(a), self.env.observation_space(a)) for a in ids]
        self._action_spaces = [self.env.action_space(a) for a in ids]
        self.obs_dims = tuple(flatdim(space) for space, _ in self._views)
        self.actions = _actions_of(factory, self.agents, self._action_spaces)
        self._masked = any(masked for _, masked in self._views)
        self._masked = self._masked or any("action_mask" in infos.get(a, {}) for a in ids)
        if isinstance(self.actions, DiscreteActions):
            self._masked = self._masked or len(set(self.actions.counts)) > 1
        self._own_state = self._has_state()
        state = self._state(self._observation(observations))
        self.spec = EnvSpec(factory, self.agents, self.obs_dims, state.size, self.actions)

    @property
    def masked(self) -> bool:
        """Whether some actions are ever forbidden, so that a mask is needed."""
        return self._masked and isinstance(self.actions, DiscreteActions)

    def reset(self, seed: int) -> WorldView:
        observations, infos = self.env.reset(seed=seed)
        return self._look(observations, infos)

    def step(self, actions: Array) -> WorldStep:
        """One joint step; rows of agents that are not alive are ignored."""
        chosen = {a: self._action(self._index[a], actions[self._index[a]]) for a in self.env.agents}
        observations, rewards, terminations, truncations, infos = self.env.step(chosen)
        view = self._look(observations, infos)
        agent_reward = np.zeros(len(self.agents), dtype=np.float32)
        for agent, reward in rewards.items():
            agent_reward[self._index[agent]] = reward
        dead, cut = self._flags(terminations), self._flags(truncations)
        acted = self._flags(dict.fromkeys(chosen, True))
        alive = view.alive & ~dead & ~cut
        ended = not alive.any()  # nobody is left who goes on
        truncated = ended and bool((acted & cut & ~dead).any())
        return WorldStep(
            observation=view.observation,
            state=view.state,
            alive=alive,
            action_mask=view.action_mask,
            final_alive=(acted | view.alive) & ~dead,
            agent_reward=agent_reward,
            terminated=ended and not truncated,
            truncated=truncated,
        )

    def _flags(self, by_agent: Mapping[Any, Any]) -> Bool:
        flags = np.zeros(len(self.agents), dtype=np.bool_)
        for agent, flag in by_agent.items():
            flags[self._index[agent]] = bool(flag)
        return flags

    def _action(self, agent: int, action: Array) -> Any:
        space = self._action_spaces[agent]
        if isinstance(space, Discrete):
            return int(action) + int(space.start)
        return action[: self._action_width(agent)].reshape(space.shape).astype(space.dtype)

    def _action_width(self, agent: int) -> int:
        return self.actions.dims[agent] if isinstance(self.actions, BoxActions) else 1

    def _look(self, observations: Mapping[Any, Any], infos: Mapping[Any, Any]) -> WorldView:
        observation = self._observation(observations)
        alive = self._flags(dict.fromkeys(self.env.agents, True))
        return WorldView(observation, self._state(observation), alive, self._mask(observations, infos))

    def _observation(self, observations: Mapping[Any, Any]) -> Float32:
        out = np.zeros((len(self.agents), max(self.obs_dims)), dtype=np.float32)
        for agent, seen in observations.items():
            i = self._index[agent]
            space, masked = self._views[i]
            numbers = np.asarray(flatten(space, seen["observation"] if masked else seen))
            if numbers.size != self.obs_dims[i]:
                raise ValueError(f"{self.factory}: {agent} saw {numbers.size} numbers, not {self.obs_dims[i]}")
            out[i, : numbers.size] = numbers
            if isinstance(space, Box) and space.dtype == np.uint8:
                out[i] /= 255.0  # pictures, to [0, 1]
        return out

    def _mask(self, observations: Mapping[Any, Any], infos: Mapping[Any, Any]) -> Bool | None:
        if not self.masked or not isinstance(self.actions, DiscreteActions):
            return None
        mask = self.actions.mask.copy()
        for agent, seen in observations.items():
            i = self._index[agent]
            own = seen["action_mask"] if self._views[i][1] else infos.get(agent, {}).get("action_mask")
            if own is not None:
                mask[i, : self.actions.counts[i]] = np.asarray(own, dtype=np.bool_)
        mask[~mask.any(axis=1), 0] = True  # a row with nothing allowed (an agent that is gone) would break a softmax
        return mask

    def _has_state(self) -> bool:
        try:
            state = np.asarray(self.env.state())
        except (NotImplementedError, AttributeError):
            return False
        return 0 < state.size <= MAX_WIDTH and state.dtype.kind in "fiub"

    def _state(self, observation: Float32) -> Float32:
        if self._own_state:
            return np.asarray(self.env.state(), dtype=np.float32).reshape(-1)
        parts = [observation[i, :width] for i, width in enumerate(self.obs_dims)]
        return np.concatenate(parts)  # without the padding

    def render(self) -> NDArray[np.uint8]:
        frame = self.env.render()
        if not isinstance(frame, np.ndarray):
            raise ValueError(f"{self.factory}: render() gave no picture; make it with render_mode='rgb_array'")
        return frame

    def close(self) -> None:
        self.env.close()


def _view_of(factory: str, agent: str, space: Space[Any]) -> tuple[Space[Any], bool]:
    """The space to flatten, and whether it comes in a dict beside an action mask."""
    masked = isinstance(space, Dict) and set(space.spaces) == {"observation", "action_mask"}
    inner: Space[Any] = space["observation"] if isinstance(space, Dict) and masked else space
    try:
        width = flatdim(inner)
    except (NotImplementedError, ValueError):
        raise EnvSetupError(f"{factory}: {agent} sees {inner}, which has no fixed width; wrap it into a Box") from None
    if not 0 < width <= MAX_WIDTH:
        raise EnvSetupError(
            f"{factory}: {agent} sees {inner.shape or inner} = {width} numbers; at most {MAX_WIDTH} are taken. "
            "Ask the environment for vectors, or wrap it to make its pictures smaller"
        )
    return inner, masked


def _actions_of(factory: str, agents: tuple[str, ...], spaces: list[Any]) -> DiscreteActions | BoxActions:
    if all(isinstance(s, Discrete) for s in spaces):
        return DiscreteActions(tuple(int(s.n) for s in spaces))
    if all(isinstance(s, Box) for s in spaces):
        try:
            return BoxActions(_bounds(s.low for s in spaces), _bounds(s.high for s in spaces))
        except ValueError as error:
            raise EnvSetupError(f"{factory}: {error}") from None
    kinds = ", ".join(f"{a}: {s}" for a, s in zip(agents, spaces, strict=True))
    raise EnvSetupError(f"{factory}: actions must be Discrete for all agents or Box for all; they are {kinds}")


def _bounds(arrays: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(x) for x in np.ravel(a)) for a in arrays)
