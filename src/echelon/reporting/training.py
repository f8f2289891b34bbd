"""A training on the page: curves of HRL-XF's phases or rounds, or of HMASD's rounds with a picture of the skills."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from echelon.reporting.tables import significant
from echelon.runtime.metrics import Series, read_metrics
from echelon.runtime.rundir import read_config

POINTS = 240
"""Maximum points per curve; longer curves are thinned."""

PHASES = {
    "l2_bc": "L2, the day's goal, by behaviour cloning",
    "l3_bc": "L3, the round's action, by behaviour cloning",
    "critic": "The critic: expected profit of a day and the days after it",
    "l3_awr": "L3 by advantage-weighted regression",
    "l4_distill": "L4, attention among threads, distilled from its teacher",
}
GROUPS = {
    "Loss": ("loss",),
    "Loss of each part": ("loss_q", "loss_p", "nll_op", "nll_day", "nll_dq", "nll_dp", "excess"),
    "Share of the returns' variance that is explained": ("explained_variance",),
    "Accuracy": ("acc_op", "acc_day", "acc_dq", "acc_dp", "acc_first"),
    "Mean error in pieces, currency, days": ("mae_q", "mae_p", "mae_dq", "mae_dp", "mae_day"),
}
HMASD = {
    "Return per episode": ("Training/Episode_Reward", "Eval/MeanReward"),
    "Success rate": ("Training/Success_Rate", "Eval/SuccessRate"),
    "Low-level reward by part": (
        "Rewards/Intrinsic/Components/Environmental_Portion_Average",
        "Rewards/Intrinsic/Components/TeamDiscriminator_Portion_Average",
        "Rewards/Intrinsic/Components/IndividualDiscriminator_Portion_Average",
    ),
    "Accuracy of the discriminators": ("Discriminator/TeamAccuracy", "Discriminator/IndividualAccuracy"),
    "Entropy": (
        "Entropy/Discoverer/Action", "Entropy/Coordinator/TeamSkill_Z", "Entropy/Coordinator/AgentSkill_z_Average",
    ),
    "Loss": ("Losses/Discoverer/Total", "Losses/Coordinator/Total", "Losses/Discriminator/Total"),
    "Explained variance of the critics": (
        "PPO/Discoverer/explained_variance", "PPO/Coordinator/explained_variance",
    ),
    "Policy change per update (approximate KL)": ("PPO/Discoverer/approx_kl", "PPO/Coordinator/approx_kl"),
}  # fmt: skip
ONLINE = {
    "Validation: score less that of the start, all fields, with its 95 % interval": (
        "Validation/all/gain", "Validation/all/gain_low", "Validation/all/gain_high",
    ),
    "Validation: score less that of the start, by field": ("Validation/league/gain", "Validation/champions/gain"),
    "Validation: score less that of the start, league, by level": (
        "Validation/league/first/gain", "Validation/league/middle/gain", "Validation/league/last/gain",
    ),
    "Validation: score less that of the start, champions, by level": (
        "Validation/champions/first/gain", "Validation/champions/middle/gain", "Validation/champions/last/gain",
    ),
    "Score of the draws (other worlds in each round)": (
        "Online/score", "Online/score/first", "Online/score/middle", "Online/score/last",
    ),
    "Policy change per update (approximate KL)": ("PPO/l2/approx_kl", "PPO/l3/approx_kl", "PPO/l4/approx_kl"),
    "Distance from the start (mean log-ratio of the draws)": ("PPO/l2/clone_kl", "PPO/l3/clone_kl", "PPO/l4/clone_kl"),
    "Entropy": ("PPO/l2/entropy", "PPO/l3/entropy", "PPO/l4/entropy"),
    "Share of the targets' variance that the critic explains": ("Critic/explained_variance",),
    "Share of answers changed by the reservation": ("Online/changed_by_reservation",),
    "Worlds per minute": ("Throughput/worlds_per_minute",),
}  # fmt: skip
SKILLS = {"skills.png": "image/png", "skills.svg": "image/svg+xml"}
_FACTS = (
    "agent_name",
    "phases",
    "data_dir",
    "l3_mode",
    "init",
    "field",
    "env",
    "algorithm",
    "total_steps",
    "envs",
    "seed",
)


def training(folder: Path) -> dict[str, Any]:
    """The page's content about a training run; `ValueError` if nothing was trained."""
    metrics = read_metrics(folder)
    phases = [name for name in PHASES if f"{name}/train_loss" in metrics]
    if phases:
        parts = [_phase(name, _of_phase(name, metrics)) for name in phases]
        parts[0]["note"] = "Solid lines are validation, dotted ones training; a dot marks the best epoch by validation."
    else:
        by = _steps_and_groups(metrics)
        parts = [part for part in (_rounds(metrics, *by), _others(metrics, by[1])) if part["plots"]]
    if not parts:
        raise ValueError(f"{folder} contains no curves: its metrics.jsonl has no complete line")
    if any(len(series.steps) > POINTS for series in metrics.values()):
        parts[0]["note"] = f"{parts[0]['note']} Long curves are drawn with {POINTS} evenly spaced points.".strip()
    return {"facts": _facts(folder), "parts": parts, "skills": skills_picture(folder)}


def _steps_and_groups(metrics: Mapping[str, Series]) -> tuple[str, Mapping[str, Sequence[str]]]:
    """What the steps of a training in rounds are, and the plots it has."""
    if "Evolution/score" in metrics:
        return "worlds", evolution_groups(list(metrics))
    return ("worlds", ONLINE) if "Online/score" in metrics else ("joint environment steps", HMASD)


def evolution_groups(names: Sequence[str]) -> dict[str, list[str]]:
    """The plots of `hrl evolve`: validation, scores, and for each kind of thread its habits and how sure they are."""
    groups = {title: list(found) for title, found in ONLINE.items() if title.startswith("Validation")}
    groups["Score of all seats (other worlds in each generation)"] = ["Evolution/score"]
    for part, title in (
        ("moved", "What stands, from the start"),
        ("sure", "Worth of the best level in standard errors"),
    ):
        for name in names:
            if name.startswith(f"Evolution/{part}/"):
                groups.setdefault(f"{title}: {name.split('/')[2]}", []).append(name)
    return groups


def skills_picture(folder: Path) -> str | None:
    """The picture that `echelon hmasd render --skills` wrote into the run's folder, as a data URI."""
    found = next((folder / name for name in SKILLS if (folder / name).is_file()), None)
    if found is None:
        return None
    return f"data:{SKILLS[found.name]};base64,{base64.b64encode(found.read_bytes()).decode()}"


def _facts(folder: Path) -> list[tuple[str, str]]:
    saved = read_config(folder)
    options = {} if saved is None else saved.options
    known = {**options, **options.get("config", {})}
    return [(name.replace("_", " "), str(known[name])) for name in _FACTS if known.get(name) is not None]


def _phase(name: str, mine: Mapping[str, Series]) -> dict[str, Any]:
    plots = []
    for title, names in _groups_of(mine).items():
        series = []
        for colour, metric in enumerate(names):
            validated = f"val_{metric}" in mine
            train = _series(metric if not validated else f"{metric}, training", mine[f"train_{metric}"], colour)
            series.append(train | ({"dotted": True, "partOf": metric} if validated else {}))
            if validated:
                val = mine[f"val_{metric}"]
                series.append(_series(metric, val, colour) | ({"mark": _lowest(val)} if metric == "loss" else {}))
        plots.append({"title": title, "x_label": "epoch", "series": series})
    return {"title": PHASES[name], "line": _sentence(mine), "note": "", "plots": plots}


def _of_phase(phase: str, metrics: Mapping[str, Series]) -> dict[str, Series]:
    """The phase's series, by their names without the phase."""
    return {key.partition("/")[2]: series for key, series in metrics.items() if key.startswith(f"{phase}/")}


def _groups_of(mine: Mapping[str, Series]) -> dict[str, list[str]]:
    """The plots of a phase: title and the names whose training and validation curves it shows."""
    found = {title: [n for n in names if f"train_{n}" in mine] for title, names in GROUPS.items()}
    return {title: names for title, names in found.items() if names}


def _sentence(mine: Mapping[str, Series]) -> str:
    """The phase's main figures in one line."""
    judged = mine.get("val_loss", mine["train_loss"])
    at = int(judged.values.argmin())
    parts = [f"{len(judged.steps)} epochs, best {judged.steps[at]} (loss {judged.values[at]:.4g})"]
    if "samples_per_second" in mine:
        parts.append(f"{mine['samples_per_second'].values.mean():,.0f} samples/s")
        parts.append(f"{mine['seconds'].values.sum():,.0f} s of training")
    tests = [f"{key[5:]} {s.values[-1]:.4g}" for key, s in mine.items() if key.startswith("test_")]
    return "; ".join([*parts, *(["test: " + ", ".join(tests)] if tests else [])])


def _lowest(series: Series) -> list[float] | None:
    """The lowest point of a curve; None if it has no finite value."""
    if not np.isfinite(series.values).any():
        return None
    at = int(np.nanargmin(series.values))
    return [int(series.steps[at]), float(series.values[at])]


def _rounds(metrics: Mapping[str, Series], steps: str, groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Curves of a training in rounds, by its steps."""
    plots = []
    for title, names in groups.items():
        there = [name for name in names if name in metrics]
        if there:
            plots.append(_plot(title, there, metrics))
    note = f"By {steps}; docs/metrics.md explains every name."
    return {"title": "Training", "line": "", "note": note, "plots": plots}


def _others(metrics: Mapping[str, Series], groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Metrics that no other plot shows, grouped by the first part of their names."""
    shown = {name for names in groups.values() for name in names}
    rest: dict[str, list[str]] = {}
    for name in metrics:
        if name not in shown:
            rest.setdefault(name.rpartition("/")[0] or name, []).append(name)
    plots = [_plot(title, names, metrics) for title, names in sorted(rest.items())]
    return {"title": "All other curves", "line": "", "note": "", "plots": plots, "folded": True}


def _plot(title: str, names: Sequence[str], metrics: Mapping[str, Series]) -> dict[str, Any]:
    prefix = names[0].rpartition("/")[0] + "/"
    common = prefix if all(name.startswith(prefix) for name in names) else ""
    series = [_series(name.removeprefix(common), metrics[name], i) for i, name in enumerate(names)]
    return {"title": title, "x_label": "environment steps", "series": series}


def _series(name: str, series: Series, colour: int) -> dict[str, Any]:
    chosen = np.unique(np.linspace(0, len(series.steps) - 1, min(len(series.steps), POINTS)).round().astype(np.int64))
    x, y = series.steps[chosen].tolist(), series.values[chosen].tolist()
    return {"name": name, "colour": colour, "x": x, "y": significant(y)}
