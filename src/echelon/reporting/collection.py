"""A collection or a dataset on the page: who scored what in the tournament, and what the training data look like."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from echelon.hrl_xf.arena.standings import bootstrap
from echelon.hrl_xf.collect.world import WORLDS, WorldResult, read_result
from echelon.hrl_xf.dataset.summary import lines
from echelon.reporting.tables import Cell, Column, Table, interval, number, words
from echelon.runtime.files import read_json

RESAMPLES = 2_000


def collection(folder: Path) -> dict[str, Any]:
    """Everything the page says about a collection, but for its negotiations."""
    results = [read_result(path) for path in sorted((folder / WORLDS).glob("[0-9]*.json"))]
    options = read_json(folder / "config.json")["options"]
    ranked = sorted(score_table(results), key=lambda line: -line["scopes"]["all"]["mean"])
    days = sorted({result.days for result in results})
    facts = [
        ("worlds", f"{len(results)} of {len({r.config_id for r in results})} configurations"),
        ("days", f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}"),
        ("contracts", f"{sum(result.contracts for result in results):,}"),
        ("logs", f"{sum(len(result.log_files) for result in results)}"),
        ("seed", str(options["seed"])),
        ("intervals", f"95 %, bootstrap over configurations, {RESAMPLES:,} resamples"),
    ]
    return {
        "facts": facts,
        "agents": [],
        "competitors": [line["name"] for line in ranked],
        "tables": [_table(ranked)],
        "standings": ranked,
    }


def score_table(results: Iterable[WorldResult]) -> list[dict[str, Any]]:
    """Each class's mean score with an interval; a configuration is the unit of chance."""
    by_name: dict[str, dict[str, list[float]]] = {}
    for result in results:
        for row in result.scores:
            name = str(row["agent_type"]).rpartition(".")[2]
            by_name.setdefault(name, {}).setdefault(result.config_id, []).append(float(row["score"]))
    found = []
    for name, clusters in by_name.items():
        total = np.array([sum(scores) for scores in clusters.values()])
        count = np.array([len(scores) for scores in clusters.values()], np.float64)
        estimate = bootstrap(total, count, RESAMPLES, "collection")
        overall = {"mean": estimate.mean, "low": estimate.low, "high": estimate.high, "worlds": int(count.sum())}
        found.append({"name": name, "scopes": {"all": overall}})
    return found


def _table(ranked: list[dict[str, Any]]) -> Table:
    columns = [
        Column("#", "place by mean score"),
        Column("agent", text=True),
        Column("seats", "factories it played, over all worlds"),
        Column("mean score [95 %]", "with its bootstrap interval"),
    ]
    rows = []
    for place, line in enumerate(ranked, start=1):
        overall = line["scopes"]["all"]
        rows.append(
            [Cell(str(place), place), words(line["name"]), number(overall["worlds"], "d"), interval(overall)]
        )  # fmt: skip
    return Table("standings", "Scores, best first", columns, rows)


def dataset(folder: Path) -> dict[str, Any]:
    """A dataset's summary, as `echelon hrl dataset` says it; its plots are in dataset.html beside it."""
    summary = read_json(folder / "summary.json")
    return {"facts": [("agent", summary["agent"])], "lines": list(lines(summary)), "charts": _shares(summary)}


def _shares(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Bars that a summary can draw by itself."""
    answers = {"the expert": summary["answers_to_an_offer"], "L1 would": summary["l1_would_answer"]}
    rules = {"sent": summary["offers_sent"], "accepted": summary["offers_accepted"]}
    return [
        {"title": "Answers to an offer", "groups": answers},
        {"title": "Offers by days ahead of delivery", "groups": summary["days_ahead"]},
        {"title": "Offers that keep L1's rules", "groups": rules},
    ]
