"""Worlds that somebody else steps: results are put in, world by world, and come out as joint arrays.

This is how a user's own environment loop trains without an adapter: what a `ParallelEnv` gives goes in as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.envs.foreign.vector import TeamReward, team_reward
from echelon.envs.foreign.world import metrics_of
from echelon.envs.vector import Array, DiscreteActions, EnvSpec, Float32, Observed, VectorEnv, VectorStep

ByAgent = Mapping[Any, Any]


@dataclass(frozen=True)
class Result:
    """What one world gave in one step."""

    final_observation: Float32  # (n, obs_dim)
    final_state: Float32  # (S,)
    final_alive: Array  # (n,)
    alive: Array  # (n,)
    mask: Array | None  # (n, width)
    agent_reward: Array  # (n,)
    terminated: bool
    truncated: bool
    metrics: Mapping[str, float]


class PushedWorlds(VectorEnv):
    """B worlds of one spec. `start` each, then `put` what every step of each gave; `joint_step` when all have."""

    def __init__(self, spec: EnvSpec, num_envs: int, rewards: TeamReward = "mean") -> None:
        self.spec, self.num_envs, self.rewards = spec, num_envs, rewards
        self._seen = Observed(
            np.zeros((num_envs, spec.num_agents, spec.obs_dim), np.float32),
            np.zeros((num_envs, spec.state_dim), np.float32),
            np.zeros((num_envs, spec.num_agents), bool),
            np.ones((num_envs, spec.num_agents, spec.actions.width), bool)
            if isinstance(spec.actions, DiscreteActions)
            else None,
        )
        self._results: dict[int, Result] = {}
        self._return, self._length = np.zeros(num_envs), np.zeros(num_envs, np.int64)

    def start(self, world: int, observations: ByAgent, state: Any = None, masks: ByAgent | None = None) -> None:
        """The first observations of an episode of this world."""
        named = {str(agent): value for agent, value in observations.items()}
        seen = self._seen
        seen.observation[world] = self.spec.joint_observation(named)
        seen.state[world] = self._state(seen.observation[world], state)
        seen.alive[world] = [agent in named for agent in self.spec.agents]
        self._write_mask(world, self._mask(named, masks))

    def put(
        self,
        world: int,
        observations: ByAgent,
        rewards: ByAgent | float,
        terminations: ByAgent | bool,
        truncations: ByAgent | bool,
        infos: ByAgent | None = None,
        state: Any = None,
        masks: ByAgent | None = None,
    ) -> bool:
        """What a step of this world gave; returns whether its episode is over, so that it must `start` again."""
        if world in self._results:
            raise ValueError(f"world {world} has given this step already; the others must give theirs first")
        spec, acted = self.spec, self._seen.alive[world]
        named = {str(agent): value for agent, value in observations.items()}
        dead, cut = (self._flags(flags, acted) for flags in (terminations, truncations))
        present = np.array([agent in named for agent in spec.agents])
        alive = present & ~dead & ~cut
        over = not alive.any()
        truncated = over and bool((acted & cut & ~dead).any())
        observation = spec.joint_observation(named)
        given = rewards if isinstance(rewards, Mapping) else dict.fromkeys(spec.agents, rewards)
        paid = {str(agent): float(reward) for agent, reward in given.items()}
        self._results[world] = Result(
            final_observation=observation,
            final_state=self._state(observation, state),
            final_alive=(acted | alive) & ~dead,
            alive=alive,
            mask=self._mask(named, masks),
            agent_reward=np.array([paid.get(agent, 0.0) for agent in spec.agents], np.float32),
            terminated=over and not truncated,
            truncated=truncated,
            metrics=metrics_of(infos or {}) if over else {},
        )
        return over

    @property
    def complete(self) -> bool:
        """Every world has given its step."""
        return len(self._results) == self.num_envs

    def waits_for(self) -> list[int]:
        """Worlds that have not given their step."""
        return [world for world in range(self.num_envs) if world not in self._results]

    def joint_step(self, begin: Mapping[int, tuple[ByAgent, Any, ByAgent | None]]) -> VectorStep:
        """The step of all worlds; `begin` has the first observations, state and masks of those that start again."""
        results = [self._results[world] for world in range(self.num_envs)]
        acted = self._seen.alive.copy()
        agent_reward = np.stack([r.agent_reward for r in results])
        reward = team_reward(agent_reward, acted, self.rewards)
        self._length += 1
        self._return += reward
        info: dict[str, Array] = {"episode_return": self._return.copy(), "episode_length": self._length.copy()}
        for world, result in enumerate(results):
            self._seen.observation[world], self._seen.state[world] = result.final_observation, result.final_state
            self._seen.alive[world] = result.alive
            self._write_mask(world, result.mask)
            for name, value in result.metrics.items():
                info.setdefault(name, np.full(self.num_envs, np.nan))[world] = value
            if result.terminated or result.truncated:
                self.start(world, *begin[world])
                self._length[world], self._return[world] = 0, 0.0
        self._results.clear()
        now = self._observed()
        return VectorStep(
            now.observation,
            now.state,
            now.alive,
            now.action_mask,
            reward=reward,
            agent_reward=agent_reward,
            terminated=np.array([r.terminated for r in results]),
            truncated=np.array([r.truncated for r in results]),
            final_observation=np.stack([r.final_observation for r in results]),
            final_state=np.stack([r.final_state for r in results]),
            final_alive=np.stack([r.final_alive for r in results]),
            dropped=np.zeros(self.num_envs, bool),
            info=info,
        )

    def _observed(self) -> Observed:
        seen = self._seen
        mask = None if seen.action_mask is None else seen.action_mask.copy()
        return Observed(seen.observation.copy(), seen.state.copy(), seen.alive.copy(), mask)

    def _state(self, observation: Float32, state: Any) -> Float32:
        if self.spec.state_joined:
            return self.spec.joint_state(observation)
        if state is None:
            raise ValueError(f"{self.spec.name} has a state of its own; give state=env.state()")
        form = self.spec.state_form
        return np.asarray(state, np.float32).reshape(-1) if form is None else form.numbers(state)

    def _mask(self, named: Mapping[str, Any], masks: ByAgent | None) -> Array | None:
        if not isinstance(self.spec.actions, DiscreteActions):
            return None
        given = {str(agent): mask for agent, mask in (masks or {}).items()}
        for agent, form in zip(self.spec.agents, self.spec.forms, strict=True):
            if agent in named and form.kind == "masked":
                given[agent] = form.mask(named[agent])
        return self.spec.joint_mask(given)

    def _write_mask(self, world: int, mask: Array | None) -> None:
        if self._seen.action_mask is not None and mask is not None:
            self._seen.action_mask[world] = mask

    def _flags(self, given: ByAgent | bool, acted: Array) -> Array:
        if not isinstance(given, Mapping):
            return acted & bool(given)
        named = {str(agent): bool(flag) for agent, flag in given.items()}
        return np.array([named.get(agent, False) for agent in self.spec.agents])

    def reset(self, seed: int | Sequence[int] | None = None) -> Observed:
        """What was started."""
        if not self._seen.alive.any(axis=1).all():
            empty = np.flatnonzero(~self._seen.alive.any(axis=1)).tolist()
            raise ValueError(f"worlds {empty} have no first observations; start every world")
        return self._observed()

    def step(self, actions: Array) -> VectorStep:
        """Not available: the owner of the worlds steps them."""
        raise RuntimeError("these worlds are stepped by their owner; put() what each gave")

    def state_dict(self) -> dict[str, Array]:
        """Nothing: the owner keeps the worlds."""
        return {}

    def load_state_dict(self, state: Mapping[str, Array]) -> Observed:
        """What was started."""
        return self.reset()

    def render(self, world: int = 0, colours: Sequence[str] | None = None) -> NDArray[np.uint8]:
        """Not here."""
        raise RuntimeError("these worlds are drawn by their owner")
