"""Collecting a synchronous round: every world takes the same number of steps under one version of the policy.

`Collector` is what the training loop asks for; a system with several clocks writes its own over `RolloutBuilder`.
`StepCollector` serves the plain case: one level that decides at every step of a batch of worlds. `join_rounds` puts the
shares of several collectors (processes, machines) together, and refuses shares of different versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from echelon.onpolicy.batch import Array, Arrays, Rollout, VersionError, concatenate
from echelon.onpolicy.builder import RolloutBuilder


class Collector(Protocol):
    """Makes rounds of experience."""

    def collect(self, version: int, steps: int) -> Rollout:
        """A round of `steps` joint environment steps, all decided by `version`; a VersionError if it holds another."""

    def state_dict(self) -> dict[str, Tensor]:
        """Worlds, recurrent states and random streams: what the next round depends on besides the policy."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state, bit for bit."""


class Seen(Protocol):
    """What agents see now, in B worlds."""

    @property
    def observation(self) -> Array: ...  # (B, n, F)
    @property
    def state(self) -> Array: ...  # (B, S)
    @property
    def alive(self) -> Array: ...  # (B, n)
    @property
    def action_mask(self) -> Array | None: ...  # (B, n, K)


class Stepped(Seen, Protocol):
    """What a joint step gave; the fields of `Seen` are those of the new episode where one ended."""

    @property
    def reward(self) -> Array: ...  # (B,)
    @property
    def agent_reward(self) -> Array: ...  # (B, n)
    @property
    def terminated(self) -> Array: ...  # (B,)
    @property
    def truncated(self) -> Array: ...  # (B,)
    @property
    def final_observation(self) -> Array: ...  # (B, n, F)
    @property
    def final_state(self) -> Array: ...  # (B, S)
    @property
    def final_alive(self) -> Array: ...  # (B, n)
    @property
    def dropped(self) -> Array: ...  # (B,)


class Worlds(Protocol):
    """B worlds stepped together, each starting its next episode automatically."""

    num_envs: int

    def reset(self) -> Seen:
        """Start an episode in every world."""

    def step(self, actions: Array, /) -> Stepped:
        """One joint step in every world."""

    def state_dict(self) -> dict[str, Array]:
        """Everything needed to continue bit for bit."""

    def load_state_dict(self, state: Mapping[str, Array], /) -> Seen:
        """Go on; returns what the agents see."""


@dataclass(frozen=True)
class Decision:
    """What an actor chose for B worlds."""

    action: Array  # what the worlds take
    stored: Arrays  # each (B, ...): what `evaluate` scores, by part
    log_prob: Array  # (B, U)
    value: Array  # (B, U) the critic's raw output
    state: Arrays = field(default_factory=dict)  # each (B, ...): recurrent states after the decision


class Actor(Protocol):
    """The acting side of a policy; runs without gradients."""

    def initial_state(self, columns: int) -> Arrays:
        """Recurrent states at the start of an episode (zeros), each (B, ...); empty if there are none."""

    def act(self, observation: Arrays, mask: Arrays, state: Arrays, generator: torch.Generator) -> Decision:
        """Sample one decision for each world."""

    def value(self, observation: Arrays, state: Arrays) -> Array:
        """The critic's raw output (B, U) at what would be the next decision."""


class StepCollector:
    """One level, one decision per step in every world; a unit is an agent.

    The batch holds observations named `observation` (B, n, F) and `state` (B, S), and a mask named `action` if the
    worlds give one. With the team's reward the return of an agent that dies continues with its episode; with its own
    reward it is terminated, alone. An agent that is truncated while the others continue is bootstrapped, alone.
    `version_of` says which version the actor holds, asked before every decision.
    """

    def __init__(
        self,
        worlds: Worlds,
        actor: Actor,
        version_of: Callable[[], int],
        seed: int,
        chunk: int = 1,
        level: str = "agent",
        reward: Literal["team", "agent"] = "team",
    ) -> None:
        self.worlds, self.actor, self.version_of = worlds, actor, version_of
        self.chunk, self.level, self.reward = chunk, level, reward
        self.generator = torch.Generator().manual_seed(seed)
        self._begin(worlds.reset())

    def _begin(self, seen: Seen) -> None:
        self._seen = seen
        self._recurrent = {name: array.copy() for name, array in self.actor.initial_state(self.worlds.num_envs).items()}
        self._reset = np.ones(self.worlds.num_envs, bool)

    def collect(self, version: int, steps: int) -> Rollout:
        """`steps` joint steps, an equal share from every world."""
        slots = shares(steps, self.worlds.num_envs)
        if self.version_of() != version:
            raise VersionError(
                f"asked to collect with policy version {version}, but the actor holds {self.version_of()}"
            )
        builder = RolloutBuilder(slots, self.worlds.num_envs, self._seen.alive.shape[1], self.chunk)
        with torch.no_grad():
            for _ in range(slots):
                self._step(builder)
            last_value = self.actor.value(_observation(self._seen), self._recurrent)
        return {self.level: builder.take(last_value)}

    def _step(self, builder: RolloutBuilder) -> None:
        seen, before, reset = self._seen, self._recurrent, self._reset
        version, observation = self.version_of(), _observation(seen)
        mask = {} if seen.action_mask is None else {"action": seen.action_mask}
        chosen = self.actor.act(observation, mask, before, self.generator)
        now = self.worlds.step(chosen.action)
        ended = now.terminated | now.truncated
        died, left = departures(seen, now)
        if self.reward == "team":
            died[:] = False
        cut = (now.truncated & ~now.terminated)[:, None] | left  # (B, n)
        builder.store(
            version,
            observation,
            chosen.stored,
            chosen.log_prob,
            chosen.value,
            now.reward if self.reward == "team" else now.agent_reward,
            terminated=now.terminated[:, None] | died,
            done=ended[:, None] | died | left,
            next_value=self._bootstrap(now, chosen.state, cut, chosen.value) if cut.any() else None,
            mask=mask,
            alive=seen.alive,
            earns=self.reward == "team" or seen.alive,
            state=before,
            reset=reset,
        )
        if now.dropped.any():
            builder.forget(np.flatnonzero(now.dropped))
        self._seen, self._reset = now, ended
        self._recurrent = {name: array.copy() for name, array in chosen.state.items()}
        for array in self._recurrent.values():
            array[ended] = 0.0

    def _bootstrap(self, now: Stepped, state: Arrays, cut: Array, like: Array) -> Array:
        """The critic at the true last state of whom was cut, (B, n); NaN (not given) elsewhere."""
        rows = np.flatnonzero(cut.any(1))
        final = {"observation": now.final_observation[rows], "state": now.final_state[rows]}
        next_value = np.full(like.shape, np.nan, np.float32)
        next_value[rows] = self.actor.value(final, {name: array[rows] for name, array in state.items()})
        next_value[~np.broadcast_to(cut, like.shape)] = np.nan
        return next_value

    def state_dict(self) -> dict[str, Tensor]:
        """Worlds, recurrent states, whose episode has just begun, and the random stream."""
        state = {
            f"worlds.{name}": torch.from_numpy(np.array(array)) for name, array in self.worlds.state_dict().items()
        }
        state |= {f"recurrent.{name}": torch.from_numpy(array.copy()) for name, array in self._recurrent.items()}
        return state | {"reset": torch.from_numpy(self._reset.copy()), "generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue in the middle of episodes."""
        worlds = {name.removeprefix("worlds."): t.numpy() for name, t in state.items() if name.startswith("worlds.")}
        self._begin(self.worlds.load_state_dict(worlds))
        self._recurrent = {name: state[f"recurrent.{name}"].numpy().copy() for name in self._recurrent}
        self._reset = state["reset"].numpy().copy()
        self.generator.set_state(state["generator"])


def departures(seen: Seen, now: Stepped) -> tuple[Array, Array]:
    """Who died in this step, and who was truncated while the episode continues for others: two masks (B, n).

    An agent has died if its final observation has no future; one that only stops acting was truncated.
    """
    died = seen.alive & ~now.final_alive
    left = seen.alive & now.final_alive & ~now.alive & ~(now.terminated | now.truncated)[:, None]
    return died, left


def _observation(seen: Seen) -> dict[str, Array]:
    return {"observation": seen.observation, "state": seen.state}


def shares(steps: int, worlds: int) -> int:
    """Steps of each world in a round of `steps`; an error if they are not equal."""
    if steps < worlds or steps % worlds:
        below, above = max(steps // worlds, 1) * worlds, (steps // worlds + 1) * worlds
        cure = f"{below} or {above}" if below != above else f"{above}"
        raise ValueError(f"a round of {steps} steps is not a multiple of {worlds} worlds; use {cure}")
    return steps // worlds


def join_rounds(rounds: Sequence[Rollout], version: int) -> Rollout:
    """The shares of several collectors side by side, in the order given; all must be of `version`."""
    if not rounds:
        raise ValueError("no round to join; give at least one")
    for i, rollout in enumerate(rounds):
        check_version(rollout, version, f"share {i}")
        if rollout.keys() != rounds[0].keys():
            raise ValueError(f"share {i} has the levels {sorted(rollout)}, share 0 has {sorted(rounds[0])}")
    return {level: concatenate([rollout[level] for rollout in rounds]) for level in rounds[0]}


def check_version(rollout: Rollout, version: int, source: str = "the rollout") -> Rollout:
    """The rollout itself, if every level of it was made by `version`."""
    if not rollout:
        raise ValueError(f"{source} has no levels")
    foreign = {level: batch.version for level, batch in rollout.items() if batch.version != version}
    if foreign:
        raise VersionError(f"{source} must be of policy version {version}, but has {foreign}; collect it again")
    return rollout
