"""What a cook sees, as a vector of numbers in [−1, 1], and the tables it is put together from.

Of a cook, (A): its place (one-hot), facing (one-hot of 4), the kind of thing before it (one-hot of 6), the way to the
nearest onions, dishes and serving window and to every pot (rows and columns, divided by the longer side of the map),
and what it holds (4: onion, dish, soup, a soup's onions / 3).
Of a pot, (6): one-hot of 1, 2, 3 onions that do not cook; cooks; steps left / 20; ready.
Of a counter in reach, (4): what lies on it, as what a cook holds.

An observation is: the cook itself (A), the other (A), the way to the other (2), all pots, all counters. The state is
the first cook's observation: it holds all that the rest of an episode depends on, but for the clock.
"""

from __future__ import annotations

import numpy as np

from echelon.envs.overcooked.layouts import Cell, Layout
from echelon.envs.overcooked.rules import (
    CONTENTS,
    COOK_TIME,
    DISH,
    DISHES,
    HANDS,
    KINDS,
    MOST_ONIONS,
    ONION,
    ONIONS,
    SERVING,
    SOUP,
    pot,
)
from echelon.runtime.arrays import Array, Float32

POT_WIDTH, THING_WIDTH = MOST_ONIONS + 3, 4


def _things() -> Float32:
    """How each thing in a hand or on a counter looks."""
    views = np.zeros((HANDS, THING_WIDTH), dtype=np.float32)
    views[ONION, 0] = views[DISH, 1] = 1.0
    for onions in range(1, MOST_ONIONS + 1):
        views[SOUP + onions, 2:] = 1.0, onions / MOST_ONIONS
    return views


def _pots() -> Float32:
    """How each content of a pot looks."""
    views = np.zeros((CONTENTS, POT_WIDTH), dtype=np.float32)
    for content in range(1, CONTENTS):
        onions, steps = pot(content)
        if steps < 0:
            views[content, onions - 1] = 1.0
        elif steps < COOK_TIME:
            views[content, MOST_ONIONS : MOST_ONIONS + 2] = 1.0, (COOK_TIME - steps) / COOK_TIME
        else:
            views[content, MOST_ONIONS + 2] = 1.0
    return views


THINGS, POTS = _things(), _pots()


class Views:
    """The views of one kitchen."""

    def __init__(self, layout: Layout) -> None:
        self.pots, self.counters = len(layout.pots), len(layout.counters)
        self.cook = self._cooks(layout)  # (4 F, A - 4)
        side = max(layout.shape)
        cells = np.array(layout.floor)
        self.way = ((cells[None] - cells[:, None]) / side).astype(np.float32)  # (F, F, 2): from, to
        self.cook_width = self.cook.shape[1] + THING_WIDTH
        self.width = 2 * self.cook_width + 2 + self.pots * POT_WIDTH + self.counters * THING_WIDTH

    @staticmethod
    def _cooks(layout: Layout) -> Float32:
        """All but the hand of a cook's own view, for every place · 4 + facing."""
        rows = []
        for place, cell in enumerate(layout.floor):
            ways = [_way(cell, _nearest(cell, layout.cells(kind))) for kind in (ONIONS, DISHES, SERVING)]
            ways += [_way(cell, p) for p in layout.pots]
            for facing in range(4):
                kind = int(layout.ahead_kind[place * 4 + facing])
                rows.append(
                    np.concatenate(
                        [
                            np.eye(len(layout.floor))[place],
                            np.eye(4)[facing],
                            np.eye(KINDS)[kind],
                            np.array(ways).reshape(-1) / max(layout.shape),
                        ]
                    )
                )
        return np.array(rows, dtype=np.float32)

    def observe(self, place: Array, facing: Array, hand: Array, content: Array) -> Float32:
        """(W, 2, width) from places, facings and hands (W, 2) and the slots' contents (W, S + 1)."""
        worlds, a = len(place), self.cook_width
        out = np.empty((worlds, 2, self.width), dtype=np.float32)
        out[:, :, : a - THING_WIDTH] = self.cook.take(place * 4 + facing, axis=0)
        out[:, :, a - THING_WIDTH : a] = THINGS.take(hand, axis=0)
        out[:, :, a : 2 * a] = out[:, ::-1, :a]
        way = self.way[place[:, 0], place[:, 1]]  # (W, 2)
        out[:, 0, 2 * a : 2 * a + 2], out[:, 1, 2 * a : 2 * a + 2] = way, -way
        first, second = 2 * a + 2, 2 * a + 2 + self.pots * POT_WIDTH
        pots = POTS.take(content[:, : self.pots], axis=0)  # (W, P, 6)
        out[:, :, first:second] = pots.reshape(worlds, 1, -1)
        things = THINGS.take(content[:, self.pots : -1], axis=0)  # (W, C, 4)
        out[:, :, second:] = things.reshape(worlds, 1, -1)
        return out


def _nearest(cell: Cell, cells: list[Cell]) -> Cell:
    return min(cells, key=lambda other: (abs(other[0] - cell[0]) + abs(other[1] - cell[1]), other))


def _way(start: Cell, end: Cell) -> tuple[int, int]:
    return end[0] - start[0], end[1] - start[1]
