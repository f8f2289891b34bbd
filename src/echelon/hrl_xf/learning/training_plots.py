"""One self-contained page of a training run: what each phase's losses, accuracies and errors did, epoch by epoch."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from echelon.hrl_xf.learning.training_curves import PHASES, groups_of, of_phase, sentence
from echelon.runtime.metrics import Series, read_metrics

COLOURS = ("#2a6f97", "#e07a2f", "#7a9e3f", "#8c5a9e", "#b5524a", "#3f8f5f", "#777777")

_PAGE = jinja2.Template(
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title><style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1180px; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .4rem; } h3 { font-size: 1rem; margin: 0; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(520px, 1fr)); gap: 1.2rem 2rem; }
p { color: #444; margin: .2rem 0 .8rem; } svg { width: 100%; height: auto; }
</style></head><body>
{% for run in runs %}<h1>Training {{ run.name }}</h1>
<p>Solid lines are validation, dotted ones training; a dot marks the best epoch by validation.</p>
{% for phase in run.phases %}<h2>{{ phase.title }}</h2><p>{{ phase.line }}</p>
<div class="grid">{% for plot in phase.plots %}<div><h3>{{ plot.title }}</h3>{{ plot.svg }}</div>{% endfor %}</div>
{% endfor %}{% endfor %}</body></html>
""",
    autoescape=True,
)


def page(*run_dirs: Path) -> str:
    """The page of one run or several as HTML; `ValueError` where nothing was trained."""
    runs = [{"name": run_dir.name, "phases": _phases(run_dir)} for run_dir in run_dirs]
    html: str = _PAGE.render(title="Training " + ", ".join(run_dir.name for run_dir in run_dirs), runs=runs)
    return html


def _phases(run_dir: Path) -> list[dict[str, Any]]:
    metrics = read_metrics(run_dir)
    phases = [_phase(name, metrics) for name in PHASES if f"{name}/train_loss" in metrics]
    if not phases:
        raise ValueError(f"{run_dir} holds no training: metrics.jsonl names none of {', '.join(PHASES)}")
    return phases


def _phase(name: str, metrics: Mapping[str, Series]) -> dict[str, Any]:
    mine = of_phase(name, metrics)
    plots = [{"title": title, "svg": Markup(_svg(mine, shown))} for title, shown in groups_of(mine).items()]
    return {"title": PHASES[name], "line": sentence(mine), "plots": plots}


def _svg(mine: Mapping[str, Series], names: list[str]) -> str:
    figure = Figure(figsize=(6.4, 3.0), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    for name, colour in zip(names, COLOURS, strict=False):
        train, val = mine[f"train_{name}"], mine.get(f"val_{name}")
        axes.plot(train.steps, train.values, ":", color=colour, label=None if val else name)
        if val is not None:
            axes.plot(val.steps, val.values, color=colour, label=name)
            if name == "loss":
                at = int(val.values.argmin())
                axes.plot(val.steps[at], val.values[at], "o", color=colour)
    axes.set_xlabel("epoch")
    axes.legend(frameon=False, fontsize=8)
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "echelon"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<!DOCTYPE")[2].partition(">")[2]
