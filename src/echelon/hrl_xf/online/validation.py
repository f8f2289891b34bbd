"""Whether the layers are better than those they started from: the same worlds, seats and seeds, modes instead of draws.

A configuration is the unit of chance: its seats share a world, so the interval resamples whole configurations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelon.hrl_xf.online.collector import play_all
from echelon.hrl_xf.online.worlds import PlayedSeat, Weights, WorldTask, play_greedily
from echelon.hrl_xf.options.compete import Seats
from echelon.hrl_xf.options.playing import PlayingOptions
from echelon.runtime.execution.executors import NamedExecutor
from echelon.runtime.seeding import rng, task_seed

RESAMPLES = 2000
PLACES = ("first", "middle", "last")
Played = list[list[PlayedSeat] | None]


@dataclass(frozen=True)
class Gain:
    """Mean score less that of the start, with its 95 % interval."""

    mean: float
    low: float
    high: float
    score: float
    worlds: int


def validation_tasks(options: PlayingOptions) -> list[WorldTask]:
    """Worlds that never occur in training: another seed."""
    seed = task_seed(options.seed, "online validation")
    seats: Seats = "one" if options.seats == "one" else "each-level"
    return [
        WorldTask(field, seed, index, seats, options.steps, None)
        for field in options.validation_fields.split("+")
        for index in range(options.validation_worlds)
    ]


def play_validation(options: PlayingOptions, executor: NamedExecutor, weights: Weights) -> Played:
    """The scores of all seats of the validation worlds."""
    calls = [(task, weights) for task in validation_tasks(options)]
    return play_all(executor, play_greedily, calls, options.world_timeout)


def gain(now: Sequence[list[PlayedSeat] | None], start: Sequence[list[PlayedSeat] | None], place: int | None) -> Gain:
    """How much better the seats (of one place, or all) score than at the start."""
    sums, counts, scores = [], [], []
    for after, before in zip(now, start, strict=True):
        if after is None or before is None:
            continue
        pairs = [(a.score, b.score) for a, b in zip(after, before, strict=True) if place in (None, a.place)]
        if pairs:
            sums.append(sum(a - b for a, b in pairs))
            counts.append(len(pairs))
            scores += [a for a, _ in pairs]
    if not sums:
        return Gain(float("nan"), float("nan"), float("nan"), float("nan"), 0)
    total, seats = np.array(sums), np.array(counts)
    drawn = rng(0, "validation").integers(len(total), size=(RESAMPLES, len(total)))
    means = total[drawn].sum(1) / seats[drawn].sum(1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Gain(float(total.sum() / seats.sum()), float(low), float(high), float(np.mean(scores)), len(total))


def gains(options: PlayingOptions, now: Played, start: Played) -> dict[str, Gain]:
    """By field and place: `all`, `league`, `league/first` …"""
    found = {"all": gain(now, start, None)}
    for i, field in enumerate(options.validation_fields.split("+")):
        rows = slice(i * options.validation_worlds, (i + 1) * options.validation_worlds)
        found[field] = gain(now[rows], start[rows], None)
        for place, name in enumerate(PLACES):
            found[f"{field}/{name}"] = gain(now[rows], start[rows], place)
    return found
