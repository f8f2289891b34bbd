"""The critic on worlds it has not seen, compared with predictors that know less.

Most of the variance of returns is between seats and between the beginning and the end of a game: a table of the mean
return by level and days left explains that too. What the critic explains beyond it is what it has learnt of the day.
"""

from __future__ import annotations

import numpy as np

from echelon.hrl_xf.dataset.datasets import MacroDataset, macro_of
from echelon.hrl_xf.dataset.split import WorldSplit
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.learning.critic import explained_variance
from echelon.hrl_xf.learning.day_returns import LEVELS, levels_of, returns_to_go, values_of
from echelon.hrl_xf.learning.figures import Figures
from echelon.hrl_xf.networks.day_critic import load_critic
from echelon.hrl_xf.options.train import EvaluateOptions
from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.hrl_xf.weights import CRITIC
from echelon.runtime.arrays import Floats, Ints

THIRDS = ("first third", "second third", "last third")
_TENTHS = 10


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
        "profit per day so far continues": _going_on(here),
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


def _going_on(days: DayBatch) -> Floats:
    """What was earned a day so far, on all days left; 0 on the first day.  # (N,)"""
    earned = days.balance / np.maximum(days.initial_balance, 1e-6) - 1.0
    left: Floats = days.n_steps - days.current_step
    return np.where(days.current_step > 0, earned / np.maximum(days.current_step, 1.0) * left, 0.0)
