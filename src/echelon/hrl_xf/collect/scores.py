"""The one scorer: from scores by configuration to a mean with its interval and the league's truncated mean.

A configuration is the unit of chance: its worlds and seats share factories and prices, so intervals resample whole
configurations (clusters). With clusters i of n_i scores that sum to s_i, one resample is Σ s_i / Σ n_i over as many
clusters, drawn with replacement; the interval is from the 2.5 % to the 97.5 % quantile of the resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from negmas.helpers.numeric import truncated_mean

from echelon.hrl_xf.collect.world import WorldResult
from echelon.runtime.arrays import Floats
from echelon.runtime.seeding import rng

RESAMPLES = 2_000
_CHUNK = 1000


class Estimate(msgspec.Struct, frozen=True):
    """A mean with its bootstrap 95 % interval."""

    mean: float
    low: float
    high: float


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """A competitor's scores, summed up."""

    seats: int
    """scores counted: one per seat and world"""
    configurations: int
    """they are of"""
    score: Estimate
    truncated_mean: float
    """the league's ranking: outliers above the third quartile + 2 interquartile ranges are left out"""


class Ranked(Score, frozen=True, kw_only=True):
    """One competitor of a tournament."""

    competitor: str


def bootstrap(total: Floats, count: Floats, resamples: int, *path: str) -> Estimate:
    """Mean of the clusters' values and its 95 % interval; `path` names the figure, which seeds its resamples."""
    n = len(total)
    if n == 0 or total.shape != count.shape:
        raise ValueError(f"totals {total.shape} and counts {count.shape} must have one shape (N,), N > 0")
    draw = rng(0, "bootstrap", *path)
    means = np.empty(resamples)
    for start in range(0, resamples, _CHUNK):
        chosen = draw.integers(0, n, (min(_CHUNK, resamples - start), n))
        means[start : start + len(chosen)] = total[chosen].sum(axis=1) / count[chosen].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Estimate(float(total.sum() / count.sum()), float(low), float(high))


def summed(clusters: Iterable[Sequence[float]]) -> tuple[Floats, Floats]:
    """Sum and number of each cluster's values.  # (N,) each"""
    rows = [(sum(values), len(values)) for values in clusters]
    total, count = np.array(rows, np.float64).reshape(-1, 2).T
    return total, count


def scored(clusters: Mapping[Hashable, Sequence[float]], resamples: int) -> dict[str, Any]:
    """The fields of `Score`, from scores by configuration."""
    total, count = summed(clusters.values())
    return {
        "seats": int(count.sum()),
        "configurations": len(clusters),
        "score": bootstrap(total, count, resamples, "score"),
        "truncated_mean": float(truncated_mean(np.concatenate([*map(np.asarray, clusters.values())]))),
    }


def class_name(agent_type: str) -> str:
    return agent_type.rpartition(".")[2]


def rank(
    results: Iterable[WorldResult], resamples: int = RESAMPLES, name: Callable[[str], str] = class_name
) -> list[Ranked]:
    """The competitors of a tournament, best first by truncated mean; `name` makes names of their types."""
    scores: dict[str, dict[Hashable, list[float]]] = {}
    for result in results:
        for row in result.scores:
            of_agent = scores.setdefault(name(row["agent_type"]), {})
            of_agent.setdefault(result.config_id, []).append(float(row["score"]))
    lines = [Ranked(competitor=agent, **scored(clusters, resamples)) for agent, clusters in scores.items()]
    return sorted(lines, key=lambda line: -line.truncated_mean)
