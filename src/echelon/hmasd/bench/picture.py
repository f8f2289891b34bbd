"""The curves of a bench as one picture: one panel for each environment, bands are the intervals."""

from __future__ import annotations

from matplotlib.figure import Figure

from echelon.hmasd.bench.results import BenchResults

COLOURS = ("#2a6f97", "#e07a2f", "#7a9e3f", "#8c5a9e", "#b5524a", "#3f8f5f", "#777777", "#c2a83e")


def draw(results: BenchResults) -> Figure:
    """Interquartile means over seeds with their intervals, by steps."""
    envs = list(dict.fromkeys(line.env for line in results.lines))
    labels = list(dict.fromkeys(line.label for line in results.lines))
    figure = Figure(figsize=(5.2 * len(envs), 3.6), layout="constrained")
    for axes, env in zip(figure.subplots(1, len(envs), squeeze=False)[0], envs, strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        here = [line for line in results.lines if line.env == env]
        axes.set(title=env, xlabel="million steps", ylabel=here[0].metric)
        for line in here:
            colour, curve = COLOURS[labels.index(line.label) % len(COLOURS)], line.curve
            steps = [step / 1e6 for step in curve.steps]
            axes.fill_between(steps, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(steps, curve.value, color=colour, linewidth=2, label=f"{line.label} ({len(line.seeds)})")
        axes.legend(frameon=False, fontsize=8)
    return figure
