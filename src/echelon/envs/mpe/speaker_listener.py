"""simple_speaker_listener of `mpe2`: one agent sees the goal and says one of three words, the other hears and goes.

Three landmarks, a listener and the goal are drawn at random. The speaker sees the colour of the goal; the listener sees
its own velocity, where the landmarks are, and the word of the step before. Both earn minus the square of the distance
from the listener to the goal. Episodes of 25 steps end by truncation.

From the same places the same actions give the states, observations and rewards of `mpe2` (a test plays both). The two
agents take and see different numbers: the speaker's three words are the first of five choices, its colour the first of
eleven numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.envs.dense import DenseEnv, Outcome, Rows
from echelon.envs.mpe.physics import ACTION_NAMES, PUSHES, move
from echelon.envs.parallel import SingleWorld
from echelon.envs.vector import DiscreteActions, EnvSpec
from echelon.runtime.arrays import Array, Float32

LANDMARKS = WORDS = 3
COLOURS = np.full((LANDMARKS, 3), 0.15) + 0.5 * np.eye(LANDMARKS)
"""Of the landmarks, red, green and blue."""
SEEN, HEARD = 2 + 2 * LANDMARKS, 2 + 2 * LANDMARKS + WORDS
SPEAKER, LISTENER = range(2)


class SimpleSpeakerListener(DenseEnv):
    """B squares, each with a speaker and a listener."""

    def __init__(
        self, num_envs: int, seed: int | Sequence[int] = 0, *, max_steps: int = 25, autoreset: bool = True
    ) -> None:
        spec = EnvSpec(
            "simple_speaker_listener",
            ("speaker_0", "listener_0"),
            (len(COLOURS), HEARD),
            len(COLOURS) + HEARD,
            DiscreteActions((WORDS, len(PUSHES))),
            max_steps,
            state_joined=True,
            action_names=ACTION_NAMES,
        )
        super().__init__(spec, num_envs, seed, autoreset=autoreset)
        self.position, self.velocity = np.zeros((num_envs, 2)), np.zeros((num_envs, 2))  # of the listener
        self.landmarks = np.zeros((num_envs, LANDMARKS, 2))
        self.goal, self.word = np.zeros(num_envs, dtype=np.int64), np.zeros(num_envs, dtype=np.int64)

    def _begin(self, rows: Rows) -> None:
        draws = self.streams.uniform(rows, 3 + 2 * LANDMARKS)
        self.goal[rows] = (draws[:, 0] * LANDMARKS).astype(np.int64)
        self.position[rows] = draws[:, 1:3] * 2.0 - 1.0
        self.landmarks[rows] = draws[:, 3:].reshape(-1, LANDMARKS, 2) * 2.0 - 1.0
        self.velocity[rows], self.word[rows] = 0.0, -1  # nothing is said before the first step

    def _advance(self, actions: Array) -> Outcome:
        move(self.position, self.velocity, PUSHES[actions[:, LISTENER]])
        self.word[:] = actions[:, SPEAKER]
        goal = self.landmarks[np.arange(self.num_envs), self.goal]
        squares = np.square(self.position - goal)
        return Outcome(-(squares[:, 0] + squares[:, 1]), None, {})

    def _observe(self, rows: Rows) -> tuple[Float32, Float32]:
        position, word = self.position[rows], self.word[rows]
        out = np.zeros((len(position), 2, HEARD), dtype=np.float32)
        out[:, SPEAKER, : len(COLOURS)] = COLOURS[self.goal[rows]]
        out[:, LISTENER, 0:2] = self.velocity[rows]
        out[:, LISTENER, 2:SEEN] = (self.landmarks[rows] - position[:, None]).reshape(len(position), -1)
        out[:, LISTENER, SEEN:] = word[:, None] == np.arange(WORDS)
        return out, self.spec.state_from(out)

    def _arrays(self) -> dict[str, Array]:
        return {
            "position": self.position,
            "velocity": self.velocity,
            "landmarks": self.landmarks,
            "goal": self.goal,
            "word": self.word,
        }

    def render(self, world: int = 0, colours: Sequence[str] | None = None) -> NDArray[np.uint8]:
        from echelon.envs.mpe.render import Disc, draw_square

        goal, word = int(self.goal[world]), int(self.word[world])
        marks = [
            Disc(place, 0.08 if i == goal else 0.04, tuple(COLOURS[i].tolist()))
            for i, place in enumerate(self.landmarks[world])
        ]
        own = colours[LISTENER] if colours else "#40454d"
        listener = Disc(self.position[world], 0.075, own, "" if word < 0 else "ABC"[word])
        caption = f"step {self.step_count[world]} of {self.spec.max_steps}   ·   the goal is the large landmark"
        return draw_square("simple_speaker_listener", caption, [*marks, listener])


def parallel_env(render_mode: str | None = None, **options: Any) -> SingleWorld:
    """One square as a PettingZoo ParallelEnv; the options are those of `SimpleSpeakerListener`."""
    return SingleWorld(SimpleSpeakerListener(1, [0], autoreset=False, **options), -np.inf, np.inf, render_mode)
