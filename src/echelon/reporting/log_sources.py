"""Which logs of a run can be browsed on the page, and the agents behind the ids in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from echelon.hrl_xf.arena.world import ArenaResult, results_in
from echelon.hrl_xf.collect.folder import result_files
from echelon.hrl_xf.collect.world import read_result
from echelon.hrl_xf.play.diary import read_diary
from echelon.hrl_xf.recording.log_files import LOGS, BadLog, agent_type_of
from echelon.hrl_xf.state.day_state import ANSWERS
from echelon.reporting.negotiations import Diary, LogSource

MOST_LOGS = 36
COLLECTION_WORLDS = 2
_FACTORY = re.compile(r"(\d+)\D*@\d+")


class Sources(NamedTuple):
    """Logs to browse, and notes about their selection."""

    logs: list[LogSource]
    notes: list[str]


def of_collection(folder: Path) -> Sources:
    """The logs of the first worlds."""
    found = []
    files = result_files(folder)
    for file in files[:COLLECTION_WORLDS]:
        result = read_result(file)
        names = {str(row["agent_id"]): str(row["agent_type"]).rpartition(".")[2] for row in result.scores}
        for name in result.log_files:
            try:
                owner = agent_type_of(folder / LOGS, name)
            except BadLog:
                continue
            found.append(LogSource(f"world {result.index}", owner, folder / LOGS / name, names.get))
    more = len(files) > COLLECTION_WORLDS
    return _limited(found, [f"These are the first {COLLECTION_WORLDS} of {len(files)} worlds."] if more else [])


def of_arena(folder: Path, first: Sequence[str] = ()) -> Sources:
    """The logs of the competitors' seats, where the arena kept them, with their diaries; `first` come first."""
    found = []
    place = {name: number for number, name in enumerate(first)}
    results = results_in(folder)
    for result in sorted(results, key=lambda r: (r.index, place.get(r.competitor, len(place)), r.competitor)):
        for seat in result.seats:
            if seat.log_file is None or not (folder / seat.log_file).exists():
                continue
            diary = Diary() if seat.diary_file is None else diary_of(folder / seat.diary_file)
            path = folder / seat.log_file
            found.append(LogSource(f"configuration {result.index}", result.competitor, path, seated(result), diary))
    return _limited(found, [])


def _limited(found: list[LogSource], notes: list[str]) -> Sources:
    """At most MOST_LOGS logs, and a note if some are left out."""
    if len(found) > MOST_LOGS:
        notes = [*notes, f"Of {len(found)} logs the first {MOST_LOGS} can be browsed here."]
    return Sources(found[:MOST_LOGS], notes)


def diary_of(path: Path) -> Diary:
    """What the layers computed; where an agent was called twice in a round, the last call counts."""
    if not path.exists():
        return Diary()
    read = read_diary(path)
    minds: dict[tuple[int, str, int], dict[str, Any]] = {}
    last: dict[tuple[int, str], tuple[dict[str, Any], list[int]]] = {}
    for call in read.calls:
        for thought in call.threads:
            side = call.seller if thought.role == "seller" else call.buyer
            mind: dict[str, Any] = {
                "alpha": thought.alpha,
                "ops": thought.ops,
                "wish": [ANSWERS.index(thought.wish), thought.wish_offer],
                "kept": thought.wish == thought.answer and thought.wish_offer == thought.answer_offer,
                "base": None if side is None else side.baseline,
            }
            minds[(call.day, thought.partner, thought.round)] = mind
            last[(call.day, thought.partner)] = mind, [] if side is None else side.safe
    for mind, safe in last.values():  # once per thread, not per round: keeps the page small
        mind["safe"] = safe
    return Diary(read.goals, minds)


def seated(result: ArenaResult) -> Callable[[str], str | None]:
    """The agent behind an id of the world, which begins with the number of the factory."""
    labels: Sequence[str] = [label or result.competitor for label in result.background]

    def who(partner: str) -> str | None:
        factory = _FACTORY.fullmatch(partner)
        number = int(factory[1]) if factory else len(labels)
        return labels[number] if number < len(labels) else None

    return who
