"""Teaching the critic: days with their returns as batches, the loss, and how much of the returns it explains.

loss                mean of ((return − V) / σ)², σ of the training days
explained_variance  1 − Σ (return − V)² / Σ (return − mean return of these days)²;  0 is no better than their mean
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.dataset.datasets import MacroDataset
from echelon.hrl_xf.learning.day_returns import returns_to_go
from echelon.hrl_xf.learning.sources import CHUNK, IN_MEMORY, in_order, join, shuffled, take
from echelon.hrl_xf.learning.task import Sums
from echelon.hrl_xf.networks.day_critic import DayCritic, game_inputs
from echelon.hrl_xf.networks.files import Layer
from echelon.runtime.arrays import Floats, Ints


@dataclass(frozen=True)
class CriticRows:
    """Days."""

    x_static: Tensor  # (N, 12)
    X_temporal: Tensor  # (N, H+1, 10)
    x_role: Tensor  # (N, 2)
    x_game: Tensor  # (N, 11)
    target: Tensor  # (N,) return to go, float32
    centre: Tensor  # (N,) mean return of the whole source


class CriticSource:
    """Days for the critic, of all agents of a data set."""

    def __init__(self, data: MacroDataset) -> None:
        self._data = data
        self.target: Floats = returns_to_go(data.data)[data.rows]  # (N,)
        self.centre = float(self.target.mean()) if len(data) else 0.0
        self._rows: CriticRows | None = None
        if 0 < len(data) <= IN_MEMORY:
            self._rows = join([self._make(at) for at in in_order(len(data), CHUNK)])

    def __len__(self) -> int:
        return len(self._data)

    def _make(self, at: Ints) -> CriticRows:
        tables, rows = self._data.data.tables, self._data.rows[at]
        days = tables.days(rows)
        x, costs = tables.build(days), tables.store.take("day.costs", rows)
        target = torch.as_tensor(self.target[at], dtype=torch.float32)
        static, temporal, role, game = map(
            torch.as_tensor, (x.x_static, x.X_temporal, x.x_role, game_inputs(days, costs))
        )
        return CriticRows(static, temporal, role, game, target, torch.full_like(target, self.centre))

    def load(self, at: Ints) -> CriticRows:
        return self._make(at) if self._rows is None else take(self._rows, torch.as_tensor(at))

    def epoch(self, batch_size: int, rng: np.random.Generator | None) -> list[Ints]:
        return in_order(len(self), batch_size) if rng is None else shuffled(len(self), batch_size, rng)


def critic_loss(layer: Layer, b: CriticRows) -> tuple[Tensor, Sums]:
    """Mean square of the standardised error; the figures are in initial balances."""
    assert isinstance(layer, DayCritic)
    target = (b.target - layer.mean) / layer.std
    each = (layer.scores(b.x_static, b.X_temporal, b.x_role, b.x_game) - target) ** 2
    error = each.detach() * layer.std**2
    spread = float(((b.target - b.centre) ** 2).sum())
    n = float(len(each))
    return each.mean(), {
        "loss": (float(each.detach().sum()), n),
        "mae": (float(error.sqrt().sum()), n),
        "explained_variance": (spread - float(error.sum()), spread),
    }


def explained_variance(target: Floats, predicted: Floats) -> float:
    """1 − Σ (target − predicted)² / Σ (target − mean)²; NaN where all targets are equal."""
    spread = float(((target - target.mean()) ** 2).sum()) if len(target) else 0.0
    return 1.0 - float(((target - predicted) ** 2).sum()) / spread if spread > 0 else float("nan")
