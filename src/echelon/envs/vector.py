"""The batched protocol: B worlds of n agents, stepped together, as dense arrays.

Glossary. A *world* is one copy of an environment. An *episode* of a world ends by `terminated` (nothing comes after) or
by `truncated` (it was cut; bootstrap there). A finished world starts its next episode at once: `observation` is then
the first of the new episode, to act on, and `final_observation` the last of the old one, to learn from. Where no
episode ended the two are equal, so `final_observation` and `final_state` are always what the step led to.

Arrays that come out are fresh: they are the caller's to keep. World b with seed s gives the same numbers in any batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from echelon.envs.entities import Sets, check_sets
from echelon.envs.spaces import ActionForm, Form
from echelon.runtime.arrays import Array, Bools, Float32

FORMAT_VERSION = 1


@dataclass(frozen=True)
class DiscreteActions:
    """Each agent picks one of its `counts[i]` actions; an array of actions is int64 (B, n)."""

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.counts or min(self.counts) < 1:
            raise ValueError(f"counts={self.counts}: every agent needs at least one action")

    @property
    def width(self) -> int:
        """The number of actions after padding."""
        return max(self.counts)

    @cached_property
    def mask(self) -> Bools:
        """Which padded actions each agent really has."""
        return np.arange(self.width) < np.array(self.counts)[:, None]  # (n, width)


@dataclass(frozen=True)
class BoxActions:
    """Each agent picks `dims[i]` numbers within its bounds; an array of actions is float32 (B, n, width), padded."""

    low: tuple[tuple[float, ...], ...]
    high: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not self.low or [len(x) for x in self.low] != [len(x) for x in self.high]:
            raise ValueError(f"low {self.low} and high {self.high} must bound the same numbers of the same agents")
        for low, high in zip(self.low, self.high, strict=True):
            if not all(np.isfinite(a) and np.isfinite(b) and a < b for a, b in zip(low, high, strict=True)):
                raise ValueError(f"bounds {low} .. {high} must be finite and low < high; wrap the environment")

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(len(x) for x in self.low)

    @property
    def width(self) -> int:
        return max(self.dims)

    @cached_property
    def low_array(self) -> Float32:
        """Lower bounds; padding is bounded by −1 .. 1 and never reaches the environment."""
        return _padded(self.low, self.width, -1.0)  # (n, width)

    @cached_property
    def high_array(self) -> Float32:
        return _padded(self.high, self.width, 1.0)  # (n, width)


def _padded(rows: tuple[tuple[float, ...], ...], width: int, fill: float) -> Float32:
    return np.array([(*row, *(fill,) * (width - len(row))) for row in rows], dtype=np.float32)


class Position(NamedTuple):
    """Where a vector holds a position: the places of x and y, and the least value of both; the greatest is 1."""

    x: int
    y: int
    low: float


@dataclass(frozen=True)
class EnvSpec:
    """What an environment looks like from outside; the same for all of its worlds."""

    name: str
    agents: tuple[str, ...]
    """All agents there can be, in the order of the arrays' agent axis."""
    obs_dims: tuple[int, ...]
    """Width of each agent's observation before padding with zeros."""
    state_dim: int
    actions: DiscreteActions | BoxActions
    max_steps: int | None = None
    """Steps after which an episode is truncated, where that is known."""
    sees: tuple[Form, ...] = ()
    """How each agent's own observation becomes its numbers; not given: it is those numbers."""
    does: tuple[ActionForm, ...] = ()
    """How each agent's row of actions becomes what the environment takes; not given: it is that."""
    state_form: Form | None = None
    """How the environment's own `state()` becomes numbers; None where it is those numbers."""
    state_joined: bool = False
    """The state is all observations side by side: the environment has none of its own."""
    observation_sets: Sets = ()
    """Parts of every agent's observation that list entities in an order without meaning."""
    state_sets: Sets = ()
    """The same of the state."""
    state_places: tuple[int, ...] = ()
    """Where the first agent's observation holds the numbers of the state; not given: it does not hold them all."""
    position: Position | None = None
    """Where an agent's observation holds its own position, if it does."""
    action_names: tuple[str, ...] = ()
    """What the discrete actions are called, for pictures."""

    def __post_init__(self) -> None:
        sizes = len(self.agents), len(self.obs_dims), len(_per_agent(self.actions))
        if len(set(sizes)) != 1 or not self.agents:
            raise ValueError(f"agents, obs_dims and actions must name the same agents, got {sizes} of them")
        if min(self.obs_dims) < 1 or self.state_dim < 1:
            raise ValueError(f"obs_dims={self.obs_dims} and state_dim={self.state_dim} must be at least 1")
        check_sets(self.observation_sets, min(self.obs_dims), f"{self.name}'s observations")
        check_sets(self.state_sets, self.state_dim, f"{self.name}'s state")

    @property
    def num_agents(self) -> int:
        return len(self.agents)

    @property
    def forms(self) -> tuple[Form, ...]:
        """`sees`, or plain vectors."""
        return self.sees or tuple(Form("box", (width,)) for width in self.obs_dims)

    def joint_observation(self, observations: Mapping[str, Any]) -> Float32:
        """What agents see, by name, as rows (n, obs_dim): zeros for agents that are not there and as padding."""
        out = np.zeros((self.num_agents, self.obs_dim), dtype=np.float32)
        for i, (agent, form) in enumerate(zip(self.agents, self.forms, strict=True)):
            if agent in observations:
                try:
                    out[i, : form.width] = form.numbers(observations[agent])
                except (ValueError, TypeError) as error:
                    raise ValueError(f"{self.name}: {agent}: {error}") from error
        return out

    def state_from(self, observation: Float32, state: Any = None) -> Float32:
        """The state's numbers: of what `state()` gave, or (..., S) from observations (..., n, obs_dim) that hold it."""
        if self.state_joined:  # side by side, without the padding
            return np.concatenate([observation[..., i, :width] for i, width in enumerate(self.obs_dims)], axis=-1)
        if state is not None:
            form = self.state_form
            return np.asarray(state, np.float32).reshape(-1) if form is None else form.numbers(state)
        if self.state_places:
            return observation[..., 0, list(self.state_places)]
        raise ValueError(
            f"the state of {self.name} does not follow from its observations; give state=, what env.state() returns"
        )

    def row(self, by_agent: Mapping[Any, Any], dtype: type[np.generic]) -> Array:
        """What is given for some agents, by name, as one row (n,); 0 or False for the others."""
        named = {str(agent): value for agent, value in by_agent.items()}
        out = np.zeros(self.num_agents, dtype)
        for i, agent in enumerate(self.agents):
            if agent in named:
                out[i] = named[agent]
        return out

    def masks_from(self, observations: Mapping[str, Any], given: Mapping[Any, Any] | None = None) -> dict[str, Any]:
        """Action masks by agent's name: those inside observations, and others that are given."""
        masks = {str(agent): mask for agent, mask in (given or {}).items()}
        for agent, form in zip(self.agents, self.forms, strict=True):
            if agent in observations and form.kind == "masked":
                masks[agent] = form.mask(observations[agent])
        return masks

    def joint_mask(self, masks: Mapping[str, Any]) -> Bools:
        """Allowed choices (n, width) from the masks of those agents that have one."""
        if not isinstance(self.actions, DiscreteActions):
            raise ValueError(f"{self.name}: an action mask, but actions are continuous")
        out = self.actions.mask.copy()
        for i, agent in enumerate(self.agents):
            if masks.get(agent) is not None:
                own = self.does[i].allowed(masks[agent]) if self.does else np.asarray(masks[agent], dtype=np.bool_)
                out[i, : self.actions.counts[i]] = own
        out[~out.any(axis=1), 0] = True  # a row with nothing allowed (an agent that is gone) would break a softmax
        return out

    @property
    def obs_dim(self) -> int:
        """Width of the padded observation."""
        return max(self.obs_dims)

    def action_shape(self, num_envs: int) -> tuple[int, ...]:
        """(B, n) for discrete actions, (B, n, width) for continuous ones."""
        joint = (num_envs, self.num_agents)
        return joint if isinstance(self.actions, DiscreteActions) else (*joint, self.actions.width)

    @property
    def action_dtype(self) -> type[np.int64] | type[np.float32]:
        return np.int64 if isinstance(self.actions, DiscreteActions) else np.float32


def _per_agent(actions: DiscreteActions | BoxActions) -> tuple[Any, ...]:
    return actions.counts if isinstance(actions, DiscreteActions) else actions.low


@dataclass(frozen=True)
class Observed:
    """What the agents see now; choose the next actions from it."""

    observation: Float32  # (B, n, obs_dim); zeros for agents that were not there in this step
    state: Float32  # (B, state_dim)
    alive: Bools  # (B, n): who acts next
    action_mask: Bools | None  # (B, n, width), True where allowed; None where every action always is


@dataclass(frozen=True)
class VectorStep(Observed):
    """What one joint step gave. The fields of `Observed` are already those of the new episode where one ended."""

    reward: Float32  # (B,) of the team
    agent_reward: Float32  # (B, n)
    terminated: Bools  # (B,)
    truncated: Bools  # (B,)
    final_observation: Float32  # (B, n, obs_dim): what the step led to, before any automatic reset
    final_state: Float32  # (B, state_dim)
    final_alive: Bools  # (B, n): whose final observation has a future to bootstrap from (truncated ones have)
    dropped: Bools  # (B,): the world crashed; forget its episode (truncated, at its last good observation)
    info: Mapping[str, Array]  # each (B, ...), of the step itself; always episode_return and episode_length
    """Other names are the environment's own; a third-party one's are there where an episode ended, else NaN."""

    @property
    def done(self) -> Bools:
        """Where an episode ended in this step."""
        return self.terminated | self.truncated


class VectorEnv(ABC):
    """B worlds stepped together. Use as a context manager, or call `close()`."""

    spec: EnvSpec
    num_envs: int
    renewed: Bools | None = None
    """(B,): worlds whose episode could not be restored by the last load and began a new one; None: all were restored"""

    @abstractmethod
    def reset(self, seed: int | Sequence[int] | None = None) -> Observed:
        """Start a new episode in every world.

        One seed for each world makes each of them behave as it would alone; one int gives world b the seed
        `world_seeds(seed, num_envs)[b]`; None continues the current random streams.
        """

    @abstractmethod
    def step(self, actions: Array) -> VectorStep:
        """Advance every world by one step; `actions` as `spec.action_shape(num_envs)` says."""

    @abstractmethod
    def state_dict(self) -> dict[str, Array]:
        """Everything needed to continue bit for bit, as plain arrays (safe to store as safetensors)."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Array]) -> Observed:
        """Continue from `state_dict()` of an equal environment; returns what the agents see.

        Worlds that cannot be restored begin new episodes, with a warning; `renewed` marks them.
        """

    @abstractmethod
    def render(self, world: int = 0, colours: Sequence[str] | None = None) -> NDArray[np.uint8]:
        """A picture of one world, (height, width, 3); `colours` marks each agent, where the environment can do that."""

    def close(self) -> None:  # noqa: B027 (most environments hold no resources)
        """Release resources outside this object. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def check_actions(spec: EnvSpec, num_envs: int, actions: Array, alive: Bools | None = None) -> Array:
    """Actions as the environment may use them: right shape and type, in range. Agents not `alive` get action 0.

    Continuous actions are clipped to their bounds; NaN, or an action an agent does not have, is an error.
    """
    actions = np.asarray(actions)
    shape = spec.action_shape(num_envs)
    if actions.shape != shape:
        raise ValueError(f"{spec.name}: actions have shape {actions.shape}; they must have shape {shape}")
    if isinstance(spec.actions, DiscreteActions):
        if actions.dtype.kind not in "iu":
            raise ValueError(f"{spec.name}: actions are {actions.dtype}; discrete actions must be integers")
        chosen = actions.astype(np.int64)
        if alive is not None:
            chosen[~alive] = 0
        wrong = (chosen < 0) | (chosen >= spec.actions.counts)
        if wrong.any():
            world, agent = np.argwhere(wrong)[0]
            raise ValueError(
                f"{spec.name}: action {chosen[world, agent]} of {spec.agents[agent]} in world {world}; "
                f"it has actions 0..{spec.actions.counts[agent] - 1}"
            )
        return chosen
    numbers = actions.astype(np.float32)
    if alive is not None:
        numbers[~alive] = 0
    if np.isnan(numbers).any():
        world, agent, _ = np.argwhere(np.isnan(numbers))[0]
        raise ValueError(f"{spec.name}: action of {spec.agents[agent]} in world {world} is NaN; check the policy")
    return np.clip(numbers, spec.actions.low_array, spec.actions.high_array)
