"""Pictures of Overcooked: the kitchen from above, as an RGB array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle, Wedge
from numpy.typing import NDArray

from echelon.envs.overcooked.layouts import STEPS, Cell, Layout
from echelon.envs.overcooked.rules import (
    COOK_TIME,
    COUNTER,
    DISH,
    DISHES,
    FLOOR,
    ONION,
    ONIONS,
    POT,
    SERVING,
    SOUP,
    pot,
)
from echelon.runtime.film import pixels

FLOOR_COLOUR, FLOOR_LINE, COUNTER_COLOUR, COUNTER_LINE = "#f4efe6", "#e2dacb", "#b08d62", "#8c6d47"
ONION_COLOUR, DISH_COLOUR, SOUP_COLOUR, POT_COLOUR = "#e9b949", "#ffffff", "#e07b16", "#3c4149"
SERVING_COLOUR, READY, INK = "#4c9f70", "#7ee081", "#2b2f36"
COOKS = ("#3a6fd8", "#d64545")
CELL = 0.9  # inches


def draw_kitchen(
    layout: Layout,
    places: Sequence[int],
    facings: Sequence[int],
    hands: Sequence[int],
    contents: Sequence[int],
    caption: str,
    colours: Sequence[str] | None = None,
) -> NDArray[np.uint8]:
    """Counters with what lies on them, pots with what they cook, both cooks with what they hold, and a caption.

    90 pixels for each cell and 70 above; `colours` are those of the cooks' bodies.
    """
    rows, columns = layout.shape
    height = rows * CELL + 0.7
    figure = Figure(figsize=(columns * CELL, height), dpi=100, facecolor="white")
    axes: Any = figure.add_axes((0, 0, 1, rows * CELL / height))
    axes.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal")
    axes.set_axis_off()
    for row in range(rows):
        for column in range(columns):
            _cell(axes, (row, column), layout.kind((row, column)))
    for cell, slot in layout.slots.items():
        if cell in layout.pots:
            _pot(axes, cell, contents[slot])
        else:
            _thing(axes, cell[1] + 0.5, cell[0] + 0.5, contents[slot], 0.26)
    for i, colour in enumerate(colours or COOKS):
        _cook(axes, layout.floor[places[i]], facings[i], hands[i], colour, str(i))
    title = layout.name.replace("_", " ")
    figure.text(0.5, 1 - 0.2 / height, title, ha="center", va="center", fontsize=13, weight="bold", color=INK)
    figure.text(0.5, 1 - 0.5 / height, caption, ha="center", va="center", fontsize=10, color=INK)
    return pixels(figure)


def _cell(axes: Any, cell: Cell, kind: int) -> None:
    y, x = cell
    fill, line = (FLOOR_COLOUR, FLOOR_LINE) if kind == FLOOR else (COUNTER_COLOUR, COUNTER_LINE)
    axes.add_patch(Rectangle((x, y), 1, 1, fc=fill, ec=line, linewidth=1.0))
    if kind == ONIONS:
        for dx, dy in ((0.32, 0.38), (0.66, 0.36), (0.5, 0.66)):
            _thing(axes, x + dx, y + dy, ONION, 0.17)
    elif kind == DISHES:
        for shift in (0.12, 0.0, -0.12):
            _thing(axes, x + 0.5 + shift / 2, y + 0.5 + shift, DISH, 0.25)
    elif kind == SERVING:
        axes.add_patch(FancyBboxPatch((x + 0.14, y + 0.14), 0.72, 0.72, _round(0.1), fc=SERVING_COLOUR, ec="none"))
        axes.text(x + 0.5, y + 0.51, "serve", ha="center", va="center", color="white", fontsize=10, weight="bold")
    elif kind not in (FLOOR, COUNTER, POT):
        raise ValueError(f"there is no picture of kind {kind}")


def _pot(axes: Any, cell: Cell, content: int) -> None:
    """Onions as dots, then a ring that closes while the soup cooks, then the soup."""
    y, x = cell[0] + 0.5, cell[1] + 0.5
    axes.add_patch(Circle((x, y), 0.40, fc=POT_COLOUR, ec=INK, linewidth=1.2))
    onions, steps = pot(content)
    if steps >= 0:
        axes.add_patch(Circle((x, y), 0.28, fc=SOUP_COLOUR, ec="none"))
        axes.add_patch(
            Wedge((x, y), 0.40, -90, -90 + 360 * steps / COOK_TIME, width=0.09, fc=READY, ec="none", zorder=3)
        )
        text = "ready" if steps == COOK_TIME else str(COOK_TIME - steps)
        axes.text(x, y, text, ha="center", va="center", color="white", fontsize=9, weight="bold")
        return
    for i in range(onions):
        angle = 2 * np.pi * i / 3 - np.pi / 2
        _thing(axes, x + 0.18 * np.cos(angle), y + 0.18 * np.sin(angle), ONION, 0.13)


def _thing(axes: Any, x: float, y: float, thing: int, size: float, above: int = 2) -> None:
    """An onion, a dish, or a soup in its dish."""
    if thing == ONION:
        axes.add_patch(Circle((x, y), size, fc=ONION_COLOUR, ec=COUNTER_LINE, linewidth=1.0, zorder=above))
    elif thing == DISH or thing > SOUP:
        axes.add_patch(Circle((x, y), size, fc=DISH_COLOUR, ec="#9aa0a8", linewidth=1.0, zorder=above))
        inner, edge = (SOUP_COLOUR, "none") if thing > SOUP else (DISH_COLOUR, "#c9ccd1")
        axes.add_patch(Circle((x, y), size * 0.7, fc=inner, ec=edge, linewidth=0.8, zorder=above))


def _cook(axes: Any, cell: Cell, facing: int, hand: int, colour: str, name: str) -> None:
    """A body, a hat on the side the cook faces, and what it holds before it."""
    y, x = cell[0] + 0.5, cell[1] + 0.5
    down, right = STEPS[facing]
    axes.add_patch(Circle((x, y), 0.34, fc=colour, ec="white", linewidth=2.0, zorder=5))
    axes.add_patch(Circle((x + 0.2 * right, y + 0.2 * down), 0.13, fc="white", ec=INK, linewidth=0.8, zorder=6))
    at = x - 0.12 * right, y - 0.12 * down
    axes.text(*at, name, ha="center", va="center", color="white", fontsize=12, weight="bold", zorder=7)
    _thing(axes, x + 0.36 * right, y + 0.36 * down, hand, 0.19, above=8)


def _round(size: float) -> str:
    return f"round,pad=0,rounding_size={size}"
