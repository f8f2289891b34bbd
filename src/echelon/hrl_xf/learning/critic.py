"""The critic: days with their returns as batches, the loss, and how much of the returns it explains.

loss                mean of ((return − V) / σ)², σ of the training days
explained_variance  1 − Σ (return − V)² / Σ (return − mean return of these days)²;  0 is no better than their mean

It is evaluated beside predictors that know less. Most of the variance of returns is between seats and between the
beginning and the end of a game: a table of the mean return by level and days left explains that too. What the critic
explains beyond it is what it has learnt of the day.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.dataset.datasets import MacroDataset, macro_of
from echelon.hrl_xf.dataset.split import WorldSplit
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.learning.day_returns import LEVELS, levels_of, returns_to_go, values_of
from echelon.hrl_xf.learning.figures import Figures
from echelon.hrl_xf.learning.sources import CHUNK, IN_MEMORY, in_order, join, shuffled, take
from echelon.hrl_xf.learning.task import Sums
from echelon.hrl_xf.networks.day_critic import DayCritic, game_inputs, load_critic
from echelon.hrl_xf.networks.files import Layer
from echelon.hrl_xf.options.train import EvaluateOptions
from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.hrl_xf.weights import CRITIC
from echelon.runtime.arrays import Floats, Ints

THIRDS = ("first third", "second third", "last third")
_TENTHS = 10


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


def evaluate_critic(data: TournamentData, split: WorldSplit, options: EvaluateOptions) -> Figures:
    """Explained variance and errors of returns, in initial balances: the network and three controls."""
    critic = load_critic(options.model_path or options.output_dir / CRITIC, options.device)
    days = macro_of(data)
    train, chosen = days.part(split, "train"), days.part(split, options.split)
    if not len(chosen) or not len(train):
        raise ValueError(f"the {options.split} or the train split has no days of these data; train with ratios above 0")
    returns, values = returns_to_go(data), values_of(data, critic)
    known, target = returns[train.rows], returns[chosen.rows]
    here = _facts(chosen)
    predicted = {
        "network": values[chosen.rows],
        "mean by level and days left": _table(known, _cells(train), _cells(chosen)),
        "profit per day so far continues": _same_pace(here),
        "training mean": np.full(len(target), known.mean()),
    }
    figures: Figures = {"days": {"n": len(target), "mean_return": float(target.mean()), "std": float(target.std())}}
    for name, found in predicted.items():
        figures[name] = _errors(target, found)
    level, third = levels_of(data, chosen.rows), _part(here, 3)
    groups = {name: level == i for i, name in enumerate(LEVELS)} | {n: third == i for i, n in enumerate(THIRDS)}
    figures["network"] |= {
        name: _errors(target[there], values[chosen.rows][there]) for name, there in groups.items() if there.any()
    }
    return figures


def _facts(rows: MacroDataset) -> DayBatch:
    return rows.data.tables.days(rows.rows, offers=False)


def _errors(target: Floats, predicted: Floats) -> Figures:
    error = predicted - target
    return {
        "n": len(target), "explained_variance": explained_variance(target, predicted),
        "MAE": float(np.abs(error).mean()), "bias": float(error.mean()),
    }  # fmt: skip


def _part(days: DayBatch, parts: int) -> Ints:
    """Which part of the game a day is in.  # (N,)"""
    return (parts * days.current_step / days.n_steps).astype(np.int64)


def _cells(rows: MacroDataset) -> Ints:
    return levels_of(rows.data, rows.rows) * _TENTHS + _part(_facts(rows), _TENTHS)


def _table(known: Floats, cells: Ints, at: Ints) -> Floats:
    """The training days' mean of the cell; their mean over all where the cell has none.  # (N,)"""
    size = len(LEVELS) * _TENTHS
    count = np.bincount(cells, minlength=size)
    mean = np.where(count > 0, np.bincount(cells, known, size) / np.maximum(count, 1), known.mean())
    found: Floats = mean[at]
    return found


def _same_pace(days: DayBatch) -> Floats:
    """What was earned per day so far, on all days left; 0 on the first day.  # (N,)"""
    earned = days.balance / np.maximum(days.initial_balance, 1e-6) - 1.0
    left: Floats = days.n_steps - days.current_step
    return np.where(days.current_step > 0, earned / np.maximum(days.current_step, 1.0) * left, 0.0)
