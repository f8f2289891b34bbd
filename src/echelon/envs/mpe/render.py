"""Pictures of the particle worlds: discs on a square, as an RGB array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from numpy.typing import NDArray

from echelon.runtime.arrays import Array
from echelon.runtime.film import pixels

INK, GROUND = "#2b2f36", "#f7f7f4"
REACH = 1.3


class Disc(NamedTuple):
    """One particle or landmark."""

    place: Array
    radius: float
    colour: str | tuple[float, ...]
    label: str = ""


def draw_square(title: str, caption: str, discs: Sequence[Disc]) -> NDArray[np.uint8]:
    """The square and a little around it; whoever went further makes the picture wider. 560 × 620 pixels."""
    figure = Figure(figsize=(5.6, 6.2), dpi=100, facecolor="white")
    axes: Any = figure.add_axes((0.02, 0.01, 0.96, 0.88))
    reach = max([REACH, *(float(np.abs(disc.place).max()) + disc.radius for disc in discs)])
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axes.set_axis_off()
    axes.add_patch(Rectangle((-1, -1), 2, 2, fc=GROUND, ec=INK, linewidth=0.8))
    for disc in discs:
        x, y = disc.place.tolist()
        axes.add_patch(Circle((x, y), disc.radius, fc=disc.colour, ec="white", linewidth=1.2, alpha=0.85))
        axes.text(x, y, disc.label, ha="center", va="center", color="white", fontsize=11, weight="bold")
    figure.text(0.5, 0.955, title, ha="center", va="center", fontsize=14, weight="bold", color=INK)
    figure.text(0.5, 0.905, caption, ha="center", va="center", fontsize=11, color=INK)
    return pixels(figure)
