"""Which habits pay at all: each of them alone, at a large weight, in the same worlds as the layers of the start.

Slopes are local, and some habits pay only once they are strong. So before evolution each term is tried for buyers and
for sellers, with both signs; those whose seats earn more than without, by SURE standard errors, are taken together.

Every seat of a world tries another habit, so a world tells about several. Worlds of one configuration begin each day
with the same chance, and a seat's score is compared with what it has in the play without any habit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from echelon.hrl_xf.layers.l3_habits import KINDS, TERMS
from echelon.hrl_xf.online.evolution import HABITS, SIZE, deviated
from echelon.hrl_xf.online.worlds import PlayedSeat, Weights, WorldTask, play_seats
from echelon.runtime.arrays import Floats
from echelon.runtime.seeding import rng

SURE = 2.5
SIDES = ("buyer", "seller")


@dataclass(frozen=True)
class Habit:
    """A term at a weight, for one side."""

    side: str
    term: str
    weight: float

    def __str__(self) -> str:
        return f"{self.side}/{self.term} {self.weight:+g}"

    def vector(self) -> Floats:
        """As numbers that evolve.  # (SIZE,)"""
        table = np.zeros((len(KINDS), len(TERMS)))
        kinds = [i for i, kind in enumerate(KINDS) if kind.startswith(self.side)]
        table[kinds, TERMS.index(self.term)] = self.weight
        return np.concatenate([table.ravel(), np.zeros(SIZE - HABITS)])

    def fits(self, place: int) -> bool:
        """Whether a seat of the first (0), a middle (1) or the last level (2) has such threads."""
        return place == 1 or (place == 0) == (self.side == "seller")


@dataclass(frozen=True)
class Tried:
    """What a habit was worth to the seats that tried it."""

    habit: Habit
    gain: float
    error: float
    seats: int

    @property
    def pays(self) -> bool:
        return self.seats > 1 and self.gain > SURE * self.error


def habits(weight: float) -> list[Habit]:
    """All that are tried."""
    return [Habit(side, term, sign * weight) for side in SIDES for term in TERMS for sign in (1, -1)]


@dataclass(frozen=True)
class Play:
    """A world with a habit (its number) in each of our seats; None: without any."""

    task: WorldTask
    chance: int
    habits: tuple[int | None, ...]


def plan(tasks: Sequence[WorldTask], tried: Sequence[Habit], plays: int, seed: int) -> list[Play]:
    """For each configuration one play without habits and `plays` with; every habit is tried about as often."""
    found = []
    for number, task in enumerate(tasks):
        draw, chance = rng(seed, "screening", number), number + 1
        places = _places(task)
        found.append(Play(task, chance, (None,) * len(places)))
        count = draw.random(len(tried)) * 0.5  # equal ones in a random order
        for _ in range(plays):
            chosen = []
            for place in places:
                fitting = [i for i, habit in enumerate(tried) if habit.fits(place) and i not in chosen]
                at = min(fitting, key=lambda i: count[i])
                count[at] += 1
                chosen.append(at)
            found.append(Play(task, chance, tuple(chosen)))
    return found


def play_with_habits(task: WorldTask, weights: Weights, vectors: Sequence[Floats], chance: int) -> list[PlayedSeat]:
    """Play a world in which each of our seats has habits of its own."""
    return play_seats(task, lambda seat: deviated(weights.layers(), vectors[seat]), chance=chance)


def screen(
    plays: Sequence[Play],
    tried: Sequence[Habit],
    weights: Weights,
    play_all: Callable[[list[tuple[WorldTask, Weights, list[Floats], int]]], list[list[PlayedSeat] | None]],
) -> list[Tried]:
    """Play and compare; a world that failed is left out."""
    vectors = [habit.vector() for habit in tried]
    nothing = np.zeros(SIZE)
    calls = [(p.task, weights, [nothing if i is None else vectors[i] for i in p.habits], p.chance) for p in plays]
    worth: list[list[float]] = [[] for _ in tried]
    plain: list[PlayedSeat] | None = None
    for p, seats in zip(plays, play_all(calls), strict=True):
        if p.habits[0] is None:
            plain = seats
        elif seats is not None and plain is not None:
            for i, with_it, without in zip(p.habits, seats, plain, strict=True):
                assert i is not None
                worth[i].append(with_it.score - without.score)
    return [_tried(habit, np.array(found)) for habit, found in zip(tried, worth, strict=True)]


def _tried(habit: Habit, worth: Floats) -> Tried:
    if len(worth) < 2:
        return Tried(habit, 0.0, float("inf"), len(worth))
    return Tried(habit, float(worth.mean()), float(worth.std(ddof=1) / np.sqrt(len(worth))), len(worth))


def together(found: Sequence[Tried]) -> Floats:
    """All habits that pay.  # (SIZE,)"""
    total: Floats = np.sum([t.habit.vector() for t in found if t.pays] or [np.zeros(SIZE)], axis=0)
    return total


def _places(task: WorldTask) -> list[int]:
    made = task.configuration()
    last = max(made.levels)
    return [0 if made.levels[seat] == 0 else 2 if made.levels[seat] == last else 1 for seat in made.focal]
