"""A bench on the page: scores of algorithms in environments with intervals, and their curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from echelon.hmasd.bench.results import SUCCESS, BenchResults, Line, read_results
from echelon.reporting.tables import MISSING, Cell, Column, Table, interval, number, significant, words
from echelon.runtime.files import read_json
from echelon.runtime.statistics import Interval

NOTE = (
    "Lines are interquartile means over seeds (without the lowest and the highest quarter), bands 95 % intervals by "
    "stratified bootstrap: runs are drawn again within each environment."
)


def bench(folder: Path) -> dict[str, Any]:
    """Everything the page says about a bench."""
    results, asked = read_results(folder), read_json(folder / "bench.json")
    facts = [
        ("runs", f"{sum(len(line.seeds) for line in results.lines)} of {len(asked['runs'])} finished"),
        ("environments", ", ".join(dict.fromkeys(line.env for line in results.lines))),
        ("intervals", f"95 %, stratified bootstrap over seeds, {results.resamples:,} resamples"),
        ("score of a run", "mean of its evaluations in the last tenth of the training"),
    ]
    tables = [score_table(results), seed_table(results)]
    if results.overall:
        tables.append(overall_table(results))
    return {"facts": facts, "verdicts": verdicts(results), "tables": tables, "parts": parts(results)}


def score_table(results: BenchResults) -> Table:
    """One row for each algorithm in each environment."""
    columns = [
        Column("environment", text=True),
        Column("algorithm", "with the swept values of its options", text=True),
        Column("IQM [95 %]", "interquartile mean of the seeds' scores, with its bootstrap interval"),
        Column("mean", "over seeds"),
        Column("worst", "seed"),
        Column("best", "seed"),
        Column("random play", "mean return of actions drawn evenly; not shown beside success rates"),
        Column("seeds", "finished runs"),
        Column("steps", "joint environment steps of one training"),
        Column("minutes", "mean time of one run, collecting and learning"),
        Column("what", "what is compared", text=True),
    ]
    return Table("scores", "Scores", columns, [_row(line) for line in results.lines], _best(results.lines))


def _row(line: Line) -> list[Cell]:
    planned = len(line.seeds) + len(line.unfinished)
    seeds = f"{len(line.seeds)} of {planned}" if line.unfinished else str(planned)
    return [
        words(line.env),
        words(line.label),
        interval(_estimate(line.score)),
        number(line.mean),
        number(min(line.scores, default=None)),
        number(max(line.scores, default=None)),
        number(None if line.metric == SUCCESS else line.random),
        Cell(seeds, len(line.seeds)),
        Cell(f"{line.steps:,}", line.steps),
        number(line.minutes, ".1f"),
        words(line.metric),
    ]


def _best(lines: Sequence[Line]) -> list[bool]:
    """The line with the highest interquartile mean of each environment."""
    best: dict[str, float] = {}
    for line in lines:
        if line.score is not None:
            best[line.env] = max(best.get(line.env, line.score.value), line.score.value)
    return [line.score is not None and line.score.value == best[line.env] for line in lines]


def seed_table(results: BenchResults) -> Table:
    """Every run's score."""
    columns = [
        Column("environment", text=True),
        Column("algorithm", text=True),
        Column("seed"),
        Column("score"),
    ]
    rows = [
        [words(line.env), words(line.label), number(seed, "d"), number(score)]
        for line in results.lines
        for seed, score in zip(line.seeds, line.scores, strict=True)
    ]
    rows += [
        [words(line.env), words(line.label), number(seed, "d"), Cell(MISSING, None)]
        for line in results.lines
        for seed in line.unfinished
    ]
    return Table("seeds", "Every run", columns, rows)


def overall_table(results: BenchResults) -> Table:
    """Algorithms over all environments."""
    columns = [
        Column("algorithm", text=True),
        Column("IQM [95 %]", "of scores on one scale: 0 is random play, 1 the best run of the bench there"),
        Column("environments", text=True),
    ]
    rows = [
        [words(line.label), interval(_estimate(line.score)), words(", ".join(line.envs))] for line in results.overall
    ]
    return Table("overall", "All environments, 0 is random play, 1 the best run", columns, rows)


def verdicts(results: BenchResults) -> list[str]:
    """For each environment which algorithm is ahead, and whether the intervals part."""
    said = []
    for env in dict.fromkeys(line.env for line in results.lines):
        ranked = sorted(
            ((line.label, line.score) for line in results.lines if line.env == env and line.score is not None),
            key=lambda pair: -pair[1].value,
        )
        if not ranked:
            continue
        (first, score), others = ranked[0], ranked[1:]
        near = [label for label, other in others if other.high >= score.low]
        text = f"{env}: {first} is highest, {score}."
        if others:
            text += f" Its interval overlaps that of {', '.join(near)}." if near else " No other interval reaches its."
        said.append(text)
    return said


def parts(results: BenchResults) -> list[dict[str, Any]]:
    """Curves, one plot for each environment; an algorithm keeps its colour."""
    labels = list(dict.fromkeys(line.label for line in results.lines))
    plots = []
    for env in dict.fromkeys(line.env for line in results.lines):
        here = [line for line in results.lines if line.env == env and line.curve.steps]
        series = [
            {
                "name": line.label,
                "colour": labels.index(line.label),
                "x": line.curve.steps,
                "y": significant(line.curve.value),
                "low": significant(line.curve.low),
                "high": significant(line.curve.high),
            }
            for line in here
        ]
        if series:
            plots.append({"title": f"{env}: {here[0].metric}", "x_label": "environment steps", "series": series})
    return [{"title": "Over the training", "line": "", "note": NOTE, "plots": plots}]


def _estimate(score: Interval | None) -> dict[str, float] | None:
    return None if score is None else {"mean": score.value, "low": score.low, "high": score.high}
