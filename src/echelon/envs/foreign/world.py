"""Any third-party PettingZoo `ParallelEnv` as arrays of one fixed shape.

Spaces may differ between agents: observations are padded with zeros, discrete actions masked, continuous ones padded.
Agents may die or appear: `alive` says who acts. The global state is the environment's own `state()` if it has one of
bearable size, else all observations side by side.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from numpy.typing import NDArray
from pettingzoo import AECEnv
from pettingzoo.utils.conversions import aec_to_parallel

from echelon.envs.entities import Sets, declared_sets, joined_sets
from echelon.envs.spaces import ActionForm, Form
from echelon.envs.vector import BoxActions, DiscreteActions, EnvSpec
from echelon.runtime.arrays import Array, Bools, Float32

MAX_WIDTH = 16_384  # numbers in one observation or state: a small picture; more needs a convolution, not this engine
MAX_CHOICES = 4096  # combinations of a MultiDiscrete or MultiBinary action, each an output of the policy


OWN_INFO = ("episode_return", "episode_length")  # which every environment of the protocol counts itself


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


def metrics_of(infos: Mapping[Any, Any]) -> dict[str, float]:
    """Every single finite number (or truth) in the infos, by name: the mean over the agents that report it."""
    told: dict[str, list[float]] = {}
    for info in infos.values():
        for name, value in info.items():
            if isinstance(value, bool | int | float | np.bool_ | np.number) and math.isfinite(value):
                told.setdefault(str(name), []).append(float(value))
    return {name: sum(values) / len(values) for name, values in told.items() if name not in OWN_INFO}


def in_parallel(factory: str, env: Any) -> Any:
    """The environment itself, or an AEC one (agents act in turns) as a ParallelEnv where it allows that."""
    if not isinstance(env, AECEnv):
        return env
    if not env.metadata.get("is_parallelizable", False):
        raise EnvSetupError(
            f"{factory} makes an AEC environment whose agents act in turns and cannot act at once; use a ParallelEnv"
        )
    return aec_to_parallel(env)


@dataclass(frozen=True)
class WorldView:
    """One world as its arrays see it."""

    observation: Float32  # (n, obs_dim)
    state: Float32  # (state_dim,)
    alive: Bools  # (n,)
    action_mask: Bools | None  # (n, width)


@dataclass(frozen=True)
class WorldStep(WorldView):
    """What one step of one world gave."""

    final_alive: Bools  # (n,): not terminated
    agent_reward: Float32  # (n,)
    terminated: bool
    truncated: bool
    metrics: Mapping[str, float]  # single numbers of the agents' infos, where the episode ended

    @classmethod
    def of(
        cls, view: WorldView, acted: Bools, dead: Bools, cut: Bools, agent_reward: Float32, infos: Mapping[Any, Any]
    ) -> Self:
        """What a step led to (`view`, with all agents that are there), by who acted in it, and who ended in it."""
        alive = view.alive & ~dead & ~cut
        ended = not alive.any()  # no agent continues
        truncated = ended and bool((acted & cut & ~dead).any())
        return cls(
            observation=view.observation,
            state=view.state,
            alive=alive,
            action_mask=view.action_mask,
            final_alive=(acted | view.alive) & ~dead,
            agent_reward=agent_reward,
            terminated=ended and not truncated,
            truncated=truncated,
            metrics=metrics_of(infos) if ended else {},
        )


class ForeignWorld:
    """One third-party environment. Exceptions from it pass through."""

    def __init__(self, factory: str, kwargs: Mapping[str, Any], make: Callable[..., Any] | None = None) -> None:
        make = make or load_factory(factory)
        try:
            self.env = in_parallel(factory, make(**kwargs))
            observations, infos = self.env.reset(seed=0)
        except EnvSetupError:
            raise
        except Exception as error:  # foreign code may raise anything; it is reported with its cause
            raise EnvSetupError(f"{factory}(**{dict(kwargs)}) failed: {type(error).__name__}: {error}") from error
        self.factory = factory
        try:
            ids = list(self.env.possible_agents)
        except AttributeError:
            raise EnvSetupError(f"{factory}: no possible_agents; is it a PettingZoo ParallelEnv factory?") from None
        agents = tuple(str(a) for a in ids)
        self._name = dict(zip(ids, agents, strict=True))
        self._index = {a: i for i, a in enumerate(ids)}
        sees = tuple(_form_of(factory, name, self.env.observation_space(a)) for a, name in self._name.items())
        does = tuple(_action_form_of(factory, name, self.env.action_space(a)) for a, name in self._name.items())
        actions = _actions_of(factory, agents, does, [self.env.action_space(a) for a in ids])
        self._masked = any(form.kind == "masked" for form in sees)
        self._masked = self._masked or any("action_mask" in infos.get(a, {}) for a in ids)
        if isinstance(actions, DiscreteActions):
            self._masked = self._masked or len(set(actions.counts)) > 1
        self._state_form = self._find_state()
        widths = tuple(form.width for form in sees)
        observation_sets, state_sets = self._entity_sets(agents, widths)
        self.spec = EnvSpec(
            name=factory,
            agents=agents,
            obs_dims=widths,
            state_dim=sum(widths) if self._state_form is None else self._state_form.width,
            actions=actions,
            sees=sees,
            does=does,
            state_form=self._state_form,
            state_joined=self._state_form is None,
            observation_sets=observation_sets,
            state_sets=state_sets,
        )
        self._look(observations, infos)  # raises now if something does not fit its space

    def _entity_sets(self, agents: tuple[str, ...], widths: tuple[int, ...]) -> tuple[Sets, Sets]:
        """What the environment's metadata declares; of a joined state what follows from the observations."""
        try:
            observation, state = declared_sets(self.env.metadata)
        except AttributeError:
            return (), ()
        except (ValueError, TypeError) as error:
            raise EnvSetupError(f"{self.factory}: {error}") from None
        if state and self._state_form is None:
            raise EnvSetupError(f"{self.factory}: sets of entities of a state, but there is no state(); leave them out")
        return observation, state if self._state_form is not None else joined_sets(observation, agents, widths)

    @property
    def masked(self) -> bool:
        """Whether some actions are ever forbidden, so that a mask is needed."""
        return self._masked and isinstance(self.spec.actions, DiscreteActions)

    def reset(self, seed: int) -> WorldView:
        observations, infos = self.env.reset(seed=seed)
        return self._look(observations, infos)

    def step(self, actions: Array) -> WorldStep:
        """One joint step; rows of agents that are not alive are ignored."""
        chosen = {a: self.spec.does[self._index[a]].to_env(actions[self._index[a]]) for a in self.env.agents}
        observations, rewards, terminations, truncations, infos = self.env.step(chosen)
        acted, dead, cut = (
            self.spec.row(flags, np.bool_) for flags in (dict.fromkeys(chosen, True), terminations, truncations)
        )
        agent_reward = self.spec.row(rewards, np.float32)
        return WorldStep.of(self._look(observations, infos), acted, dead, cut, agent_reward, infos)

    def _look(self, observations: Mapping[Any, Any], infos: Mapping[Any, Any]) -> WorldView:
        seen = {self._name[agent]: value for agent, value in observations.items()}
        observation = self.spec.joint_observation(seen)
        state = None if self.spec.state_joined else self.env.state()
        alive = self.spec.row(dict.fromkeys(self.env.agents, True), np.bool_)
        given = {agent: infos[agent]["action_mask"] for agent in observations if "action_mask" in infos.get(agent, {})}
        if given and not self.masked:
            raise ValueError(f"{next(iter(given))} has an action mask now but had none at reset(); give one there, too")
        mask = self.spec.joint_mask(self.spec.masks_from(seen, given)) if self.masked else None
        return WorldView(observation, self.spec.state_from(observation, state), alive, mask)

    def _find_state(self) -> Form | None:
        """The form of the environment's own state, if it has one of at most MAX_WIDTH numbers."""
        try:
            state = np.asarray(self.env.state())
        except (NotImplementedError, AttributeError):
            return None
        if not 0 < state.size <= MAX_WIDTH or state.dtype.kind not in "fiub":
            return None
        return Form("box", state.shape, 255.0 if state.dtype == np.uint8 else 1.0)

    def render(self) -> NDArray[np.uint8]:
        frame = self.env.render()
        if not isinstance(frame, np.ndarray):
            raise ValueError(f"{self.factory}: render() gave no picture; make it with render_mode='rgb_array'")
        return frame

    def close(self) -> None:
        self.env.close()


def spec_of(env: Any) -> EnvSpec:
    """What a ParallelEnv looks like from outside; it is reset for that."""
    return ForeignWorld(type(env).__name__, {}, lambda: env).spec


def _form_of(factory: str, agent: str, space: Space[Any]) -> Form:
    """How an agent's observations become numbers; raises if they cannot, or are too many."""
    if isinstance(space, Dict) and set(space.spaces) == {"observation", "action_mask"}:
        return Form("masked", parts=(("observation", _form_of(factory, agent, space["observation"])),))
    form = _plain_form(factory, agent, space)
    if not 0 < form.width <= MAX_WIDTH:
        raise EnvSetupError(
            f"{factory}: {agent} sees {space.shape or space} = {form.width} numbers; at most {MAX_WIDTH} are taken. "
            "Ask the environment for vectors, or wrap it to make its pictures smaller"
        )
    return form


def _plain_form(factory: str, agent: str, space: Space[Any]) -> Form:
    if isinstance(space, Discrete):
        return Form("discrete", counts=(int(space.n),), start=(int(space.start),))
    if isinstance(space, MultiDiscrete):
        return Form("discrete", counts=_ints(space.nvec), start=_ints(space.start))
    if isinstance(space, MultiBinary):
        return Form("binary", _ints(space.shape))
    if isinstance(space, Box):
        bound = float(space.high.max()) if space.dtype == np.uint8 else 1.0
        return Form("box", _ints(space.shape), bound or 1.0)
    if isinstance(space, Dict):
        parts = tuple((str(name), _plain_form(factory, agent, inner)) for name, inner in space.spaces.items())
        return Form("dict", parts=parts)
    if isinstance(space, Tuple):
        parts = tuple((str(i), _plain_form(factory, agent, inner)) for i, inner in enumerate(space.spaces))
        return Form("tuple", parts=parts)
    raise EnvSetupError(f"{factory}: {agent} sees {space}, which has no fixed width; wrap it into a Box")


def _action_form_of(factory: str, agent: str, space: Space[Any]) -> ActionForm:
    if isinstance(space, Discrete):
        return ActionForm("discrete", "<i8", counts=(int(space.n),), start=(int(space.start),), single=True)
    if isinstance(space, Box):
        return ActionForm("box", np.dtype(space.dtype).str, _ints(space.shape))
    if isinstance(space, MultiDiscrete):
        form = ActionForm("discrete", np.dtype(space.dtype).str, space.shape, _ints(space.nvec), _ints(space.start))
    elif isinstance(space, MultiBinary):
        counts = (2,) * int(np.prod(space.shape))
        form = ActionForm("discrete", np.dtype(space.dtype).str, _ints(space.shape), counts, (0,) * len(counts))
    else:
        raise EnvSetupError(f"{factory}: {agent} acts by {space}; actions must be Discrete, MultiDiscrete or Box")
    if form.choices > MAX_CHOICES:
        raise EnvSetupError(
            f"{factory}: {agent} acts by {space} = {form.choices} combinations; at most {MAX_CHOICES} are taken. "
            "Wrap the environment into fewer actions, or into a Box"
        )
    return form


def _actions_of(
    factory: str, agents: tuple[str, ...], does: tuple[ActionForm, ...], spaces: list[Any]
) -> DiscreteActions | BoxActions:
    if all(form.kind == "discrete" for form in does):
        return DiscreteActions(tuple(form.choices for form in does))
    if all(form.kind == "box" for form in does):
        try:
            return BoxActions(_bounds(s.low for s in spaces), _bounds(s.high for s in spaces))
        except ValueError as error:
            raise EnvSetupError(f"{factory}: {error}") from None
    kinds = ", ".join(f"{a}: {s}" for a, s in zip(agents, spaces, strict=True))
    raise EnvSetupError(f"{factory}: actions must be discrete for all agents or Box for all; they are {kinds}")


def _ints(numbers: Any) -> tuple[int, ...]:
    return tuple(int(x) for x in np.ravel(numbers))


def _bounds(arrays: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(x) for x in np.ravel(a)) for a in arrays)
