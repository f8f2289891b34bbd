"""`echelon report`: run folders to one self-contained HTML page."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from echelon.options import ReportOptions
from echelon.reporting.page import render
from echelon.reporting.runs import Run, find_runs
from echelon.runtime.files import write_atomic

log = logging.getLogger(__name__)

NEGOTIATION_BYTES = 2_500_000
"""Budget for the negotiations of all runs together."""


def run(options: ReportOptions) -> int:
    """Write the page of the given runs."""
    runs = find_runs(options.runs)
    page = render(title_of(runs), read_runs(runs))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.output, page)
    log.info("%s: %s", options.output, ", ".join(f"{run.name} ({run.kind})" for run in runs))
    log.info("%.1f MB in one file; open it in any browser, no network needed", len(page) / 1e6)
    return 0


def title_of(runs: Sequence[Run]) -> str:
    names = [run.name for run in runs]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def read_runs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The page's content about each run; modules that import scml are loaded only when needed."""
    browsed = sum(run.kind in ("arena", "collection") for run in runs)
    budget = NEGOTIATION_BYTES // max(1, browsed)
    found = []
    for number, run in enumerate(runs, start=1):
        content = read_run(run, budget)
        found.append({"id": f"run{number}", "kind": run.kind, "name": run.name, "tables": [], "verdicts": []} | content)
    return found


def read_run(run: Run, budget: int) -> dict[str, Any]:
    """One run as plain data."""
    if run.kind == "training":
        from echelon.reporting.training import training

        return training(run.path)
    if run.kind == "bench":
        from echelon.reporting.bench import bench

        return bench(run.path)
    from echelon.reporting import arena as arena_data
    from echelon.reporting import collection as collection_data
    from echelon.reporting import log_sources
    from echelon.reporting.negotiations import browse

    if run.kind == "dataset":
        return collection_data.dataset(run.path)
    if run.kind == "collection":
        return collection_data.collection(run.path) | {
            "negotiations": browse(*log_sources.of_collection(run.path), budget)
        }
    content = arena_data.arena(run.path)
    return content | {"negotiations": browse(*log_sources.of_arena(run.path, content["agents"]), budget)}
