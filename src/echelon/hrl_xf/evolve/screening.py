"""Which habits pay at all: each at a large weight, in the same worlds as without it, one taken after another.

Slopes are local, and some habits pay only once they are strong, others only beside those: a seller who takes the first
offer gains nothing by better counter-offers. So before evolution, in rounds with new worlds, each term is tried for
buyers and for sellers, with both signs. Of each side the one whose seats earn most in standard errors is taken if these
are SURE, those that lose by more than one standard error are given up, and the others are tried again beside what was
taken. So are both signs of what was taken: once more, or without it.

Every seat of a world tries another habit, so a world tells about several. Worlds of one configuration begin each day
with the same chance, and a seat's score is compared with what it has in the play without the habit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from echelon.hrl_xf.evolve.evolution import HABITS, SIZE, TRADES, deviated
from echelon.hrl_xf.layers.l3_habits import KINDS, TERMS
from echelon.hrl_xf.online.worlds import PlayedSeat, Weights, WorldTask, play_seats
from echelon.runtime.arrays import Floats
from echelon.runtime.seeding import rng

SURE = 2.0
"""Standard errors by which a habit must pay to be taken."""
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
        return bool(TRADES[place, SIDES.index(self.side)])


@dataclass(frozen=True)
class Tried:
    """What a habit was worth to the seats that tried it."""

    habit: Habit
    gain: float
    error: float
    seats: int

    @property
    def sure(self) -> float:
        """The gain in standard errors; 0 where nothing is known."""
        return self.gain / self.error if self.seats > 1 and self.error > 0 else 0.0


def habits(weight: float) -> list[Habit]:
    """All that are tried."""
    return [Habit(side, term, sign * weight) for side in SIDES for term in TERMS for sign in (1, -1)]


@dataclass(frozen=True)
class Play:
    """A world with another habit (its number) in each of our seats; None: without any."""

    task: WorldTask
    chance: int
    habits: tuple[int | None, ...]


def plan(tasks: Sequence[WorldTask], tried: Sequence[Habit], seed: int) -> list[Play]:
    """Each configuration once without a further habit, then as often as it takes to try each habit about once."""
    found = []
    for number, task in enumerate(tasks):
        draw, chance = rng(seed, "screening", number), number + 1
        places = _places(task)
        found.append(Play(task, chance, (None,) * len(places)))
        count = draw.random(len(tried)) * 0.5  # equal ones in a random order
        for _ in range(math.ceil(len(tried) / len(places))):
            chosen: list[int | None] = []
            for place in places:
                fitting = [i for i, habit in enumerate(tried) if habit.fits(place) and i not in chosen]
                at = min(fitting, key=lambda i: count[i], default=None)
                if at is not None:
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
    beside: Floats,
    weights: Weights,
    play_all: Callable[[list[tuple[WorldTask, Weights, list[Floats], int]]], list[list[PlayedSeat] | None]],
) -> list[Tried]:
    """Play with each habit beside those of all seats, and compare; a world that failed is left out."""
    vectors = [beside + habit.vector() for habit in tried]
    calls = [(p.task, weights, [beside if i is None else vectors[i] for i in p.habits], p.chance) for p in plays]
    worth: list[list[float]] = [[] for _ in tried]
    plain: list[PlayedSeat] | None = None
    for p, seats in zip(plays, play_all(calls), strict=True):
        if not any(i is not None for i in p.habits):
            plain = seats
        elif seats is not None and plain is not None:
            for i, with_it, without in zip(p.habits, seats, plain, strict=True):
                if i is not None:
                    worth[i].append(with_it.score - without.score)
    return [_tried(habit, np.array(found)) for habit, found in zip(tried, worth, strict=True)]


def _tried(habit: Habit, worth: Floats) -> Tried:
    if len(worth) < 2:
        return Tried(habit, 0.0, 0.0, len(worth))
    return Tried(habit, float(worth.mean()), float(worth.std(ddof=1) / np.sqrt(len(worth))), len(worth))


def taken_of(found: Sequence[Tried]) -> list[Habit]:
    """The habits to take: of each side the surest, if it pays."""
    taken = []
    for side in SIDES:
        best = max((t for t in found if t.habit.side == side), key=lambda t: t.sure, default=None)
        if best is not None and best.sure >= SURE:
            taken.append(best.habit)
    return taken


def worth_trying(found: Sequence[Tried], taken: Collection[Habit]) -> list[Habit]:
    """What is tried again beside habits that were taken: all that does not clearly lose, and these with both signs."""
    terms = {(habit.side, habit.term) for habit in taken}
    return [t.habit for t in found if t.sure > -1.0 or (t.habit.side, t.habit.term) in terms]


def tried_of(row: Mapping[str, Any]) -> Tried:
    """The inverse of `asdict`."""
    return Tried(**{**row, "habit": Habit(**row["habit"])})


def _places(task: WorldTask) -> list[int]:
    made = task.configuration()
    last = max(made.levels)
    return [0 if made.levels[seat] == 0 else 2 if made.levels[seat] == last else 1 for seat in made.focal]
