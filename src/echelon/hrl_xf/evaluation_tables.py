"""The usual files of a tournament (scores.csv, total_scores.csv, stats.csv, …) from the worlds' results, by negmas."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from negmas.helpers.numeric import truncated_mean
from negmas.tournaments import evaluate_tournament

from echelon.hrl_xf.world_run import WorldResult
from echelon.runtime.files import write_atomic


def write_tables(output_dir: Path, results: Sequence[WorldResult], *, detailed: bool) -> None:
    """Evaluate as the league does (truncated mean) and write the tables; `detailed` adds those training never reads."""
    scores = pd.DataFrame([row | {"run_id": result.world_id} for result in results for row in result.scores])
    if detailed:
        write_csv(output_dir / "contracts.csv", [row for r in results for row in r.contract_table])
        write_csv(output_dir / "world_stats.csv", [r.world_stats for r in results])
        write_csv(output_dir / "agent_stats.csv", [row for r in results for row in r.agent_stats])
        write_csv(output_dir / "type_stats.csv", [row for r in results for row in r.type_stats])
    write_csv(output_dir / "stats.csv", [row for result in results for row in daily_rows(result)])
    no_stats = pd.DataFrame()  # ours are written above: negmas 0.16.0 cannot aggregate them with pandas 3
    evaluate_tournament(
        output_dir, scores=scores, stats=no_stats, metric=truncated_mean, recursive=False, compile=False
    )


def daily_rows(result: WorldResult) -> list[dict[str, Any]]:
    """A world's own statistics, one row a day."""
    days = max((len(values) for values in result.daily.values()), default=0)
    return [
        {"world": result.world_id, "step": day} | {k: v[day] for k, v in result.daily.items() if day < len(v)}
        for day in range(days)
    ]


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """A table in one piece: the old file or the new one, never half."""
    columns = sorted({name for row in rows for name in row})
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(path, text.getvalue().encode())
