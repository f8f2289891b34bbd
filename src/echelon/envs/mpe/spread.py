"""simple_spread of `mpe2`: agents cover landmarks and avoid each other.

As many landmarks as agents, all at random places of a square of side 2. Every agent earns a mix of what all share,
minus the distances from each landmark to the agent nearest to it, and of its own: −1 for each agent that it touches.
`local_ratio` is the share of its own part. The team earns the mean. Episodes of 25 steps end by truncation.

Landmarks and other agents are declared as sets, so that networks treat all of a kind alike; with `sets=false` what is
seen is a plain vector.

From the same places the same actions give the states, observations and rewards of `mpe2` (a test plays both). Its
options for partial sight, curricula, continuous actions and early ends are not here: use `mpe2` itself for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.envs.dense import DenseEnv, Outcome, Rows
from echelon.envs.entities import EntitySet, joined_sets
from echelon.envs.mpe.physics import ACTION_NAMES, PUSHES, add_contact_forces, length, move
from echelon.envs.parallel import SingleWorld
from echelon.envs.vector import DiscreteActions, EnvSpec
from echelon.runtime.arrays import Array, Float32

SIZE = 0.15
COVERED = 0.1
"""A landmark is covered where an agent is nearer than this."""
SILENCE = 2
"""Numbers that an agent sees of what each other one says: zeros, since nobody speaks."""


class SimpleSpread(DenseEnv):
    """B squares. Observation: own velocity and position, landmarks and other agents relative to it, silence."""

    def __init__(
        self,
        num_envs: int,
        seed: int | Sequence[int] = 0,
        *,
        agents: int = 3,
        local_ratio: float = 0.5,
        max_steps: int = 25,
        sets: bool = True,
        autoreset: bool = True,
    ) -> None:
        if agents < 2:
            raise ValueError(f"agents={agents} must be at least 2")
        if not 0 <= local_ratio <= 1:
            raise ValueError(f"local_ratio={local_ratio} must be in 0 .. 1")
        width = 4 + 2 * agents + (2 + SILENCE) * (agents - 1)
        names = tuple(f"agent_{i}" for i in range(agents))
        others, landmarks = EntitySet("others", 4 + 2 * agents, agents - 1, 2), EntitySet("landmarks", 4, agents, 2)
        seen = (others, landmarks) if sets else ()  # what is known of the others is the landmarks' context
        spec = EnvSpec(
            "simple_spread",
            names,
            (width,) * agents,
            width * agents,
            DiscreteActions((len(PUSHES),) * agents),
            max_steps,
            state_joined=True,
            observation_sets=seen,
            state_sets=joined_sets(seen, names, (width,) * agents),
            action_names=ACTION_NAMES,
        )
        super().__init__(spec, num_envs, seed, autoreset=autoreset)
        self.local_ratio = local_ratio
        self.position, self.velocity, self.landmarks = (np.zeros((num_envs, agents, 2)) for _ in range(3))
        self.collisions = np.zeros(num_envs, dtype=np.int64)
        index = np.arange(agents)
        self._others = np.array([index[index != i] for i in index])  # (n, n - 1)

    def _begin(self, rows: Rows) -> None:
        agents = self.spec.num_agents
        places = self.streams.uniform(rows, 4 * agents).reshape(-1, 2, agents, 2) * 2.0 - 1.0
        self.position[rows], self.landmarks[rows] = places[:, 0], places[:, 1]
        self.velocity[rows], self.collisions[rows] = 0.0, 0

    def _advance(self, actions: Array) -> Outcome:
        force = PUSHES[actions]  # (B, n, 2)
        add_contact_forces(force, self.position, 2 * SIZE)
        move(self.position, self.velocity, force)
        nearest = length(self.landmarks[:, :, None] - self.position[:, None]).min(2)  # (B, n)
        touched = self._touched()  # (B, n)
        shared, own = -nearest.sum(1), -touched
        paid = shared[:, None] * (1 - self.local_ratio) + own * self.local_ratio
        self.collisions += touched.sum(1) // 2
        told = {"covered": (nearest < COVERED).sum(1), "collisions": self.collisions.copy()}
        return Outcome(paid.mean(1), None, told, agent_reward=paid)

    def _touched(self) -> Array:
        """How many other agents each one touches, (B, n)."""
        apart = length(self.position[:, :, None] - self.position[:, None])  # (B, n, n)
        touched: Array = (apart < 2 * SIZE).sum(2) - 1  # itself
        return touched

    def _observe(self, rows: Rows) -> tuple[Float32, Float32]:
        position = self.position[rows]
        agents, worlds = self.spec.num_agents, len(position)
        out = np.zeros((worlds, agents, self.spec.obs_dim), dtype=np.float32)
        out[:, :, 0:2], out[:, :, 2:4] = self.velocity[rows], position
        landmarks = self.landmarks[rows][:, None] - position[:, :, None]  # (W, n, n, 2)
        others = position[:, self._others] - position[:, :, None]  # (W, n, n - 1, 2)
        split = 4 + 2 * agents
        out[:, :, 4:split] = landmarks.reshape(worlds, agents, -1)
        out[:, :, split : split + 2 * (agents - 1)] = others.reshape(worlds, agents, -1)
        return out, out.reshape(worlds, -1).copy()

    def _arrays(self) -> dict[str, Array]:
        return {
            "position": self.position,
            "velocity": self.velocity,
            "landmarks": self.landmarks,
            "collisions": self.collisions,
        }

    def render(self, world: int = 0, colours: Sequence[str] | None = None) -> NDArray[np.uint8]:
        from echelon.envs.mpe.render import Disc, draw_square

        marks = [Disc(place, 0.05, "#40454d") for place in self.landmarks[world]]
        own = colours or ["#3a6fd8"] * self.spec.num_agents
        discs = [Disc(place, SIZE, own[i], str(i)) for i, place in enumerate(self.position[world])]
        caption = f"step {self.step_count[world]} of {self.spec.max_steps}   ·   collisions: {self.collisions[world]}"
        return draw_square("simple_spread", caption, [*marks, *discs])


def parallel_env(render_mode: str | None = None, **options: Any) -> SingleWorld:
    """One square as a PettingZoo ParallelEnv; the options are those of `SimpleSpread`."""
    return SingleWorld(SimpleSpread(1, [0], autoreset=False, **options), -np.inf, np.inf, render_mode)
