"""Alice_and_Bob: two agents must stand in two places at once, twice, before there is any reward.

An 8 × 8 room. A diamond is collected while one agent stands on it and the other stands on the button of its colour.
The team gets reward 1 once, at the step when the second diamond is collected, and nothing before. The episode continues
to its fixed horizon all the same: if success ended it, a policy that merely pays a cost for every step would learn to
finish in order to stop paying (option `terminate_on_success` to see that).

A world is two small integers: where the agents stand (`pair`) and what they hold (`held`). A step is two look-ups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.envs.dense import DenseEnv, Outcome, Rows
from echelon.envs.parallel import SingleWorld
from echelon.envs.vector import DiscreteActions, EnvSpec, Position
from echelon.runtime.arrays import Array, Float32

SIDE = 8
CELLS = SIDE * SIDE
AGENTS = ("alice", "bob")
ACTION_NAMES = ("stay", "up", "down", "left", "right")
ACTIONS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))  # as (rows, columns)

BLUE_BUTTON, RED_BUTTON = 0, SIDE - 1  # cell = row × 8 + column
RED_DIAMOND, BLUE_DIAMOND = CELLS - SIDE, CELLS - 1
RED, BLUE, BOTH = 1, 2, 3  # bits of `held`


def _moves() -> Array:
    """Where each action leads from each cell; walls block."""
    rows, columns = np.divmod(np.arange(CELLS)[:, None], SIDE)  # (64, 1)
    steps = np.array(ACTIONS)
    row: Array = np.clip(rows + steps[:, 0], 0, SIDE - 1)
    column: Array = np.clip(columns + steps[:, 1], 0, SIDE - 1)
    return row * SIDE + column  # (64, 5)


def _pair_moves() -> Array:
    """Where each joint action (5·alice + bob) leads from each pair of cells (64·alice + bob), flattened."""
    alice = _moves()[:, None, :, None]  # (64, 1, 5, 1)
    bob = _moves()[None, :, None, :]  # (1, 64, 1, 5)
    return (alice * CELLS + bob).reshape(-1).astype(np.int64)  # (4096 * 25,)


def _pair_gains() -> Array:
    """The diamonds that standing on each pair of cells collects, as bits."""
    alice, bob = np.divmod(np.arange(CELLS * CELLS), CELLS)
    gains = np.zeros(CELLS * CELLS, dtype=np.int64)
    for bit, button, diamond in ((RED, RED_BUTTON, RED_DIAMOND), (BLUE, BLUE_BUTTON, BLUE_DIAMOND)):
        collected = ((alice == diamond) & (bob == button)) | ((bob == diamond) & (alice == button))
        gains[collected] |= bit
    return gains  # (4096,)


def _views() -> Float32:
    """Both agents' observations for every pair and every `held`: own position, the other's, red held, blue held."""
    pair, held = np.divmod(np.arange(CELLS * CELLS * 4), 4)
    cells = np.stack(np.divmod(pair, CELLS), axis=1)  # (N, 2)
    place = np.stack(np.divmod(cells, SIDE), axis=2) * (2.0 / (SIDE - 1)) - 1.0  # (N, 2, 2) in [-1, 1]
    flags = np.stack([held & RED, (held & BLUE) // BLUE], axis=1)  # (N, 2)
    views = np.empty((len(pair), 2, 6), dtype=np.float32)
    views[:, :, 0:2], views[:, :, 2:4], views[:, :, 4:6] = place, place[:, ::-1], flags[:, None]
    return views


PAIR_MOVES, PAIR_GAINS, VIEWS = _pair_moves(), _pair_gains(), _views()


class AliceAndBob(DenseEnv):
    """B rooms at once. Observation (6): own and the other's position in [−1, 1], two flags; state: Alice's view."""

    def __init__(
        self,
        num_envs: int,
        seed: int | Sequence[int] = 0,
        *,
        max_steps: int = 100,
        terminate_on_success: bool = False,
        autoreset: bool = True,
    ) -> None:
        spec = EnvSpec(
            "alice_and_bob",
            AGENTS,
            (6, 6),
            6,
            DiscreteActions((5, 5)),
            max_steps,
            state_places=tuple(range(6)),
            position=Position(1, 0, -1.0),
            action_names=ACTION_NAMES,
        )
        super().__init__(spec, num_envs, seed, autoreset=autoreset)
        self.terminate_on_success = terminate_on_success
        self.pair = np.zeros(num_envs, dtype=np.int64)
        self.held = np.zeros(num_envs, dtype=np.int64)

    def _begin(self, rows: Rows) -> None:
        draws = self.streams.uniform(rows, 2)  # (W, 2)
        alice = (draws[:, 0] * CELLS).astype(np.int64)
        bob = (draws[:, 1] * (CELLS - 1)).astype(np.int64)
        bob += bob >= alice  # any cell but Alice's
        self.pair[rows] = alice * CELLS + bob
        self.held[rows] = 0

    def _advance(self, actions: Array) -> Outcome:
        had_both = self.held == BOTH
        self.pair = PAIR_MOVES.take(self.pair * 25 + actions[:, 0] * 5 + actions[:, 1])
        self.held |= PAIR_GAINS.take(self.pair)
        success = self.held == BOTH
        now = success & ~had_both
        return Outcome(now, now if self.terminate_on_success else None, {"success": success})

    def _observe(self, rows: Rows) -> tuple[Float32, Float32]:
        views = VIEWS.take((self.pair * 4 + self.held)[rows], axis=0)  # (W, 2, 6)
        return views, views[:, 0].copy()

    def _arrays(self) -> dict[str, Array]:
        return {"pair": self.pair, "held": self.held}

    def render(self, world: int = 0, colours: Sequence[str] | None = None) -> NDArray[np.uint8]:
        from echelon.envs.alice_and_bob_render import draw_room

        alice, bob = divmod(int(self.pair[world]), CELLS)
        caption = f"step {self.step_count[world]} of {self.spec.max_steps}"
        return draw_room(divmod(alice, SIDE), divmod(bob, SIDE), int(self.held[world]), caption, colours)


def parallel_env(render_mode: str | None = None, **options: Any) -> SingleWorld:
    """One room as a PettingZoo ParallelEnv; the options are those of `AliceAndBob`."""
    return SingleWorld(AliceAndBob(1, [0], autoreset=False, **options), -1.0, 1.0, render_mode)
