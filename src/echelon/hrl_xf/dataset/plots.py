"""One self-contained page of plots of a data set: does the expert look like itself?"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import jinja2
import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from numpy.typing import NDArray

from echelon.hrl_xf.dataset.datasets import MacroDataset
from echelon.hrl_xf.dataset.summary import DecisionColumns, goal_table, lines
from echelon.hrl_xf.recording.log_columns import OPS
from echelon.hrl_xf.state.goals import BUCKETS
from echelon.hrl_xf.state.schema import ACCEPT, REJECT

COLOURS = ("#2a6f97", "#e07a2f", "#7a9e3f", "#8c5a9e")
OP_COLOURS = {"ACCEPT": "#3f8f5f", "REJECT": "#2a6f97", "END": "#b5524a"}
ENOUGH = 20
"""A share of fewer is not shown."""
SIDES = (("buying", False), ("selling", True))

_PAGE = jinja2.Template(
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title><style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1180px; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.05rem; margin: 0 0 .2rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(520px, 1fr)); gap: 1.6rem 2rem; }
figure { margin: 0; } figcaption { color: #555; font-size: .9rem; } svg { width: 100%; height: auto; }
ul { padding-left: 1.1rem; color: #333; } li { margin: .1rem 0; }
</style></head><body>
<h1>{{ title }}</h1>
<ul>{% for line in lines %}<li>{{ line }}</li>{% endfor %}</ul>
<div class="grid">{% for plot in plots %}
<figure><h2>{{ plot.title }}</h2>{{ plot.svg }}<figcaption>{{ plot.caption }}</figcaption></figure>{% endfor %}
</div></body></html>
""",
    autoescape=True,
)


def page(summary: dict[str, Any], macro: MacroDataset, columns: DecisionColumns) -> str:
    """The page as HTML."""
    plots = [
        {"title": title, "caption": caption, "svg": Markup(_svg(draw))}
        for title, caption, draw in _plots(macro, columns)
    ]
    title = f"{summary['agent']}: {summary['worlds']} worlds, {summary['agent_days']} agent-days"
    html: str = _PAGE.render(title=title, lines=list(lines(summary)), plots=plots)
    return html


def _svg(draw: Callable[[Any], None]) -> str:
    figure = Figure(figsize=(6.4, 3.3), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    draw(axes)
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "echelon"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<!DOCTYPE")[2].partition(">")[2]


def _plots(macro: MacroDataset, c: DecisionColumns) -> list[tuple[str, str, Callable[[Any], None]]]:
    """Title, caption and drawing of each plot."""
    sent = c.where(c.sent)
    goals = goal_table(macro)
    captions = {
        "Days ahead of delivery": "Share of offers by days ahead of the day they were made on.",
        "Answers to an offer": "Shares by relative time, and above them how many decisions; openings are not in it.",
        "Quantity": "Pieces in offers sent, and in offers of partners that were accepted.",
        "Price": "The price within the issue's range: 0 the lowest, 1 the highest.",
        "Offers before a decision": "Length of the history, both sides' offers counted.",
        "Goals": "v2 labels: pieces by bucket of days ahead; median, middle half, and range without outliers.",
        "Residuals to the baseline": "What L3 learns: offers sent less L1's legal baseline, where there is one.",
        "Acceptance by rank": "Offers answered together on one side, by how many of them have a better price.",
    }
    drawings: list[Callable[[Any], None]] = [
        lambda axes: _days(axes, c), lambda axes: _answers(axes, sent), lambda axes: _quantity(axes, sent),
        lambda axes: _price(axes, sent), lambda axes: _history(axes, sent), lambda axes: _goals(axes, *goals),
        lambda axes: _residuals(axes, sent), lambda axes: _ranks(axes, sent),
    ]  # fmt: skip
    return [(title, caption, draw) for (title, caption), draw in zip(captions.items(), drawings, strict=True)]


def _bars(axes: Any, groups: dict[str, NDArray[np.float64]], labels: list[str]) -> None:
    width = 0.8 / max(1, len(groups))
    for i, (name, values) in enumerate(groups.items()):
        at = np.arange(len(labels)) + (i - (len(groups) - 1) / 2) * width
        axes.bar(at, values, width, label=name, color=COLOURS[i])
    axes.set_xticks(range(len(labels)), labels)
    if groups:
        axes.legend(frameon=False)


def _shares(values: NDArray[Any], most: int) -> NDArray[np.float64]:
    counts = np.bincount(np.clip(values, 0, most).astype(np.int64), minlength=most + 1)
    shares: NDArray[np.float64] = counts / max(1, len(values))
    return shares


def _days(axes: Any, c: DecisionColumns) -> None:
    proposed = c.where(c.op == REJECT)
    groups = {
        "first proposals": proposed.where(proposed.first),
        "counter-offers": proposed.where(~proposed.first & proposed.sent),
        "accepted": c.where((c.op == ACCEPT) & c.sent),
    }
    _bars(axes, {name: _shares(g.offer[:, 1], 10) for name, g in groups.items()}, [str(d) for d in range(11)])
    axes.set(xlabel="days ahead", ylabel="share")


def _answers(axes: Any, sent: DecisionColumns) -> None:
    answered = sent.where(sent.on_table)
    edges = np.linspace(0, 1, 11)
    place = np.clip(np.digitize(answered.relative_time, edges) - 1, 0, 9)
    below, total = np.zeros(10), np.bincount(place, minlength=10)
    for code, name in enumerate(OPS):
        share = np.bincount(place[answered.op == code], minlength=10) / np.maximum(total, 1)
        axes.bar(edges[:-1] + 0.05, share, 0.09, bottom=below, label=name, color=OP_COLOURS[name])
        below += share
    for x, n in zip(edges[:-1] + 0.05, total, strict=True):
        axes.annotate(str(n), (x, 1.01), ha="center", fontsize=8)
    axes.set(xlabel="relative time", ylabel="share", ylim=(0, 1.08))
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)


def _quantity(axes: Any, sent: DecisionColumns) -> None:
    most = int(max(sent.offer[:, 0].max(initial=1), 1))
    for i, (name, op) in enumerate((("sent", REJECT), ("accepted", ACCEPT))):
        shares = _shares(sent.where(sent.op == op).offer[:, 0], most)
        axes.step(np.arange(most + 1), shares, where="mid", label=name, color=COLOURS[i], linewidth=1.8)
    axes.set(xlabel="pieces", ylabel="share")
    axes.legend(frameon=False)


def _price(axes: Any, sent: DecisionColumns) -> None:
    groups = {}
    for side, seller in SIDES:
        for name, op in (("sent", REJECT), ("accepted", ACCEPT)):
            chosen = sent.where((sent.op == op) & (sent.seller == seller))
            if len(chosen.op):
                groups[f"{side}, {name}"] = _shares(np.floor(np.clip(chosen.ratio, 0, 0.999) * 5), 4)
    _bars(axes, groups, ["0–.2", ".2–.4", ".4–.6", ".6–.8", ".8–1"])
    axes.set(xlabel="price within the issue's range", ylabel="share")


def _history(axes: Any, sent: DecisionColumns) -> None:
    counts = np.bincount(sent.history)
    axes.bar(np.arange(len(counts)), counts, color=COLOURS[0])
    axes.set(xlabel="offers seen", ylabel="decisions", yscale="log")


def _goals(axes: Any, goals: NDArray[np.float32], mask: NDArray[np.bool_]) -> None:
    labels = [f"{first}–{last}" for first, last in BUCKETS.edges]
    for i, (side, seller) in enumerate(SIDES):
        columns = [4 * bucket + 2 * seller for bucket in range(4)]
        boxes = [goals[mask[:, j], j] for j in columns]
        at = np.arange(4) + (i - 0.5) * 0.34
        drawn = [(x, box) for x, box in zip(at, boxes, strict=True) if len(box)]
        if not drawn:
            continue
        parts = axes.boxplot(
            [box for _, box in drawn], positions=[x for x, _ in drawn], widths=0.3, showfliers=False,
            patch_artist=True, medianprops={"color": "black"}, manage_ticks=False,
        )  # fmt: skip
        for patch in parts["boxes"]:
            patch.set_facecolor(COLOURS[i])
        axes.plot([], [], color=COLOURS[i], linewidth=8, label=side)
    axes.set_xticks(range(4), labels)
    axes.set(xlabel="days ahead", ylabel="pieces per day")
    if mask.any():
        axes.legend(frameon=False)


def _residuals(axes: Any, sent: DecisionColumns) -> None:
    rejects = sent.where((sent.op == REJECT) & (sent.fits & 1 > 0))
    for i, (name, column) in enumerate((("Δ quantity", 0), ("Δ price", 2), ("Δ days", 1))):
        values, counts = np.unique(np.clip(rejects.residual[:, column], -12, 12), return_counts=True)
        axes.plot(values, counts / max(1, len(rejects.op)), "o-", markersize=3, label=name, color=COLOURS[i])
    axes.set(xlabel="offer sent less baseline (pieces, currency, days)", ylabel="share")
    axes.legend(frameon=False)


def _ranks(axes: Any, sent: DecisionColumns) -> None:
    together = sent.where(sent.on_table & (sent.others[:, 0] > 0))
    most = int(together.others[:, 2].max(initial=0))
    groups = {}
    for side, seller in SIDES:
        chosen = together.where(together.seller == seller)
        if len(chosen.op):
            total = np.bincount(chosen.others[:, 2], minlength=most + 1)
            accepted = np.bincount(chosen.others[chosen.op == ACCEPT, 2], minlength=most + 1)
            groups[side] = np.where(total >= ENOUGH, accepted / np.maximum(total, 1), 0.0)
    _bars(axes, groups, [str(rank) for rank in range(most + 1)])
    axes.set(xlabel="threads with a better price", ylabel="share accepted")
