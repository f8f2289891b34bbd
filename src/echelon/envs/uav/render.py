"""Pictures of the UAV scenarios: one world in three dimensions, as an RGB array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]
from numpy.typing import NDArray

from echelon.envs.uav.config import UAVConfig
from echelon.envs.uav.radio import Network
from echelon.runtime.arrays import Bools, Floats
from echelon.runtime.film import pixels

ROLE_NAMES = ("idle", "base station", "relay")
ROLE_COLOURS = ("#8a8f98", "#1f6fb4", "#e07b16")
SERVED, UNSERVED, GROUND, ROUTE, INK = "#2e9d6b", "#c9ccd1", "#7d3c98", "#e07b16", "#2b2f36"


@dataclass(frozen=True)
class Sky:
    """One world."""

    name: str
    config: UAVConfig
    step: int
    place: Floats  # (n, 3)
    users: Floats  # (m, 2)
    ground: Floats  # (G, 3)
    network: Network


def draw_sky(sky: Sky, colours: Sequence[str] | None = None) -> NDArray[np.uint8]:
    """Users, UAVs by role, ground stations, who serves whom, routes, and a caption; 900 × 720 pixels.

    `colours` draws a ring around each UAV, for what a role does not say (its skill, say).
    """
    figure = Figure(figsize=(9.0, 7.2), dpi=100, facecolor="white")
    with rc_context({"grid.color": "#dfe3e8", "grid.linewidth": 0.7}):  # 3-D axes read their grid's look only here
        axes: Any = figure.add_axes((0.0, 0.06, 1.0, 0.86), projection="3d")
    _dress(axes, sky)
    served = sky.network.server >= 0  # (m,)
    users = np.column_stack([sky.users, np.zeros(len(served))])  # (m, 3)
    axes.scatter(*users[~served].T, s=16, c=UNSERVED, edgecolors="#9aa0a8", linewidths=0.5, depthshade=False, zorder=2)
    axes.scatter(*users[served].T, s=20, c=SERVED, edgecolors="white", linewidths=0.4, depthshade=False, zorder=3)
    _links(axes, sky, users, served)
    _uavs(axes, sky, colours)
    if sky.config.relays:
        look = {"marker": "^", "c": GROUND, "edgecolors": "white", "linewidths": 1.0, "depthshade": False}
        axes.scatter(*sky.ground.T, s=150, zorder=6, **look)
        masts = [[(x, y, 0.0), (x, y, z)] for x, y, z in sky.ground]
        _lines(axes, masts, colors=GROUND, linewidths=2.0, zorder=3)
    for artist in axes.collections:
        artist.set_clip_on(False)  # the axes' own square would cut off two corners of the area
    figure.legend(
        handles=_legend(sky),
        loc="lower center",
        ncol=7,
        frameon=False,
        fontsize=9.5,
        handletextpad=0.3,
        columnspacing=1.3,
    )
    figure.text(0.5, 0.965, sky.name, ha="center", va="center", fontsize=15, weight="bold", color=INK)
    figure.text(0.5, 0.928, caption(sky), ha="center", va="center", fontsize=11, color=INK)
    return pixels(figure)


def caption(sky: Sky) -> str:
    """One line: time, coverage, throughput, and for scenario 2 how many UAVs reach the ground."""
    c, network = sky.config, sky.network
    served = int((network.server >= 0).sum())
    words = [
        f"step {sky.step} of {c.max_steps}",
        f"coverage {served / c.num_users:.0%} ({served} of {c.num_users} users)",
        f"throughput {network.throughput.sum():.0f} Mbit/s",
    ]
    if c.relays:
        words.append(f"{int((network.hops > 0).sum())} of {c.num_uavs} UAVs reach the ground")
    return "   ·   ".join(words)


def _lines(axes: Any, segments: Any, **look: Any) -> None:
    if len(segments):  # matplotlib cannot add a collection of none
        axes.add_collection3d(Line3DCollection(segments, **look))


def _dress(axes: Any, sky: Sky) -> None:
    c = sky.config
    axes.set(xlim=(0, c.area), ylim=(0, c.area), zlim=(0, c.max_height * 1.08))
    axes.set_box_aspect((1.0, 1.0, 0.5), zoom=1.1)
    axes.view_init(elev=30, azim=-58)
    axes.set_xlabel("x (m)", labelpad=8, color=INK)
    axes.set_ylabel("y (m)", labelpad=8, color=INK)
    axes.set_zlabel("height (m)", labelpad=6, color=INK)
    axes.tick_params(labelsize=8, colors="#5b616b")
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((0.965, 0.97, 0.98, 1.0))
        axis.line.set_color("#b9bec6")
    for axis, places in ((axes.xaxis, 6), (axes.yaxis, 6), (axes.zaxis, 5)):
        axis.set_major_locator(MaxNLocator(places - 1))
    axes.computed_zorder = False  # the zorder given with each part counts: links below, UAVs on top


def _links(axes: Any, sky: Sky, users: Floats, served: Bools) -> None:
    """Thin lines from users to their UAVs; strong ones along the routes to the ground."""
    network, place = sky.network, sky.place
    access = np.stack([place[network.server[served]], users[served]], axis=1)  # (s, 2, 3)
    _lines(axes, access, colors=SERVED, linewidths=0.7, alpha=0.45, zorder=4)
    if not sky.config.relays:
        return
    routes = []
    for i in np.flatnonzero(network.hops > 0):
        over = network.next_hop[i]
        if over >= 0:
            routes.append([place[i], place[over]])
            continue
        near = ((sky.ground - place[i]) ** 2).sum(axis=1)
        routes.append([place[i], sky.ground[np.where(network.ground_link[i], near, np.inf).argmin()]])
    _lines(axes, routes, colors=ROUTE, linewidths=2.0, alpha=0.85, zorder=5)


def _uavs(axes: Any, sky: Sky, rings: Sequence[str] | None) -> None:
    """Coloured by role, with a drop line to the shadow below, a name, and the number of users."""
    place = sky.place
    drops = [[(x, y, 0.0), (x, y, z)] for x, y, z in place]
    _lines(axes, drops, colors="#8a8f98", linewidths=0.8, linestyles="dotted", zorder=1)
    axes.scatter(
        place[:, 0], place[:, 1], 0.0, s=26, marker="x", c="#8a8f98", linewidths=1.0, depthshade=False, zorder=1
    )
    if rings is not None:
        axes.scatter(*place.T, s=430, c=list(rings), edgecolors="white", linewidths=1.0, depthshade=False, zorder=6)
    colours = [ROLE_COLOURS[role] for role in sky.network.role]
    axes.scatter(*place.T, s=170, c=colours, edgecolors="white", linewidths=1.6, depthshade=False, zorder=7)
    for i, (x, y, z) in enumerate(place):
        count = sky.network.load[i]
        users = "1 user" if count == 1 else f"{count} users"
        axes.text(x, y, z, str(i), fontsize=8.5, weight="bold", color="white", ha="center", va="center", zorder=8)
        axes.text(x, y, z + 9.0, users, fontsize=8.5, color=INK, ha="center", va="bottom", zorder=8)


def _legend(sky: Sky) -> list[Line2D]:
    def mark(symbol: str, colour: str, label: str, size: float) -> Line2D:
        return Line2D([], [], linestyle="", marker=symbol, color=colour, label=label, markersize=size)

    roles = (0, 1, 2) if sky.config.relays else (0, 1)
    marks = [mark("o", ROLE_COLOURS[r], f"UAV, {ROLE_NAMES[r]}", 10) for r in roles]
    marks += [mark("o", SERVED, "user, served", 5), mark("o", UNSERVED, "user, not served", 5)]
    if sky.config.relays:
        marks.append(mark("^", GROUND, "ground station", 9))
        marks.append(Line2D([], [], color=ROUTE, linewidth=2.0, label="route"))
    return marks
