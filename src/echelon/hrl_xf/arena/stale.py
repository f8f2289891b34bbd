"""Results of code that has changed since: found, reported, and played again or shown as such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from echelon.hrl_xf.arena.world import FORMAT_VERSION, ArenaResult, read_result
from echelon.hrl_xf.competitors.agent_code import PlayedBy

PLAYED_AGAIN = "they are played again now (--keep-old shows them instead)"
KEPT = "they are shown as they are, and nothing is played (--keep-old)"


@dataclass(frozen=True)
class Stale:
    """A result of other code than today's."""

    path: Path
    competitor: str
    why: str
    result: ArenaResult | None
    """None if it is in a format that is not read any more"""


class _Header(msgspec.Struct):
    format_version: int


def find_stale(paths: Mapping[Path, str], now: Mapping[str, PlayedBy]) -> list[Stale]:
    """Those of the results (by path: whose) that other code has played."""
    found = []
    for path, label in paths.items():
        if not path.exists():
            continue
        header = msgspec.json.decode(path.read_bytes(), type=_Header)
        if header.format_version < FORMAT_VERSION:
            found.append(Stale(path, label, "an earlier Echelon, whose results are not read any more", None))
            continue
        result = read_result(path)
        if result.code != now[label]:
            found.append(Stale(path, label, _why(result.code, now[label]), result))
    return found


def _why(before: PlayedBy | None, now: PlayedBy) -> str:
    if before is None:
        return "code that was not noted"
    if before.versions != now.versions:
        names = [name for name in now.versions if before.versions.get(name) != now.versions[name]]
        return "other versions: " + ", ".join(f"{n} {before.versions.get(n)} → {now.versions[n]}" for n in names)
    return "other code of its own" if before.competitor != now.competitor else "other code of the field"


def stale_lines(stale: Sequence[Stale], keep_old: bool) -> list[str]:
    """One line per competitor and reason."""
    counts = Counter((one.competitor, one.why) for one in stale)
    fate = KEPT if keep_old else PLAYED_AGAIN
    return [f"{who}: {n} existing worlds were played by {why}; {fate}" for (who, why), n in counts.items()]


def mixed_code(results: Iterable[ArenaResult]) -> list[str]:
    """What of these results was not played by one state of the code: competitors, `the field`, `versions`."""
    known = [(result.competitor, result.code) for result in results if result.code is not None]
    states: dict[str, set[str]] = {}
    for competitor, code in known:
        states.setdefault(competitor, set()).add(code.competitor)
        states.setdefault("the field", set()).add(code.field)
        states.setdefault("versions", set()).add(str(sorted(code.versions.items())))
    return [name for name, found in states.items() if len(found) > 1]
