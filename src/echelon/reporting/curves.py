"""`echelon hmasd curves`: learning curves of several runs and seeds as one picture, and a table seed by seed.

Runs whose folders differ only in their seed (`x-s1`, `x-s2`, or `x-seed1`, …) are one group: thin lines are seeds, the
thick one their mean where all of them have a value.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from echelon.hmasd.options import CurvesOptions
from echelon.runtime.film import write_picture
from echelon.runtime.metrics import Series, read_metrics

log = logging.getLogger(__name__)

COLOURS = ("#2a6f97", "#e07a2f", "#7a9e3f", "#8c5a9e", "#b5524a", "#3f8f5f", "#777777", "#c2a83e")
RESULTS = ("Eval/SuccessRate", "Eval/RewardPerStep", "Training/Success_Rate", "Training/Step_Reward")
TITLES = {
    "Eval/SuccessRate": "success in test episodes",
    "Eval/RewardPerStep": "reward per step in test episodes",
    "Training/Success_Rate": "success in training episodes",
    "Training/Step_Reward": "reward per step in training",
    "Discriminator/TeamAccuracy": "team discriminator: accuracy",
    "Discriminator/IndividualAccuracy": "individual discriminator: accuracy",
    "skills in use": "skills of agents in use, exp(entropy of shares)",
}


@dataclass(frozen=True)
class Seed:
    """One run."""

    name: str
    seed: int | None
    curves: Mapping[str, Series]


def read_seed(folder: Path) -> tuple[str, Seed]:
    """The group a run belongs to, and its curves; one that is made of others is added."""
    if not (folder / "metrics.jsonl").is_file():
        raise ValueError(f"no run (no metrics.jsonl) in {folder}; give folders `echelon hmasd train` wrote")
    curves = dict(read_metrics(folder))
    if (used := skills_in_use(curves)) is not None:
        curves["skills in use"] = used
    found = re.fullmatch(r"(.+?)-s(?:eed)?(\d+)", folder.name)
    group, seed = (found[1], int(found[2])) if found else (folder.name, None)
    return group, Seed(folder.name, seed, curves)


def skills_in_use(curves: Mapping[str, Series]) -> Series | None:
    """How many skills of agents are in use: exp of the entropy of their shares, 1 .. n_z."""
    shares = [s for name, s in curves.items() if re.fullmatch(r"Skills/AgentSkill_\d+_Share", name)]
    if not shares:
        return None
    p = np.stack([s.values for s in shares])  # (n_z, N)
    entropy = -(p * np.log(np.where(p > 0, p, 1.0))).sum(0)
    return Series(shares[0].steps, np.exp(entropy))


def mean_curve(seeds: Sequence[Series]) -> Series:
    """The mean over seeds at the steps that all of them have."""
    common = sorted(set.intersection(*(set(s.steps.tolist()) for s in seeds)))
    values = np.stack([s.values[np.isin(s.steps, common)] for s in seeds])
    return Series(np.array(common, np.int64), values.mean(0))


def shown(groups: Mapping[str, Sequence[Seed]], metric: str | None) -> list[str]:
    """The curves to draw: what the runs are for, then discriminators and skills where there are any."""
    runs = [seed for seeds in groups.values() for seed in seeds]
    there = {name for run in runs for name in run.curves}
    if metric is not None:
        if metric not in there:
            raise ValueError(f"no run has {metric!r}; there are {', '.join(sorted(there))}")
        return [metric]
    result = [name for name in RESULTS if all(name in run.curves for run in runs)][:1]
    if not result:
        raise ValueError(f"the runs have none of {', '.join(RESULTS)} in common")
    return result + [n for n in list(TITLES)[len(RESULTS) :] if n in there]


def smooth(series: Series, window: int) -> Series:
    """A trailing mean over `window` points."""
    if window <= 1:
        return series
    sums = np.cumsum(np.concatenate([[0.0], series.values]))
    first = np.maximum(np.arange(1, len(series.values) + 1) - window, 0)
    last = np.arange(1, len(series.values) + 1)
    return Series(series.steps, (sums[last] - sums[first]) / (last - first))


def draw(groups: Mapping[str, Sequence[Seed]], names: Sequence[str], window: int) -> Figure:
    """One panel per curve, one colour per group."""
    figure = Figure(figsize=(5.2 * len(names), 3.4), layout="constrained")
    for axes, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(title=TITLES.get(name, name), xlabel="million steps")
        for (group, seeds), colour in zip(groups.items(), COLOURS, strict=False):
            curves = [smooth(seed.curves[name], window) for seed in seeds if name in seed.curves]
            for curve in curves:
                axes.plot(curve.steps / 1e6, curve.values, color=colour, linewidth=0.8, alpha=0.45)
            if curves:
                mean, label = mean_curve(curves), f"{group} ({len(curves)})"
                axes.plot(mean.steps / 1e6, mean.values, color=colour, linewidth=2.2, label=label)
        axes.legend(frameon=False, fontsize=8)
    return figure


def table(groups: Mapping[str, Sequence[Seed]], name: str) -> list[str]:
    """Markdown: each run's last value, and its mean and least value over the last quarter; then each group's mean."""
    lines = [
        f"| {TITLES.get(name, name)} | steps | last | last quarter | least there |",
        "| --- | --- | --- | --- | --- |",
    ]
    for group, seeds in groups.items():
        rows = []
        for seed in seeds:
            curve = seed.curves.get(name)
            if curve is None:  # a run that has just begun
                lines.append(f"| {seed.name} | – | – | – | – |")
                continue
            late = curve.values[curve.steps > 0.75 * curve.steps[-1]]
            rows.append((curve.values[-1], late.mean(), late.min()))
            figures = " | ".join(f"{x:.3f}" for x in rows[-1])
            lines.append(f"| {seed.name} | {int(curve.steps[-1]):,} | {figures} |")
        if len(rows) > 1:
            means: Any = np.mean(rows, axis=0)
            lines.append(f"| **{group}, mean of {len(rows)}** | | " + " | ".join(f"**{x:.3f}**" for x in means) + " |")
    return lines


def run(options: CurvesOptions) -> int:
    """The command."""
    groups: dict[str, list[Seed]] = {}
    for folder in options.runs:
        group, seed = read_seed(folder)
        groups.setdefault(group, []).append(seed)
    names = shown(groups, options.metric)
    figure = draw(groups, names, options.window)
    write_picture(figure, options.output)
    for line in table(groups, names[0]):
        log.info("%s", line)
    log.info("%s", options.output)
    return 0
