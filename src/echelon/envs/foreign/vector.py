"""Third-party environments behind the batched protocol: in this process, or in worker processes with shared memory.

`SerialVectorEnv` is for debugging and tests, `WorkerVectorEnv` for use; both give the same numbers. Workers are
spawned, so a script that makes one needs the usual `if __name__ == "__main__":`. A third-party environment cannot be
asked for its inner state, so a saved state holds the seed and the actions of the running episode, and loading replays
them; the result is compared with the saved observations, and where it differs a new episode begins.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from echelon.envs.dense import check_saved
from echelon.envs.foreign.block import Crash, Note, WorldBlock, crash_message, layout, size_of, views_of
from echelon.envs.random_streams import world_seeds
from echelon.envs.vector import FORMAT_VERSION, Observed, VectorEnv, VectorStep, check_actions
from echelon.runtime.arrays import Array

log = logging.getLogger(__name__)

TeamReward = Literal["mean", "sum"]


def team_reward(agent_reward: Array, acted: Array, kind: TeamReward) -> Array:
    """The team's reward (B,) of a step, from what its agents got (B, n).

    `mean`: over those who acted, so that a reward all agents share stays the same when some have died. `sum`: of all,
    for individual rewards.
    """
    if kind == "sum":
        total: Array = agent_reward.sum(axis=1)
        return total
    mean: Array = np.where(acted, agent_reward, np.float32(0.0)).sum(axis=1) / np.maximum(acted.sum(axis=1), 1)
    return mean.astype(np.float32)


class ForeignVectorEnv(VectorEnv):
    """What both variants share: seeds, the copy out of the arrays, save and load."""

    arrays: dict[str, Array]
    masked: bool

    def __init__(self, factory: str, num_envs: int, seed: int | Sequence[int], team_reward: TeamReward) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs={num_envs} must be at least 1")
        if team_reward not in ("mean", "sum"):
            raise ValueError(f"team_reward={team_reward!r} must be 'mean' or 'sum' of the agents' rewards")
        self.factory, self.num_envs, self.team_reward = factory, num_envs, team_reward
        self._first_seeds = world_seeds(seed, num_envs)
        self._history: deque[Array] = deque()
        self._length = np.zeros(num_envs, dtype=np.int64)
        self._return = np.zeros(num_envs, dtype=np.float64)
        self._whole = False
        self._notes: list[Note] = []

    @abstractmethod
    def _command(self, name: str, *arguments: Any) -> list[Crash]:
        """Have all blocks do `name`: reset, step, replay or renew."""

    def _seed(self, seeds: Sequence[int]) -> None:
        self.arrays["world_seed"][:] = seeds
        self.arrays["episode"][:] = -1
        self.arrays["crashes"][:] = 0

    def reset(self, seed: int | Sequence[int] | None = None) -> Observed:
        if not self.arrays:
            raise RuntimeError(f"{self.factory}: the environment is closed; make a new one")
        if seed is not None:
            self._seed(world_seeds(seed, self.num_envs))
        self._warn(self._command("reset"))
        self._history.clear()
        self._length[:], self._return[:] = 0, 0.0
        self._whole = True
        return self._observed()

    def _observed(self) -> Observed:
        a = self.arrays
        mask = a["action_mask"].copy() if self.masked else None
        return Observed(a["observation"].copy(), a["state"].copy(), a["alive"].copy(), mask)

    def step(self, actions: Array) -> VectorStep:
        if not self._whole:
            raise RuntimeError(f"{self.factory}: call reset() before step()")
        a = self.arrays
        checked = check_actions(self.spec, self.num_envs, actions, a["alive"])
        self._whole = False  # until the end of the step: an interrupted step cannot be resumed
        acted = a["alive"].copy()
        a["actions"][:] = checked
        self._history.append(checked)
        self._notes = []
        self._warn(self._command("step"))
        agent_reward = a["agent_reward"].copy()
        reward = team_reward(agent_reward, acted, self.team_reward)
        self._length += 1
        self._return += reward
        info: dict[str, Array] = {"episode_return": self._return.copy(), "episode_length": self._length.copy()}
        for world, told in self._notes:
            for metric, value in told.items():
                info.setdefault(metric, np.full(self.num_envs, np.nan))[world] = value
        terminated, truncated = a["terminated"].copy(), a["truncated"].copy()
        ended = terminated | truncated
        self._length[ended], self._return[ended] = 0, 0.0
        while len(self._history) > self._length.max():
            self._history.popleft()
        seen = self._observed()
        self._whole = True
        return VectorStep(
            observation=seen.observation,
            state=seen.state,
            alive=seen.alive,
            action_mask=seen.action_mask,
            reward=reward,
            agent_reward=agent_reward,
            terminated=terminated,
            truncated=truncated,
            final_observation=a["final_observation"].copy(),
            final_state=a["final_state"].copy(),
            final_alive=a["final_alive"].copy(),
            dropped=a["dropped"].copy(),
            info=info,
        )

    def _warn(self, crashes: list[Crash]) -> None:
        for crash in crashes:
            log.warning("%s", crash_message(self.factory, crash))

    def _saved(self) -> dict[str, Array]:
        names = ["observation", "state", "alive", "world_seed", "episode", "crashes"]
        own = {name: self.arrays[name] for name in names}
        return {**own, "length": self._length, "episode_return": self._return}

    def state_dict(self) -> dict[str, Array]:
        if not self._whole:
            raise RuntimeError(f"{self.factory}: nothing to save; call reset() first, also after an interrupted step")
        shape = self.spec.action_shape(self.num_envs)
        history = np.array(self._history, dtype=self.spec.action_dtype).reshape(-1, *shape)  # (T, B, n[, width])
        saved = {name: array.copy() for name, array in self._saved().items()}
        return {"format_version": np.array(FORMAT_VERSION), "history": history, **saved}

    def load_state_dict(self, state: Mapping[str, Array]) -> Observed:
        if "history" not in state:
            raise ValueError(f"{self.factory}: the saved state has no action history; it is of another environment")
        history = state["history"]
        check_saved(self.factory, {k: v for k, v in state.items() if k != "history"}, self._saved())
        if history.shape[1:] != self.spec.action_shape(self.num_envs) or len(history) < state["length"].max():
            raise ValueError(f"{self.factory}: saved history {history.shape} does not fit its lengths: damaged file")
        for name in ("world_seed", "episode", "crashes"):
            self.arrays[name][:] = state[name]
        self._length[:], self._return[:] = state["length"], state["episode_return"]
        self._history = deque(np.array(joint) for joint in history)
        self._renew(self._command("replay", history, self._length), state)
        self._whole = True
        return self._observed()

    def _renew(self, crashes: list[Crash], state: Mapping[str, Array]) -> None:
        """New episodes in worlds that did not come back as they were saved."""
        broken, differs = (np.zeros(self.num_envs, dtype=np.bool_) for _ in range(2))
        broken[[crash.world for crash in crashes]] = True  # these have begun one already
        for name in ("observation", "state", "alive"):
            differs |= (self.arrays[name] != state[name]).reshape(self.num_envs, -1).any(axis=1)
        differs &= ~broken
        if differs.any():
            self._warn(self._command("renew", differs))
        renewed = broken | differs
        self._length[renewed], self._return[renewed] = 0, 0.0
        self.renewed = renewed if renewed.any() else None
        if self.renewed is not None:
            log.warning(
                "%s: %d of %d worlds did not reach their saved state when their seeds and actions were "
                "replayed (the environment is not deterministic%s); new episodes begin there",
                self.factory, int(renewed.sum()), self.num_envs, f": {crashes[0].error}" if crashes else "",
            )  # fmt: skip


class SerialVectorEnv(ForeignVectorEnv):
    """All worlds in this process, one after the other."""

    def __init__(
        self,
        factory: str,
        num_envs: int,
        seed: int | Sequence[int] = 0,
        *,
        kwargs: Mapping[str, Any] | None = None,
        team_reward: TeamReward = "mean",
    ) -> None:
        super().__init__(factory, num_envs, seed, team_reward)
        self._block = WorldBlock(factory, kwargs or {}, 0, num_envs)
        self.spec, self.masked = self._block.spec, self._block.masked
        arrays = layout(self.spec, num_envs, self.masked)
        self.arrays = self._block.arrays = views_of(arrays, bytearray(size_of(arrays)))
        self._seed(self._first_seeds)

    def _command(self, name: str, *arguments: Any) -> list[Crash]:
        crashes = self._block.command(name, *arguments)
        self._notes += self._block.notes()
        return crashes

    def render(self, world: int = 0, colours: Sequence[str] | None = None) -> NDArray[np.uint8]:
        return self._block.render(world)

    def close(self) -> None:
        self._block.close()
