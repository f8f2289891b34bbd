"""Standings as files (standings.json, CSV) and as tables for the terminal."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from echelon.hrl_xf.arena.standings import SCOPES, WORLDS_TO_BE_SURE, Standing, Standings
from echelon.hrl_xf.arena.world import ArenaResult
from echelon.hrl_xf.collect.scores import Estimate, Ranked
from echelon.runtime.files import write_atomic, write_csv

_LEAST_WIDTH = 110


def write_standings(output_dir: Path, table: Standings) -> None:
    """standings.json with everything, standings.csv by competitor, paired.csv by difference."""
    write_atomic(output_dir / "standings.json", msgspec.json.format(msgspec.json.encode(table)))
    write_csv(output_dir / "standings.csv", [_row(line) for line in table.competitors])
    paired = [msgspec.to_builtins(p) for p in table.paired]
    write_csv(output_dir / "paired.csv", [p | p.pop("difference") for p in paired])


def write_scores(output_dir: Path, results: Iterable[ArenaResult]) -> None:
    """scores.csv: every focal seat's score, for statistics of one's own."""
    rows = [
        {
            "configuration": result.index,
            "seat": seat.seat,
            "level": seat.place,
            "days": result.days,
            "competitor": result.competitor,
            "score": seat.score,
        }
        for result in sorted(results, key=lambda result: (result.index, result.competitor))
        for seat in result.seats
    ]
    write_csv(output_dir / "scores.csv", rows)


def _row(line: Standing) -> dict[str, Any]:
    row: dict[str, Any] = {"competitor": line.competitor, "worlds": line.worlds, "mean_rank": line.mean_rank}
    for scope, score in line.scores.items():
        estimate = {f"score_{k}": v for k, v in msgspec.to_builtins(score.score).items()}
        figures = estimate | {"truncated_mean": score.truncated_mean}
        row |= {f"{scope}_{name}": value for name, value in figures.items()}
    conduct: dict[str, Any] = msgspec.to_builtins(line.conduct)
    return row | {f"loss_{cause}": x for cause, x in conduct.pop("losses").items()} | conduct


def console_tables(table: Standings) -> str:
    """All tables as text; in colour where a terminal shows it."""
    differences = [_differences(table, agent) for agent in table.agents]
    return _text(_scores(table), *differences, _conduct(table), _losses(table))


def total_scores_table(ranked: Iterable[Ranked], agents: Collection[str]) -> str:
    """An official tournament as text."""
    made = _table("Total scores", "competitor", "worlds", "total score", "mean [95 %]")
    for line in ranked:
        figures = str(line.seats), f"{line.truncated_mean:.3f}", _interval(line.score, line.configurations)
        made.add_row(line.competitor, *figures, style="bold" if line.competitor in agents else None)
    return _text(made)


def _text(*tables: Table) -> str:
    width = max(_LEAST_WIDTH, shutil.get_terminal_size().columns)
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=sys.stdout.isatty())
    for table in tables:
        console.print(table)
    return text.getvalue().rstrip()


def _table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    made.add_column(columns[0], no_wrap=True, max_width=36)
    for name in columns[1:]:
        made.add_column(name, justify="right")
    return made


def _interval(estimate: Estimate, clusters: int, sign: str = "") -> str:
    """A mean with its interval; one cluster alone tells nothing about chance."""
    if clusters < 2:
        return f"{estimate.mean:{sign}.3f}"
    return f"{estimate.mean:{sign}.3f} [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]"


def _scores(table: Standings) -> Table:
    made = _table(
        f"Scores ({table.complete_worlds} worlds played by all)",
        "competitor", "worlds", "truncated mean", "mean [95 %]", "first", "middle", "last", "rank",
    )  # fmt: skip
    for line in table.competitors:
        levels = [f"{line.scores[s].score.mean:.3f}" if s in line.scores else "" for s in SCOPES[1:]]
        overall = line.scores["all"]
        rank = "" if line.mean_rank is None else f"{line.mean_rank:.2f}"
        row = [
            str(line.worlds),
            f"{overall.truncated_mean:.3f}",
            _interval(overall.score, overall.configurations),
            *levels,
            rank,
        ]
        made.add_row(line.competitor, *row, style="bold" if line.competitor in table.agents else None)
    return made


def _differences(table: Standings, agent: str) -> Table:
    made = _table(f"{agent} minus rival, in the same seats", "rival", "worlds", "wins", "all seats [95 %]", *SCOPES[1:])
    made.caption = f"* the interval leaves 0 out, with at least {WORLDS_TO_BE_SURE} worlds"
    made.caption_justify = "left"
    mine = {(p.rival, p.scope): p for p in table.paired if p.agent == agent}
    for line in table.competitors:
        overall = mine.get((line.competitor, "all"))
        if overall is None:
            continue
        levels = [mine.get((line.competitor, scope)) for scope in SCOPES[1:]]
        made.add_row(
            line.competitor,
            str(overall.worlds),
            f"{overall.win_rate:.0%}",
            _interval(overall.difference, overall.worlds, "+") + (" *" if overall.sure else "  "),
            *("" if p is None else f"{p.difference.mean:+.3f}" for p in levels),
        )
    return made


def _conduct(table: Standings) -> Table:
    made = _table(
        "Conduct",
        "competitor", "deals\n/ day", "unde-\nlivered", "short\n/ day", "short\ndays", "left\nover", "beyond\nL1",
        "errors", "ms\n/ day",
    )  # fmt: skip
    for line in table.competitors:
        c = line.conduct
        made.add_row(
            line.competitor,
            f"{c.contracts_per_day:.2f}",
            f"{c.undelivered:,}",
            f"{c.shortfall_per_day:.2f}",
            f"{c.shortfall_rate:.1%}",
            f"{c.leftover:.1f}",
            f"{c.beyond_l1_signed:.1%}",
            str(c.exceptions + c.fallbacks),
            f"{1000 * c.seconds_per_day:.1f}",
        )
    return made


def _losses(table: Standings) -> Table:
    names = ("shortfall", "storage", "price bought", "price sold", "idle lines", "left over")
    made = _table("Money lost by cause, as a share of the initial balance", "competitor", *names)
    for line in table.competitors:
        made.add_row(line.competitor, *(f"{x:+.3f}" for x in msgspec.structs.astuple(line.conduct.losses)))
    return made
