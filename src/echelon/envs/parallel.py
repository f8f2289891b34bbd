"""One world of our own environments as a PettingZoo `ParallelEnv`."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from echelon.envs.dense import DenseEnv
from echelon.envs.vector import BoxActions, DiscreteActions, VectorStep
from echelon.runtime.arrays import Array, Float32


class SingleWorld(ParallelEnv):  # type: ignore[misc]
    """A batch of one world, seen agent by agent. `reset(seed=s)` gives the episode of any world with seed s.

    Without a seed, `reset` continues the world's random stream; the first one starts from seed 0.
    """

    def __init__(self, worlds: DenseEnv, low: float, high: float, render_mode: str | None = None) -> None:
        if worlds.num_envs != 1 or worlds.autoreset:
            raise ValueError("a single world needs num_envs=1 and autoreset=False")
        if render_mode not in (None, "human", "rgb_array"):
            raise ValueError(f"render_mode={render_mode!r} must be None, 'human' or 'rgb_array'")
        self.worlds, self.render_mode = worlds, render_mode
        spec = worlds.spec
        self.metadata = {
            "name": spec.name,
            "render_modes": ["human", "rgb_array"],
            "render_fps": 10,
            "is_parallelizable": True,
        }
        self.possible_agents = list(spec.agents)
        self.agents: list[str] = []
        self.observation_spaces: dict[str, Space[Any]] = {
            a: Box(low, high, (width,), np.float32) for a, width in zip(spec.agents, spec.obs_dims, strict=True)
        }
        self.action_spaces = {a: _action_space(spec.actions, i) for i, a in enumerate(spec.agents)}
        self.state_space = Box(low, high, (spec.state_dim,), np.float32)
        self._state = np.zeros(spec.state_dim, dtype=np.float32)
        self._window: Any = None

    def observation_space(self, agent: str) -> Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Float32], dict[str, dict[str, Any]]]:
        seen = self.worlds.reset(None if seed is None else [seed])
        self.agents = list(self.possible_agents)
        self._state = seen.state[0]
        self._show()
        return self._by_agent(seen.observation[0]), {a: {} for a in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Float32], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        if not self.agents:
            return {}, {}, {}, {}, {}
        if set(actions) != set(self.agents):
            raise ValueError(f"actions for {sorted(actions)}; every one of {self.agents} must act")
        joint = np.asarray([[actions[a] for a in self.agents]])
        step = self.worlds.step(joint)
        self._state = step.final_state[0]
        acted, infos = self.agents, self._infos(step)
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        if terminated or truncated:
            self.agents = []
        self._show()
        return (
            self._by_agent(step.final_observation[0]),
            {a: float(step.agent_reward[0, i]) for i, a in enumerate(acted)},
            dict.fromkeys(acted, terminated),
            dict.fromkeys(acted, truncated),
            infos,
        )

    def _by_agent(self, observation: Float32) -> dict[str, Float32]:
        widths = zip(self.possible_agents, self.worlds.spec.obs_dims, strict=True)
        return {a: observation[i, :width].copy() for i, (a, width) in enumerate(widths)}

    def _infos(self, step: VectorStep) -> dict[str, dict[str, Any]]:
        """The whole world's info for every agent; plain Python numbers where there is one, else arrays."""
        shared = {k: v[0].item() if v.ndim == 1 else v[0] for k, v in step.info.items()}
        return {a: dict(shared) for a in self.possible_agents}

    def state(self) -> Float32:
        return self._state.copy()

    def render(self) -> NDArray[np.uint8] | None:
        if self.render_mode is None:
            raise ValueError("render() needs render_mode='human' or 'rgb_array' when the environment is made")
        if self.render_mode == "rgb_array":
            return self.worlds.render()
        self._show()
        return None

    def _show(self) -> None:
        if self.render_mode != "human":
            return
        import matplotlib.pyplot as plt

        frame: Array = self.worlds.render()
        if self._window is None:
            plt.ion()
            figure = plt.figure(self.worlds.spec.name, figsize=(frame.shape[1] / 100, frame.shape[0] / 100))
            axes = figure.add_axes((0, 0, 1, 1))
            axes.set_axis_off()
            self._window = figure, axes.imshow(frame)
        figure, image = self._window
        image.set_data(frame)
        figure.canvas.draw_idle()
        figure.canvas.flush_events()

    def close(self) -> None:
        if self._window is not None:
            import matplotlib.pyplot as plt

            plt.close(self._window[0])
            self._window = None
        self.worlds.close()


def _action_space(actions: DiscreteActions | BoxActions, agent: int) -> Space[Any]:
    if isinstance(actions, DiscreteActions):
        return Discrete(actions.counts[agent])
    return Box(actions.low_array[agent], actions.high_array[agent], dtype=np.float32)
