"""Collecting a round with two clocks: skills every k steps, actions at every step, all under one policy version.

A segment (one choice of skills) closes after k steps, at the end of its episode, and at the end of the round, with its
true span and, where it was cut, the value of the state that really followed. At the start of a round every world takes
a fresh decision, so no segment straddles an update. Recurrent states belong to (world, agent) and start at zero with
each episode. Each world draws from a stream of its own: its numbers depend neither on its neighbours nor on where it
runs.

The reward is the team's, so the return of an agent that dies continues with its episode, as that of the others; only
its own decisions end. An agent truncated while the others continue is bootstrapped alone. With `death_ends_return` an
agent's return ends with its death.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from echelon.envs.random_streams import WorldStreams
from echelon.envs.vector import BoxActions, DiscreteActions, EnvSpec, Observed, VectorEnv, VectorStep
from echelon.hmasd.config import HMASDConfig, check_round
from echelon.hmasd.learning.episodes import Episodes
from echelon.hmasd.networks.networks import HMASDNetworks
from echelon.hmasd.networks.sizes import Sizes
from echelon.onpolicy.aligned import as_tensor
from echelon.onpolicy.batch import SLOT_FIELDS, TREE_FIELDS, UNIT_FIELDS, Rollout, RolloutBatch, VersionError
from echelon.onpolicy.builder import RolloutBuilder
from echelon.runtime.arrays import Array

COORDINATOR, DISCOVERER = "coordinator", "discoverer"


class ActionMap:
    """Between what the policy stores and what an environment takes."""

    def __init__(self, spec: EnvSpec) -> None:
        self.continuous = isinstance(spec.actions, BoxActions)
        self.always: Array | None = None
        self._scale: tuple[Array, Array] | None = None
        if isinstance(spec.actions, DiscreteActions):
            if len(set(spec.actions.counts)) > 1:
                self.always = spec.actions.mask  # (n, width)
        elif (spec.actions.low_array != -1).any() or (spec.actions.high_array != 1).any():
            low, high = spec.actions.low_array, spec.actions.high_array
            self._scale = (low + high) / 2, (high - low) / 2

    def mask(self, seen: Observed) -> Array | None:
        """Allowed actions (B, n, width); None where all are."""
        if self.continuous:
            return None
        if self.always is None:
            return seen.action_mask
        everywhere = np.broadcast_to(self.always, (len(seen.alive), *self.always.shape))
        return everywhere if seen.action_mask is None else seen.action_mask & everywhere

    def to_env(self, action: Tensor) -> Array:
        """From the policy's [-1, 1] to the environment's bounds; a discrete choice is itself."""
        array: Array = action.numpy()
        return array if self._scale is None else self._scale[0] + self._scale[1] * array


class SkillCollector:
    """B worlds with the policies that act in them. `version_of` says which version the networks hold."""

    def __init__(
        self,
        networks: HMASDNetworks,
        env: VectorEnv,
        k: int,
        chunk: int,
        seeds: Sequence[int],
        version_of: Callable[[], int],
        death_ends_return: bool = False,
    ) -> None:
        if len(seeds) != env.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {env.num_envs} worlds; give one per world")
        self.networks, self.env, self.k, self.version_of = networks, env, k, version_of
        self.chunk = chunk if networks.sizes.recurrent else 1
        self.death_ends_return = death_ends_return
        self.actions = ActionMap(env.spec)
        self.streams = WorldStreams(seeds)
        self.episodes = Episodes.join([])
        self.skills = np.zeros((env.num_envs, networks.sizes.agents + 1), np.int64)
        self.age = np.zeros(env.num_envs, np.int64)
        self._left = np.zeros((env.num_envs, networks.sizes.agents), bool)  # cut alone since the last decision
        self._begin(env.reset())

    @classmethod
    def of(
        cls,
        config: HMASDConfig,
        networks: HMASDNetworks,
        env: VectorEnv,
        seeds: Sequence[int],
        version_of: Callable[[], int],
    ) -> Self:
        """A collector with a run's options."""
        return cls(networks, env, config.k, config.recurrent_chunk, seeds, version_of, config.death_ends_return)

    def _begin(self, seen: Observed) -> None:
        self._seen = seen
        self._memory = self.networks.discoverer.initial_memory(self.env.num_envs)
        self._reset = np.ones(self.env.num_envs, bool)

    def collect(self, version: int, steps: int) -> Rollout:
        """`steps` joint steps, an equal share from every world; both levels."""
        for _ in range(self.begin_round(version, steps)):
            self.take(self.env.step(self.choose()))
        return self.end_round()

    def begin_round(self, version: int, steps: int) -> int:
        """Empty both levels and end all skills; returns how often to `choose` and `take`."""
        worlds, agents = self.env.num_envs, self.networks.sizes.agents
        check_round("steps", steps, worlds)
        slots = steps // worlds
        if self.version_of() != version:
            raise VersionError(
                f"asked to collect with policy version {version}, but the networks hold {self.version_of()}"
            )
        self._low = RolloutBuilder(slots, worlds, agents, self.chunk)
        self._high = RolloutBuilder(slots, worlds, agents + 1) if self.networks.sizes.skilled else None
        self._finished: list[Episodes] = []
        self._left_over = slots
        self.age[:] = 0  # no skill lives across versions
        return slots

    @torch.inference_mode()
    def choose(self) -> Array:
        """Skills where they are due, and the actions of all worlds, as the environment takes them."""
        if self._high is not None and not self.age.all():
            self._decide(self._high, self._seen)
        return self._act(self._seen)

    @torch.inference_mode()
    def take(self, now: VectorStep) -> None:
        """What the actions led to."""
        self._left_over -= 1
        self._store(self._low, self._seen, now)
        if self._high is not None:
            self._earn(self._high, now, self._left_over == 0)
        if now.dropped.any():
            for builder in (self._low, self._high):
                if builder is not None:
                    builder.forget(np.flatnonzero(now.dropped))
        self._seen, self._reset = now, now.done
        if self._reset.any():
            ended = torch.from_numpy(self._reset)
            for memory in self._memory.values():
                memory[ended] = 0.0
        self._note(now, self._finished)

    @torch.inference_mode()
    def end_round(self) -> Rollout:
        """The round, once every world has taken its steps."""
        last = self.networks.discoverer.value(
            as_tensor(self._seen.state), as_tensor(self._seen.observation), self._skills_now(), self._memory["critic"]
        )
        self.episodes = Episodes.join(self._finished)
        rollout: Rollout = {} if self._high is None else {COORDINATOR: without_unused_slots(self._high.take())}
        return {**rollout, DISCOVERER: self._low.take(last.numpy())}

    def _skills_now(self) -> Tensor | None:
        return torch.from_numpy(self.skills) if self.networks.sizes.skilled else None

    def _decide(self, high: RolloutBuilder, seen: Observed) -> None:
        """New skills in the worlds whose segment is over."""
        coordinator = self.networks.coordinator
        assert coordinator is not None  # there is a high level only where there is a coordinator
        due = np.flatnonzero(self.age == 0)
        state, observation, alive = seen.state[due], seen.observation[due], seen.alive[due]
        uniform = self.streams.uniform32(due, self.networks.sizes.agents + 1)
        skills, log_prob, value = coordinator.act(as_tensor(state), as_tensor(observation), torch.from_numpy(uniform))
        self.skills[due] = skills.numpy()
        self._left[due] = False
        decides = np.concatenate([alive.any(1, keepdims=True), alive], 1)
        high.open(
            self.version_of(),
            {"state": state, "observation": observation},
            {"skills": self.skills[due]},
            log_prob.numpy(),
            value.numpy(),
            alive=decides,
            earns=decides if self.death_ends_return else True,
            columns=None if len(due) == len(self.age) else due,
        )

    def _act(self, seen: Observed) -> Array:
        """One action of every agent; what it was chosen with is kept until its result is there."""
        skills, mask = self._skills_now(), self.actions.mask(seen)
        stored, action, log_prob, value, memory = self.networks.discoverer.act(
            as_tensor(seen.state),
            as_tensor(seen.observation),
            skills,
            self._memory,
            draw_actions(self.streams, self.networks.sizes),
            None if mask is None else torch.from_numpy(np.ascontiguousarray(mask)),
        )
        self._chosen = stored, log_prob, value, memory, mask
        return self.actions.to_env(action)

    def _store(self, low: RolloutBuilder, seen: Observed, now: VectorStep) -> None:
        """One step of every agent, and what it led to."""
        stored, log_prob, value, memory, mask = self._chosen
        skills, before = self._skills_now(), self._memory
        died, left = departures(seen, now)
        self._left |= left
        if not self.death_ends_return:
            died[:] = False
        extra = {} if skills is None else {"next_observation": now.final_observation, "next_state": now.final_state}
        low.store(
            self.version_of(),
            {
                "observation": seen.observation,
                "state": seen.state,
                **({} if skills is None else {"skills": self.skills}),
            },
            {"action": stored.numpy()},
            log_prob.numpy(),
            value.numpy(),
            now.reward,
            terminated=now.terminated[:, None] | died,
            done=now.done[:, None] | died | left,
            next_value=self._cut_value(now, left, skills, memory["critic"]),
            mask={} if mask is None else {"action": mask},
            alive=seen.alive,
            earns=seen.alive if self.death_ends_return else True,
            state={name: m.numpy() for name, m in before.items()} if self.networks.sizes.recurrent else {},
            reset=self._reset,
            extra=extra,
        )
        self._memory = memory

    def _cut_value(self, now: VectorStep, left: Array, skills: Tensor | None, memory: Tensor) -> Array | None:
        """V_l at the true last state of whom a limit cut, whole episodes or one agent; NaN (not given) elsewhere."""
        cut = (now.truncated & ~now.terminated)[:, None] | left  # (B, n)
        if not cut.any():
            return None
        rows = np.flatnonzero(cut.any(1))
        values = np.full(cut.shape, np.nan, np.float32)
        chosen = None if skills is None else skills[rows]
        values[rows] = self.networks.discoverer.value(
            as_tensor(now.final_state[rows]), as_tensor(now.final_observation[rows]), chosen, memory[rows]
        )
        values[~cut] = np.nan
        return values

    def _earn(self, high: RolloutBuilder, now: VectorStep, last: bool) -> None:
        """Add the step's reward to the running segments and close those that end here."""
        coordinator = self.networks.coordinator
        assert coordinator is not None  # there is a high level only where there is a coordinator
        high.earn(now.reward)
        self.age += 1
        ended = now.done
        stop = ended | (self.age == self.k)
        if last:
            stop[:] = True
        if not stop.any():
            return
        at = np.flatnonzero(stop)
        dead, left = self._over(now, at)
        following = np.full((len(at), self.skills.shape[1]), np.nan, np.float32)
        ask = ~now.terminated[at] & (ended[at] | last | left.any(1))
        if ask.any():
            rows = at[ask]
            following[ask] = coordinator.value(as_tensor(now.final_state[rows]), as_tensor(now.final_observation[rows]))
        high.close(
            now.terminated[at, None] | dead,
            ended[at, None] | dead | left,
            following,
            columns=None if len(at) == len(stop) else at,
        )
        self.age[at] = 0

    def _over(self, now: VectorStep, at: Array) -> tuple[Array, Array]:
        """Of the skills (C, n + 1) of segments that end: whose agent died, and whose agent was cut alone.

        None of either where the team's return continues: then the skill of an agent that is gone earns as the others
        do.
        """
        dead, left = (np.zeros((len(at), self.skills.shape[1]), bool) for _ in range(2))
        if self.death_ends_return:
            left[:, 1:] = self._left[at] & ~now.done[at, None]
            dead[:, 1:] = ~now.final_alive[at] & ~self._left[at]
        return dead, left

    def _note(self, now: VectorStep, finished: list[Episodes]) -> None:
        """Keep the results of episodes that ended; those of crashed worlds mean nothing."""
        over = np.flatnonzero(now.done & ~now.dropped)
        if len(over):
            finished.append(Episodes.of(now, over))

    def state_dict(self) -> dict[str, Tensor]:
        """Worlds, recurrent states, whose episode has just begun, and the random streams."""
        state = {f"env.{name}": torch.from_numpy(np.array(array)) for name, array in self.env.state_dict().items()}
        state |= {f"memory.{name}": memory.clone() for name, memory in self._memory.items()}
        streams = torch.from_numpy(self.streams.state.view(np.int64).copy())
        return state | {"reset": torch.from_numpy(self._reset.copy()), "streams": streams}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue in the middle of episodes; where a world could not be restored, at the start of a new one."""
        env = {name.removeprefix("env."): t.numpy() for name, t in state.items() if name.startswith("env.")}
        self._begin(self.env.load_state_dict(env))
        self._memory = {name: state[f"memory.{name}"].clone() for name in self._memory}
        self._reset = state["reset"].numpy().copy()
        if self.env.renewed is not None:
            self._reset[self.env.renewed] = True
            for memory in self._memory.values():
                memory[torch.from_numpy(self.env.renewed)] = 0.0
        self.streams.state[:] = state["streams"].numpy().view(np.uint64)


def draw_actions(streams: WorldStreams, sizes: Sizes) -> Tensor:
    """The random numbers of one action of every agent: uniform (B, n), or normal (B, n, D) for continuous actions."""
    if not sizes.continuous:
        return torch.from_numpy(streams.uniform32(slice(None), sizes.agents))
    noise = streams.normal(slice(None), sizes.agents * sizes.actions)
    return torch.from_numpy(noise.astype(np.float32).reshape(-1, sizes.agents, sizes.actions))


def departures(seen: Observed, now: VectorStep) -> tuple[Array, Array]:
    """Who died in this step, and who was truncated while the episode continues for others: two masks (B, n).

    An agent has died if its final observation has no future; one that only stops acting was truncated.
    """
    died = seen.alive & ~now.final_alive
    left = seen.alive & now.final_alive & ~now.alive & ~now.done[:, None]
    return died, left


def without_unused_slots(batch: RolloutBatch) -> RolloutBatch:
    """A batch without a recurrent state, without the slots no column used."""
    used = max(int(batch.valid.any(1).sum()), 1)
    arrays = {name: getattr(batch, name)[:used] for name in UNIT_FIELDS + SLOT_FIELDS}
    trees = {name: {key: array[:used] for key, array in getattr(batch, name).items()} for name in TREE_FIELDS}
    changes: dict[str, Any] = {**arrays, **trees}
    return replace(batch, **changes)
