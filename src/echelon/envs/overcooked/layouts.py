"""The five kitchens, and where every move and every look in them leads.

The signs are those of `overcooked-ai`: X counter, O onions, D dishes, P pot, S serving window, 1 and 2 the cooks. The
maps are its layouts of the same names, but for counter_circuit: that is its `counter_circuit_o_1order`, the kitchen of
the published figures (its own `counter_circuit` is another one, with tomatoes).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from echelon.envs.overcooked.rules import COUNTER, FLOOR, KINDS, POT, SIGNS
from echelon.runtime.arrays import Array

MAPS = {
    "cramped_room": ("XXPXX", "O  2O", "X1  X", "XDXSX"),
    "asymmetric_advantages": ("XXXXXXXXX", "O XSXOX S", "X   P 1 X", "X2  P   X", "XXXDXDXXX"),
    "coordination_ring": ("XXXPX", "X 1 P", "D2X X", "O   X", "XOSXX"),
    "forced_coordination": ("XXXPX", "O X1P", "O2X X", "D X X", "XXXSX"),
    "counter_circuit": ("XXXPPXXX", "X  2   X", "D XXXX S", "X  1   X", "XXXOOXXX"),
}
NORTH, SOUTH, EAST, WEST, STAY, INTERACT = range(6)
ACTIONS = ("north", "south", "east", "west", "stay", "interact")
STEPS = ((-1, 0), (1, 0), (0, 1), (0, -1))  # of north, south, east, west as (rows, columns)

Cell = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """A kitchen. A *place* is the number of a floor cell; slots are numbered pots first, then counters in reach."""

    name: str
    rows: tuple[str, ...]

    def __post_init__(self) -> None:
        if len({len(row) for row in self.rows}) != 1:
            raise ValueError(f"{self.name}: all rows of a map must have one length, got {self.rows}")
        if any(sign not in SIGNS and sign not in "12" for row in self.rows for sign in row):
            raise ValueError(f"{self.name}: a map has only the signs {''.join(SIGNS)!r}, 1 and 2, got {self.rows}")

    @property
    def shape(self) -> Cell:
        return len(self.rows), len(self.rows[0])

    def kind(self, cell: Cell) -> int:
        """What is at a cell; outside the map there is nothing to use."""
        inside = 0 <= cell[0] < self.shape[0] and 0 <= cell[1] < self.shape[1]
        return SIGNS.get(self.rows[cell[0]][cell[1]], FLOOR) if inside else KINDS

    def cells(self, kind: int) -> list[Cell]:
        """All cells of a kind, by row and column."""
        return [(r, c) for r in range(self.shape[0]) for c in range(self.shape[1]) if self.kind((r, c)) == kind]

    @cached_property
    def floor(self) -> list[Cell]:
        """The cell of every place."""
        return self.cells(FLOOR)

    @cached_property
    def starts(self) -> Array:
        """Places of the two cooks when an episode begins."""
        found = {row[c]: (r, c) for r, row in enumerate(self.rows) for c in range(len(row)) if row[c] in "12"}
        return np.array([self.floor.index(found[cook]) for cook in "12"], dtype=np.int64)  # (2,)

    @cached_property
    def pots(self) -> list[Cell]:
        return self.cells(POT)

    @cached_property
    def counters(self) -> list[Cell]:
        """Those a cook can reach."""
        near = {ahead(cell, d) for cell in self.floor for d in range(4)}
        return [cell for cell in self.cells(COUNTER) if cell in near]

    @cached_property
    def slots(self) -> dict[Cell, int]:
        """The slot of every pot and counter; one more, always empty, stands for everything else."""
        return {cell: i for i, cell in enumerate([*self.pots, *self.counters])}

    @cached_property
    def moves(self) -> Array:
        """The place each action leads to from each place; what is not floor blocks. Flat: place · 6 + action."""
        places = {cell: i for i, cell in enumerate(self.floor)}
        to = [[places.get(ahead(cell, d), i) for d in range(4)] + [i, i] for i, cell in enumerate(self.floor)]
        return np.array(to, dtype=np.int64).reshape(-1)

    @cached_property
    def ahead_kind(self) -> Array:
        """The kind of thing before a cook. Flat: place · 4 + facing."""
        kinds = [self.kind(ahead(cell, d)) for cell in self.floor for d in range(4)]
        return np.array([FLOOR if kind == KINDS else kind for kind in kinds], dtype=np.int64)

    @cached_property
    def ahead_slot(self) -> Array:
        """The slot before a cook. Flat: place · 4 + facing."""
        slots = [self.slots.get(ahead(cell, d), len(self.slots)) for cell in self.floor for d in range(4)]
        return np.array(slots, dtype=np.int64)


def ahead(cell: Cell, direction: int) -> Cell:
    """The next cell in a direction."""
    return cell[0] + STEPS[direction][0], cell[1] + STEPS[direction][1]


@lru_cache(maxsize=len(MAPS))
def layout(name: str) -> Layout:
    """A kitchen by name."""
    if name not in MAPS:
        raise ValueError(f"there is no layout {name!r}; use {', '.join(MAPS)}")
    return Layout(name, MAPS[name])
