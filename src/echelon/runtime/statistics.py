"""What many runs on many tasks say together: interquartile means, and stratified bootstrap intervals of them.

The method is that of Agarwal et al., *Deep reinforcement learning at the edge of the statistical precipice* (NeurIPS
2021): one lucky run shifts a mean, and a median ignores nearly all runs; the mean of the middle half does
neither. Its interval comes from drawing the runs of each task again, with replacement, task by task: tasks are given,
runs are chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from echelon.runtime.arrays import Floats

RESAMPLES = 2_000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A figure of all runs, and the percentile interval of its bootstrap distribution."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def interquartile_mean(values: ArrayLike, axis: int = -1) -> Any:
    """The mean without the lowest and the highest quarter: of n values floor(n / 4) are left out on each side."""
    ordered = np.sort(np.asarray(values, np.float64), axis)
    count = ordered.shape[axis]
    if not count:
        raise ValueError("the interquartile mean of no values is not defined; give at least one")
    middle = slice(count // 4, count - count // 4)
    return np.moveaxis(ordered, axis, -1)[..., middle].mean(-1)


def resampled(tasks: Sequence[ArrayLike], resamples: int, rng: np.random.Generator) -> Floats:
    """The scores of all tasks side by side, (resamples, runs): within each task its runs, drawn with replacement."""
    columns = []
    for scores in tasks:
        runs = np.asarray(scores, np.float64)
        if runs.ndim != 1 or not len(runs):
            raise ValueError(f"scores {runs.shape} of a task must be (runs,) with at least one run")
        columns.append(runs[rng.integers(0, len(runs), (resamples, len(runs)))])
    if not columns:
        raise ValueError("there is no task to resample; give the scores of at least one")
    return np.concatenate(columns, 1)


def stratified_bootstrap(
    tasks: Sequence[ArrayLike],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """The interquartile mean of all runs of all tasks, and the interval between the outer (1 - level) / 2 of resamples.

    With one run in every task every resample is the same: the interval is the value itself and carries no information.
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must be in (0, 1), such as 0.95")
    if resamples < 1:
        raise ValueError(f"resamples={resamples} must be at least 1")
    whole = float(interquartile_mean(np.concatenate([np.asarray(scores, np.float64) for scores in tasks])))
    low, high = np.quantile(interquartile_mean(resampled(tasks, resamples, rng)), [(1 - level) / 2, (1 + level) / 2])
    return Interval(whole, float(low), float(high))
