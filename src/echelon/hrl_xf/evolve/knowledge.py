"""What is known of each level of each number: a Bayesian regression of seats' scores on what they played with.

    score of a seat − mean score of the plays of the same seat = Σ worth of its levels − mean of the same + noise

The worth of a number's levels is a Brownian motion that begins with 0 at level 0, in each direction: small weights
change less, and tell about large ones. Its prior deviation at level 1 is PRIOR, and what a term is worth to one kind of
threads tells about the others of its side (`numbers.kinship`). The noise is estimated from what the
regression leaves.

A regression over seats that each change several numbers, and not one number after another: every world tells about
all of them, and what pays only beside something else is seen beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.evolve.numbers import LEVELS, SIZE, kinship
from echelon.runtime.arrays import Bools, Floats, Ints

PRIOR = 0.02
"""Score."""
LEAST_NOISE = 0.005
"""Score."""
STATE = ("gram", "moment", "squares", "count")
ARMS = SIZE * len(LEVELS)


def prior() -> Floats:
    """Covariance of the worth of all levels before anything was played.  # (ARMS, ARMS)"""
    size = np.minimum(np.abs(LEVELS), np.abs(LEVELS)[:, None])
    same = np.sign(LEVELS) == np.sign(LEVELS)[:, None]
    found: Floats = np.kron(kinship(), PRIOR**2 * size * same)
    return found


def played_arms(levels: Ints, used: Bools) -> Floats:
    """1 where a seat played with a level of a number that matters to it.  # 2 × (N, SIZE) -> (N, ARMS)"""
    arms = (levels[:, :, None] == 1 + np.arange(len(LEVELS))) & used[:, :, None]
    found: Floats = arms.reshape(len(levels), ARMS).astype(np.float64)
    return found


class Knowledge:
    """Sums over all seats so far, earlier ones counting less."""

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self.gram, self.moment = np.zeros((ARMS, ARMS)), np.zeros(ARMS)
        self.squares, self.count = np.zeros(1), np.zeros(1)
        self._posterior: tuple[Floats, Floats] | None = None

    def add(self, arms: Floats, score: Floats, group: Ints) -> None:
        """Seats with what they played with; those of one group differ in nothing else.  # (N, ARMS), (N,), (N,)"""
        seats = np.bincount(group)
        x = arms - (_sums(group, arms) / np.maximum(seats, 1)[:, None])[group]
        y = score - (np.bincount(group, score) / np.maximum(seats, 1))[group]
        m = self.memory
        self.gram, self.moment = m * self.gram + x.T @ x, m * self.moment + x.T @ y
        self.squares = m * self.squares + y @ y
        self.count = m * self.count + len(y) - (seats > 0).sum()
        self._posterior = None

    def posterior(self) -> tuple[Floats, Floats]:
        """Mean and covariance of the worth of all levels, not to be changed.  # (ARMS,), (ARMS, ARMS)"""
        if self._posterior is None:
            self._posterior = self._solved()
        return self._posterior

    def _solved(self) -> tuple[Floats, Floats]:
        before, mean, covariance = _inverse(prior()), np.zeros(ARMS), prior()
        for _ in range(3):  # noise and worth, each from the other
            left = self.squares - 2.0 * mean @ self.moment + mean @ self.gram @ mean
            noise = np.maximum(left / np.maximum(self.count, 1.0), LEAST_NOISE**2)
            covariance = _inverse(before + self.gram / noise)
            mean = covariance @ self.moment / noise
        return mean, (covariance + covariance.T) / 2.0

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that changes."""
        return {name: torch.from_numpy(getattr(self, name).copy()) for name in STATE}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state, bit for bit."""
        for name in STATE:
            setattr(self, name, state[name].numpy().copy())
        self._posterior = None


def best_levels(worth: Floats) -> Ints:
    """The level of each number that is worth most, 0 if none is worth anything.  # (ARMS,) -> (SIZE,)"""
    table = worth.reshape(SIZE, len(LEVELS))
    found: Ints = np.where(table.max(1) > 0.0, 1 + table.argmax(1), 0)
    return found


def _sums(group: Ints, rows: Floats) -> Floats:
    found = np.zeros((int(group.max(initial=-1)) + 1, rows.shape[1]))
    np.add.at(found, group, rows)
    return found


def _inverse(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.inv(matrix), np.float64)
