"""Pictures of Alice_and_Bob: the room from above, as an RGB array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Polygon, Rectangle
from numpy.typing import NDArray

from echelon.envs.alice_and_bob import BLUE, BLUE_BUTTON, BLUE_DIAMOND, BOTH, RED, RED_BUTTON, RED_DIAMOND, SIDE
from echelon.runtime.film import pixels

WALL, FLOOR_LIGHT, FLOOR_DARK, INK = "#4a4f58", "#f7f7f4", "#efeee9", "#2b2f36"
COLOURS = {RED: "#d64545", BLUE: "#3a6fd8"}
AGENTS = ("#8e44ad", "#16967a")

Cell = tuple[int, int]


def draw_room(
    alice: Cell, bob: Cell, held: int, caption: str, colours: Sequence[str] | None = None
) -> NDArray[np.uint8]:
    """Walls, buttons (squares), diamonds (hollow once collected), both agents, and a caption; 560 × 620 pixels."""
    figure = Figure(figsize=(5.6, 6.2), dpi=100, facecolor="white")
    axes: Any = figure.add_axes((0.02, 0.01, 0.96, 0.88))
    axes.set(xlim=(-1, SIDE + 1), ylim=(SIDE + 1, -1), aspect="equal")
    axes.set_axis_off()
    axes.add_patch(Rectangle((-0.6, -0.6), SIDE + 1.2, SIDE + 1.2, color=WALL))
    for row in range(SIDE):
        for column in range(SIDE):
            colour = FLOOR_LIGHT if (row + column) % 2 == 0 else FLOOR_DARK
            axes.add_patch(Rectangle((column, row), 1, 1, color=colour, linewidth=0))
    for bit, button, diamond in ((RED, RED_BUTTON, RED_DIAMOND), (BLUE, BLUE_BUTTON, BLUE_DIAMOND)):
        pressed = {alice, bob} & {divmod(button, SIDE)}
        _button(axes, divmod(button, SIDE), COLOURS[bit], bool(pressed))
        _diamond(axes, divmod(diamond, SIDE), COLOURS[bit], bool(held & bit))
    apart = 0.0 if alice != bob else 0.2
    of_alice, of_bob = colours or AGENTS
    _agent(axes, alice, -apart, of_alice, "A")
    _agent(axes, bob, apart, of_bob, "B")
    collected = "both collected" if held == BOTH else f"{bin(held).count('1')} of 2 diamonds collected"
    figure.text(0.5, 0.955, "Alice and Bob", ha="center", va="center", fontsize=14, weight="bold", color=INK)
    figure.text(0.5, 0.905, f"{caption}   ·   {collected}", ha="center", va="center", fontsize=11, color=INK)
    return pixels(figure)


def _button(axes: Any, cell: Cell, colour: str, pressed: bool) -> None:
    row, column = cell
    axes.add_patch(
        FancyBboxPatch(
            (column + 0.14, row + 0.14), 0.72, 0.72, "round,pad=0,rounding_size=0.14", fc=colour, ec=INK, alpha=0.35
        )
    )
    size = 0.40 if pressed else 0.52
    corner = column + 0.5 - size / 2, row + 0.5 - size / 2
    axes.add_patch(FancyBboxPatch(corner, size, size, "round,pad=0,rounding_size=0.1", fc=colour, ec="none"))


def _diamond(axes: Any, cell: Cell, colour: str, collected: bool) -> None:
    y, x = cell[0] + 0.5, cell[1] + 0.5
    corners = [(x, y - 0.40), (x + 0.34, y), (x, y + 0.40), (x - 0.34, y)]
    if collected:
        axes.add_patch(Polygon(corners, fill=False, ec=colour, linewidth=1.6, linestyle=(0, (2, 2))))
        return
    axes.add_patch(Polygon(corners, fc=colour, ec=INK, linewidth=1.0))
    axes.add_patch(Polygon([corners[0], (x, y), corners[3]], fc="white", ec="none", alpha=0.35))


def _agent(axes: Any, cell: Cell, shift: float, colour: str, letter: str) -> None:
    y, x = cell[0] + 0.5, cell[1] + 0.5 + shift
    axes.add_patch(Circle((x, y), 0.30, fc=colour, ec="white", linewidth=2.0, zorder=5))
    axes.text(x, y + 0.01, letter, ha="center", va="center", color="white", fontsize=13, weight="bold", zorder=6)
