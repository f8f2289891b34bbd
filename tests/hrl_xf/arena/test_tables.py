"""What the terminal shows: stars where they are due, and everything legible at 110 columns."""

from __future__ import annotations

import pytest

from echelon.hrl_xf.arena.standings import standings
from echelon.hrl_xf.arena.tables import console_tables
from echelon.hrl_xf.arena.world import ArenaResult
from tests.hrl_xf.arena.examples import result, seat

LONG = "UltraSuperMiracleSoraFinalAgentZ"


def always_better(worlds: int) -> list[ArenaResult]:
    """An agent that beats its rival by 0.5 in every world."""
    scores = {"mine": 1.5, LONG: 1.0}
    return [result(name, i, seat(x, contracts=99, leftover=12345)) for name, x in scores.items() for i in range(worlds)]


def line_of(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(start))


@pytest.mark.parametrize(("worlds", "starred"), [(9, False), (10, True)])
def test_a_star_needs_ten_worlds(worlds: int, starred: bool) -> None:
    table = standings(always_better(worlds), ["mine"], 50)
    assert {p.sure for p in table.paired if p.scope == "all"} == {starred}
    text = console_tables(table).partition("minus rival")[2]
    assert ("+0.500 [+0.500, +0.500] *" in text) == starred
    assert "+0.500 [+0.500, +0.500]" in text


def test_a_difference_that_may_be_chance_has_no_star() -> None:
    mixed = [result(name, i, seat(1.0 + sign * (-1) ** i)) for name, sign in (("a", 1), ("b", 0)) for i in range(12)]
    assert not any(p.sure for p in standings(mixed, ["a"], 200).paired)


def test_one_world_alone_has_no_interval() -> None:
    text = console_tables(standings(always_better(1), ["mine"], 50))
    assert "[1.500" not in text
    assert "[+0.500" not in text
    assert "+0.500" in text


def test_all_tables_are_whole_at_110_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut (…), no line is longer, and each competitor has one line in each table."""
    monkeypatch.setenv("COLUMNS", "60")  # the least width is 110 all the same
    text = console_tables(standings(always_better(12), ["mine"], 50))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 110
    assert sum(LONG in line for line in text.splitlines()) == 4
    conduct = text.partition("Conduct")[2]
    assert line_of(conduct, LONG).split() == [LONG, "49.50", "0", "0.00", "0.0%", "12345.0", "0.0%", "0", "0.0"]
    heading = conduct.splitlines()[2:4]
    assert [line.split() for line in heading] == [
        ["deals", "unde-", "short", "short", "left", "beyond", "ms"],
        ["competitor", "/", "day", "livered", "/", "day", "days", "over", "L1", "errors", "/", "day"],
    ]
