"""Normalisation of advantages (over one batch) and of value targets (running, debiased)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from echelon.runtime.arrays import Array


def normalize_advantage(advantage: Array, acts: Array, std_floor: float = 1e-5) -> Array:
    """(A - mean) / max(std, std_floor) over the entries that act; 0 elsewhere.

    The floor matters when a batch has no signal: with all rewards zero the deviation is the critic's noise, and
    dividing by it would turn noise into full-size steps.
    """
    if advantage.shape != acts.shape:
        raise ValueError(f"advantage {advantage.shape} and acts {acts.shape} must have one shape")
    acting = advantage[acts]
    if acting.size == 0:
        return np.zeros_like(advantage)
    scaled: Array = (advantage - acting.mean()) / max(float(acting.std()), std_floor)
    return np.where(acts, scaled, 0.0)


class ValueNormalizer:
    """Running mean and deviation of returns; a critic predicts (return - mean) / std.

    The deviation is at least `std_floor`, so that nearly constant returns are not amplified.

    Exponential averages of x and x^2 with decay beta, one step per update, divided by their total weight 1 - beta^n
    (debiased), so that the first batch counts in full and nothing pulls the mean to zero:

        m <- beta m + (1 - beta) mean(x),   w <- beta w + (1 - beta),   mean = m / w,   var = s / w - mean^2
    """

    def __init__(self, beta: float = 0.99999, std_floor: float = 0.1) -> None:
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"beta={beta} must be in [0, 1)")
        if std_floor <= 0.0:
            raise ValueError(f"std_floor={std_floor} must be positive")
        self.beta, self.std_floor = beta, std_floor
        self._sum, self._square, self._weight = 0.0, 0.0, 0.0

    @property
    def mean(self) -> float:
        """Mean of returns; 0 before the first update."""
        return self._sum / self._weight if self._weight else 0.0

    @property
    def std(self) -> float:
        """Deviation of returns, at least the floor; 1 before the first update."""
        if not self._weight:
            return 1.0
        variance = self._square / self._weight - self.mean**2
        return max(float(np.sqrt(max(variance, 0.0))), self.std_floor)

    def update(self, returns: Array) -> None:
        """Update with one batch of returns (of any shape); an empty one changes nothing."""
        if returns.size == 0:
            return
        mean, square = float(np.mean(returns)), float(np.mean(np.square(returns)))
        if not np.isfinite(square):
            raise ValueError("returns must be finite; one NaN would make the running mean NaN")
        keep, take = self.beta, 1.0 - self.beta
        self._sum = keep * self._sum + take * mean
        self._square = keep * self._square + take * square
        self._weight = keep * self._weight + take

    def normalize(self, returns: Array) -> Array:
        """From units of reward to units of the critic."""
        scaled: Array = (returns - self.mean) / self.std
        return scaled

    def denormalize(self, value: Array) -> Array:
        """From units of the critic to units of reward."""
        scaled: Array = value * self.std + self.mean
        return scaled

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that changes, as tensors."""
        return {"moments": torch.tensor([self._sum, self._square, self._weight], dtype=torch.float64)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state."""
        self._sum, self._square, self._weight = (float(x) for x in state["moments"])
