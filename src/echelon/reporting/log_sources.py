"""Which logs of a run the page lets one browse, and who sits behind the ids in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from echelon.hrl_xf.arena_world import ArenaResult
from echelon.hrl_xf.log_files import BadLog, agent_type_of
from echelon.hrl_xf.world_run import LOGS, WORLDS, read_result
from echelon.reporting.arena_data import read_results
from echelon.reporting.negotiations import LogSource

MOST_LOGS = 36
COLLECTION_WORLDS = 2
_FACTORY = re.compile(r"(\d+)\D*@\d+")


def of_collection(folder: Path) -> list[LogSource]:
    """The logs of the first worlds."""
    found = []
    for file in sorted((folder / WORLDS).glob("[0-9]*.json"))[:COLLECTION_WORLDS]:
        result = read_result(file)
        names = {str(row["agent_id"]): str(row["agent_type"]).rpartition(".")[2] for row in result.scores}
        for name in result.log_files:
            try:
                owner = agent_type_of(folder / LOGS, name)
            except BadLog:
                continue
            found.append(LogSource(f"world {result.index}", owner, folder / LOGS / name, names.get))
    return found[:MOST_LOGS]


def of_arena(folder: Path) -> list[LogSource]:
    """The logs of the focal seats, where the arena kept them."""
    found = []
    for result in read_results(folder):
        for path in sorted((folder / LOGS).glob(f"{result.index:05d}_{result.competitor}/agent_*.json*")):
            found.append(LogSource(f"configuration {result.index}", result.competitor, path, seated(result)))
    return found[:MOST_LOGS]


def seated(result: ArenaResult) -> Callable[[str], str | None]:
    """Who plays behind an id of the world: it begins with the number of the factory."""
    labels: Sequence[str] = [label or result.competitor for label in result.background]

    def who(partner: str) -> str | None:
        factory = _FACTORY.fullmatch(partner)
        number = int(factory[1]) if factory else len(labels)
        return labels[number] if number < len(labels) else None

    return who
