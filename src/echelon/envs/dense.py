"""The base of our own environments: whole-batch arrays, automatic reset, save and load.

A subclass draws episodes (`_begin`), moves all worlds (`_advance`) and looks at them (`_observe`); clocks, episode
sums, resets, checks and the saved state are here, once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelon.envs.random_streams import WorldStreams, world_seeds
from echelon.envs.vector import FORMAT_VERSION, EnvSpec, Observed, VectorEnv, VectorStep, check_actions
from echelon.runtime.arrays import Array, Bools, Float32

Rows = slice | Array
ALL = slice(None)


@dataclass(frozen=True)
class Outcome:
    """What moving the worlds gave, before clocks and resets."""

    reward: Array  # (B,)
    terminated: Bools | None  # (B,); None where episodes end by truncation only
    info: dict[str, Array]
    score: Array | None = None  # (B,): what `episode_return` counts, where that is not the reward
    agent_reward: Array | None = None  # (B, n): where agents earn different rewards


class DenseEnv(VectorEnv):
    """B worlds in one process, without a Python loop over worlds; all agents live for the whole episode."""

    def __init__(self, spec: EnvSpec, num_envs: int, seed: int | Sequence[int], *, autoreset: bool = True) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs={num_envs} must be at least 1")
        if spec.max_steps is None or spec.max_steps < 1:
            raise ValueError(f"{spec.name}: max_steps={spec.max_steps} must be at least 1")
        self.spec, self.num_envs, self.autoreset = spec, num_envs, autoreset
        self.streams = WorldStreams(world_seeds(seed, num_envs))
        self.step_count = np.zeros(num_envs, dtype=np.int64)
        self.episode_return = np.zeros(num_envs, dtype=np.float64)
        self._whole = False
        self._limit = spec.max_steps
        self._none_dropped = np.zeros(num_envs, dtype=np.bool_)
        self._all_alive = np.ones((num_envs, spec.num_agents), dtype=np.bool_)

    @abstractmethod
    def _begin(self, rows: Rows) -> None:
        """Draw a new episode in these worlds."""

    @abstractmethod
    def _advance(self, actions: Array) -> Outcome:
        """Move every world by one step; `step_count` is already that of the new step."""

    @abstractmethod
    def _observe(self, rows: Rows) -> tuple[Float32, Float32]:
        """Fresh (W, n, obs_dim) and (W, state_dim) of these worlds."""

    @abstractmethod
    def _arrays(self) -> dict[str, Array]:
        """The subclass's own live arrays, first axis B: what `_advance` and `_observe` depend on."""

    def reset(self, seed: int | Sequence[int] | None = None) -> Observed:
        if seed is not None:
            self.streams = WorldStreams(world_seeds(seed, self.num_envs))
        self._start(ALL)
        self._whole = True
        return self._observed()

    def _start(self, rows: Rows) -> None:
        self.step_count[rows] = 0
        self.episode_return[rows] = 0.0
        self._begin(rows)

    def _observed(self) -> Observed:
        observation, state = self._observe(ALL)
        return Observed(observation, state, self._all_alive.copy(), None)

    def step(self, actions: Array) -> VectorStep:
        if not self._whole:
            raise RuntimeError(f"{self.spec.name}: call reset() before step()")
        checked = check_actions(self.spec, self.num_envs, actions)
        self._whole = False  # until the end of the step: an interrupted step cannot be resumed
        self.step_count += 1
        outcome = self._advance(checked)
        reward = outcome.reward.astype(np.float32)
        self.episode_return += reward if outcome.score is None else outcome.score
        late = self.step_count >= self._limit
        terminated = self._none_dropped.copy() if outcome.terminated is None else outcome.terminated
        truncated = late if outcome.terminated is None else late & ~terminated
        info = outcome.info
        info["episode_return"], info["episode_length"] = self.episode_return.copy(), self.step_count.copy()

        final_observation, final_state = self._observe(ALL)
        observation, state = final_observation, final_state
        done = truncated if outcome.terminated is None else truncated | terminated
        if self.autoreset and done.any():
            rows = np.flatnonzero(done)
            self._start(rows)
            observation, state = final_observation.copy(), final_state.copy()
            observation[rows], state[rows] = self._observe(rows)
        self._whole = True
        return VectorStep(
            observation=observation,
            state=state,
            alive=self._all_alive.copy(),
            action_mask=None,
            reward=reward,
            agent_reward=(
                np.repeat(reward, self.spec.num_agents).reshape(self.num_envs, -1)
                if outcome.agent_reward is None
                else outcome.agent_reward.astype(np.float32)
            ),
            terminated=terminated,
            truncated=truncated,
            final_observation=final_observation,
            final_state=final_state,
            final_alive=self._all_alive & ~terminated[:, None],
            dropped=self._none_dropped.copy(),
            info=info,
        )

    def _saved(self) -> dict[str, Array]:
        own = {"streams": self.streams.state, "step_count": self.step_count, "episode_return": self.episode_return}
        return {**own, **self._arrays()}

    def state_dict(self) -> dict[str, Array]:
        if not self._whole:
            raise RuntimeError(
                f"{self.spec.name}: no state to save; call reset() first, also after an interrupted step"
            )
        return {"format_version": np.array(FORMAT_VERSION), **{k: v.copy() for k, v in self._saved().items()}}

    def load_state_dict(self, state: Mapping[str, Array]) -> Observed:
        live = self._saved()
        check_saved(self.spec.name, state, live)
        for name, array in live.items():
            array[...] = state[name]
        self._whole = True
        return self._observed()


def check_saved(name: str, state: Mapping[str, Array], live: Mapping[str, Array]) -> None:
    """Refuse a saved state of another format, environment or number of worlds before anything is overwritten."""
    version = int(state["format_version"]) if "format_version" in state else None
    if version != FORMAT_VERSION:
        raise ValueError(f"{name}: saved state has format_version {version}; this version reads {FORMAT_VERSION}")
    if set(state) - {"format_version"} != set(live):
        raise ValueError(f"{name}: saved state of another environment: it holds {sorted(state)}, not {sorted(live)}")
    for key, array in live.items():
        saved = state[key]
        if saved.shape != array.shape or saved.dtype != array.dtype:
            raise ValueError(
                f"{name}: saved {key} is {saved.dtype}{saved.shape}, expected {array.dtype}{array.shape}; "
                "load it with the options it was saved with"
            )
