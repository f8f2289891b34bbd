"""A collection or a dataset on the page: scores of the tournament, and a summary of the training data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from echelon.hrl_xf.collect.scores import RESAMPLES, Ranked, rank
from echelon.hrl_xf.collect.world import results_in
from echelon.hrl_xf.dataset.summary import lines
from echelon.reporting.tables import Cell, Column, Table, interval, number, score_on_page, words
from echelon.runtime.files import read_json


def collection(folder: Path) -> dict[str, Any]:
    """The page's content about a collection, without its negotiations."""
    results = list(results_in(folder))
    options = read_json(folder / "config.json")["options"]
    ranked = rank(results)
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
        "competitors": [line.competitor for line in ranked],
        "tables": [_table(ranked)],
        "standings": [{"name": line.competitor, "scopes": {"all": score_on_page(line)}} for line in ranked],
    }


def _table(ranked: Sequence[Ranked]) -> Table:
    columns = [
        Column("#", "place by truncated mean, the league's ranking"),
        Column("agent", text=True),
        Column("seats", "factories it played, over all worlds"),
        Column("truncated mean", "mean score without outliers above the third quartile + 2 interquartile ranges"),
        Column("mean score [95 %]", "with its bootstrap interval"),
    ]
    rows = [
        [
            Cell(str(place), place), words(line.competitor), number(line.seats, "d"), number(line.truncated_mean),
            interval(msgspec.to_builtins(line.score)),
        ]
        for place, line in enumerate(ranked, start=1)
    ]  # fmt: skip
    return Table("standings", "Scores, best first", columns, rows)


def dataset(folder: Path) -> dict[str, Any]:
    """A dataset's summary, as `echelon hrl dataset` logs it, and its charts."""
    summary = read_json(folder / "summary.json")
    charts = _shares(summary) + summary.get("charts", [])  # an older summary has none of its own
    return {"facts": [("agent", summary["agent"])], "lines": list(lines(summary)), "charts": charts}


def _shares(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Bar charts from the summary alone."""
    answers = {"the expert": summary["answers_to_an_offer"], "L1 would": summary["l1_would_answer"]}
    rules = {"sent": summary["offers_sent"], "accepted": summary["offers_accepted"]}
    return [
        {"title": "Answers to an offer", "groups": answers},
        {"title": "Offers by days ahead of delivery", "groups": summary["days_ahead"]},
        {"title": "Offers that keep L1's rules", "groups": rules},
    ]
