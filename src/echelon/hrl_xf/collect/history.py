"""tournament_history/index.json: which collections there are."""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from echelon.hrl_xf.collect.plan import TournamentPlan
from echelon.hrl_xf.collect.world import WorldResult
from echelon.runtime.files import locked, write_atomic

FOLDER = Path("tournament_history")
DEFAULT_SECONDS_PER_FACTORY_DAY = 0.006
"""Measured with the full field in the lean world; replaced by the last collection's own figure."""


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    date: str
    field: list[str]
    worlds: int
    failed: int
    logs: int
    log_bytes: int
    seconds_per_factory_day: float
    versions: dict[str, str]


class History(msgspec.Struct, frozen=True, kw_only=True):
    format_version: int = 1
    runs: list[HistoryEntry] = []


def read(folder: Path = FOLDER) -> History:
    path = folder / "index.json"
    return msgspec.json.decode(path.read_bytes(), type=History) if path.exists() else History()


def entry_of(output_dir: Path, plan: TournamentPlan, results: list[WorldResult], failed: list[str]) -> HistoryEntry:
    """The index's line for a collection."""
    factory_days = sum(r.days * r.factories for r in results)
    return HistoryEntry(
        path=str(output_dir),
        date=datetime.now().isoformat(timespec="seconds"),
        field=list(plan.competitors),
        worlds=len(results),
        failed=len(failed),
        logs=sum(len(r.log_files) for r in results),
        log_bytes=sum(r.log_bytes for r in results),
        seconds_per_factory_day=sum(r.seconds for r in results) / factory_days if factory_days else 0.0,
        versions={name: version(name) for name in ("echelon", "scml", "negmas")},
    )


def register(entry: HistoryEntry, folder: Path = FOLDER) -> None:
    """Add a collection, or renew its line; safe when two collections end at once."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".index.lock", waiting=f"another process is writing {folder / 'index.json'}; waiting for it"):
        others = [run for run in read(folder).runs if run.path != entry.path]
        write_atomic(folder / "index.json", msgspec.json.format(msgspec.json.encode(History(runs=[*others, entry]))))


def seconds_per_factory_day(folder: Path = FOLDER) -> float:
    """What a factory's day cost in the newest collection, for estimates."""
    known = [run.seconds_per_factory_day for run in read(folder).runs if run.seconds_per_factory_day > 0]
    return known[-1] if known else DEFAULT_SECONDS_PER_FACTORY_DAY
