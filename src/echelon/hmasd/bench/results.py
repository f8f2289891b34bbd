"""What the runs of a bench say together: interquartile means over seeds with intervals, at the end and on the way.

A run's score is the mean of its evaluations in the last tenth of its training (at least the last one). Over several
environments scores are put on one scale: 0 is random play (no success, where success is counted), 1 the best run of
the bench in that environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from echelon.hmasd.bench.plan import PlannedRun
from echelon.runtime.files import read_json
from echelon.runtime.metrics import Series, read_metrics
from echelon.runtime.seeding import rng
from echelon.runtime.statistics import Interval, interquartile_mean, stratified_bootstrap

FORMAT_VERSION = 1
SUCCESS, REWARD, RANDOM = "Eval/SuccessRate", "Eval/MeanReward", "Eval/RandomReward"
LATE = 0.9
"""share of the training after which evaluations count for the score"""


@dataclass(frozen=True)
class Curve:
    """The interquartile mean over seeds at every evaluation that all of them have, with its interval."""

    steps: list[int]
    value: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Line:
    """One algorithm (with one setting of its options) in one environment."""

    env: str
    label: str
    metric: str
    seeds: list[int]
    """those that are finished, in the order of `scores`"""
    scores: list[float]
    unfinished: list[int]
    """seeds that failed or were not trained to the end"""
    score: Interval | None
    """interquartile mean; None where no seed is finished"""
    mean: float | None
    random: float | None
    """what random play earns; None where that was not measured"""
    steps: int
    minutes: float | None
    """mean time of a run, collecting and learning"""
    curve: Curve


@dataclass(frozen=True)
class Overall:
    """One algorithm over all environments, on the common scale."""

    label: str
    envs: list[str]
    score: Interval


@dataclass(frozen=True)
class BenchResults:
    """The content of results.json."""

    format_version: int
    resamples: int
    lines: list[Line]
    overall: list[Overall]


def summarise(runs: Sequence[PlannedRun], metric: str | None, resamples: int) -> BenchResults:
    """Read the runs of a bench and compare them."""
    measured = {run.name: _metrics(run) for run in runs}
    lines = []
    for env in dict.fromkeys(run.env for run in runs):
        here = [run for run in runs if run.env == env]
        shown = metric or metric_of([measured[run.name] for run in here])
        for label in dict.fromkeys(run.label for run in here):
            group = [run for run in here if run.label == label]
            lines.append(_line(env, label, shown, group, measured, resamples))
    return BenchResults(FORMAT_VERSION, resamples, lines, overall(lines, resamples))


def metric_of(runs: Sequence[Mapping[str, Series]]) -> str:
    """Success where every run that was evaluated knows it, else the mean return."""
    evaluated = [run for run in runs if REWARD in run]
    return SUCCESS if evaluated and all(SUCCESS in run for run in evaluated) else REWARD


def score_of(curve: Series, total_steps: int) -> float:
    """The mean of a finished run's evaluations in the last tenth, or the last one."""
    late = curve.values[curve.steps > LATE * total_steps]
    return float(late.mean() if len(late) else curve.values[-1])


def curve_of(seeds: Sequence[Series], resamples: int, place: Sequence[str | int]) -> Curve:
    """The interquartile mean at the steps that all seeds have."""
    if not seeds:
        return Curve([], [], [], [])
    steps = sorted(set.intersection(*(set(seed.steps.tolist()) for seed in seeds)))
    table = np.stack([seed.values[np.isin(seed.steps, steps)] for seed in seeds])  # (seeds, steps)
    points = [
        stratified_bootstrap([column], rng(0, "bench", *place, step), resamples)
        for step, column in zip(steps, table.T, strict=True)
    ]
    return Curve(steps, [p.value for p in points], [p.low for p in points], [p.high for p in points])


def overall(lines: Sequence[Line], resamples: int) -> list[Overall]:
    """Algorithms over all environments in which some run beats random play; needs two of them."""
    scaled: dict[str, dict[str, list[float]]] = {}
    envs = list(dict.fromkeys(line.env for line in lines))
    for env in envs:
        here = [line for line in lines if line.env == env and line.scores]
        floors = [0.0 if line.metric == SUCCESS else line.random for line in here]
        known = [floor for floor in floors if floor is not None]
        best = max((score for line in here for score in line.scores), default=0.0)
        if not known or best <= (floor := float(np.mean(known))):
            continue
        for line in here:
            normal = [(score - floor) / (best - floor) for score in line.scores]
            scaled.setdefault(line.label, {})[env] = normal
    compared = {env for by_env in scaled.values() for env in by_env}
    if len(compared) < 2:
        return []
    found = []
    for label, by_env in scaled.items():
        if by_env.keys() == compared:
            score = stratified_bootstrap(list(by_env.values()), rng(0, "bench", "overall", label), resamples)
            found.append(Overall(label, list(by_env), score))
    return sorted(found, key=lambda line: -line.score.value)


def is_finished(run: PlannedRun) -> bool:
    """Whether the run's last checkpoint is one of all its steps."""
    assert run.options.output_dir is not None  # the plan gives every run one
    state = run.options.output_dir / "checkpoints" / "hmasd_sync_final" / "state.json"
    return state.is_file() and read_json(state)["state"]["env_steps"] >= run.options.config.total_steps


def read_results(folder: Path) -> BenchResults:
    """The content of a bench's results.json."""
    return msgspec.json.decode((folder / "results.json").read_bytes(), type=BenchResults)


def _metrics(run: PlannedRun) -> dict[str, Series]:
    assert run.options.output_dir is not None  # the plan gives every run one
    return read_metrics(run.options.output_dir) if (run.options.output_dir / "metrics.jsonl").is_file() else {}


def _line(
    env: str,
    label: str,
    metric: str,
    group: Sequence[PlannedRun],
    measured: Mapping[str, Mapping[str, Series]],
    resamples: int,
) -> Line:
    total = max(run.options.config.total_steps for run in group)
    scores: dict[int, float] = {}
    for run in group:
        curve = measured[run.name].get(metric)
        if curve is not None and is_finished(run):
            scores[run.seed] = score_of(curve, total)
    values = list(scores.values())
    done = [measured[run.name] for run in group if run.seed in scores]
    floors = [float(curves[RANDOM].values[-1]) for curves in done if RANDOM in curves]
    return Line(
        env=env,
        label=label,
        metric=metric,
        seeds=list(scores),
        scores=values,
        unfinished=[run.seed for run in group if run.seed not in scores],
        score=stratified_bootstrap([values], rng(0, "bench", env, label), resamples) if values else None,
        mean=float(np.mean(values)) if values else None,
        random=float(interquartile_mean(floors)) if floors else None,
        steps=total,
        minutes=float(np.mean([_minutes(curves) for curves in done])) if done else None,
        curve=curve_of([curves[metric] for curves in done], resamples, (env, label)),
    )


def _minutes(curves: Mapping[str, Series]) -> float:
    parts = [curves[name].values.sum() for name in ("Sync/CollectionTime", "Sync/UpdateTime") if name in curves]
    return float(sum(parts)) / 60


def table(results: BenchResults) -> list[str]:
    """The comparison as Markdown."""
    head = "| environment | algorithm | IQM [95 %] | mean | worst | best | random play | seeds | steps | minutes |"
    lines = [head, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for line in results.lines:
        worst, best = (min(line.scores), max(line.scores)) if line.scores else (None, None)
        seeds = f"{len(line.seeds)}" + (f" of {len(line.seeds) + len(line.unfinished)}" if line.unfinished else "")
        figures = (line.mean, worst, best, None if line.metric == SUCCESS else line.random)
        cells = [line.env, line.label, str(line.score or "–"), *map(_figure, figures), seeds, f"{line.steps:,}"]
        lines.append(f"| {' | '.join([*cells, _figure(line.minutes, '.1f')])} |")
    if results.overall:
        lines += ["", "| all environments, 0 random play, 1 best run | IQM [95 %] |", "| --- | --- |"]
        lines += [f"| {line.label} | {line.score} |" for line in results.overall]
    return lines


def _figure(value: float | None, form: str = ".3f") -> str:
    return "–" if value is None else format(value, form)


def rows(results: BenchResults) -> list[dict[str, Any]]:
    """One row for each finished run, for a CSV file."""
    return [
        {"env": line.env, "algorithm": line.label, "metric": line.metric, "seed": seed, "score": score}
        for line in results.lines
        for seed, score in zip(line.seeds, line.scores, strict=True)
    ]
