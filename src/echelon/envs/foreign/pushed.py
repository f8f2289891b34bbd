"""Worlds that somebody else steps: results are put in, world by world, and come out as joint arrays.

This is how a user's own environment loop trains without an adapter: what a `ParallelEnv` gives goes in as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.envs.foreign.vector import TeamReward, team_reward
from echelon.envs.foreign.world import WorldStep, WorldView
from echelon.envs.vector import DiscreteActions, EnvSpec, Observed, VectorEnv, VectorStep
from echelon.runtime.arrays import Array

ByAgent = Mapping[Any, Any]


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
        self._results: dict[int, WorldStep] = {}
        self._return, self._length = np.zeros(num_envs), np.zeros(num_envs, np.int64)

    def start(self, world: int, observations: ByAgent, state: Any = None, masks: ByAgent | None = None) -> None:
        """The first observations of an episode of this world."""
        self._write(world, self._view(observations, state, masks))

    def _view(self, observations: ByAgent, state: Any, masks: ByAgent | None) -> WorldView:
        spec, named = self.spec, {str(agent): value for agent, value in observations.items()}
        seen = spec.joint_observation(named)
        discrete = isinstance(spec.actions, DiscreteActions)
        mask = spec.joint_mask(spec.masks_from(named, masks)) if discrete else None
        return WorldView(seen, spec.state_from(seen, state), np.array([a in named for a in spec.agents]), mask)

    def _write(self, world: int, view: WorldView) -> None:
        seen = self._seen
        seen.observation[world], seen.state[world], seen.alive[world] = view.observation, view.state, view.alive
        if seen.action_mask is not None:
            seen.action_mask[world] = view.action_mask

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
        acted = self._seen.alive[world].copy()
        dead, cut = (
            self.spec.row(flags, np.bool_) if isinstance(flags, Mapping) else acted & bool(flags)
            for flags in (terminations, truncations)
        )
        paid = rewards if isinstance(rewards, Mapping) else dict.fromkeys(self.spec.agents, rewards)
        view, agent_reward = self._view(observations, state, masks), self.spec.row(paid, np.float32)
        result = self._results[world] = WorldStep.of(view, acted, dead, cut, agent_reward, infos or {})
        return result.terminated or result.truncated

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
            self._write(world, result)
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
            final_observation=np.stack([r.observation for r in results]),
            final_state=np.stack([r.state for r in results]),
            final_alive=np.stack([r.final_alive for r in results]),
            dropped=np.zeros(self.num_envs, bool),
            info=info,
        )

    def _observed(self) -> Observed:
        seen = self._seen
        mask = None if seen.action_mask is None else seen.action_mask.copy()
        return Observed(seen.observation.copy(), seen.state.copy(), seen.alive.copy(), mask)

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
