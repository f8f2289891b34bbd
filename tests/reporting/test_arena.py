"""What the page says about an arena agrees with its standings, and its sentences with its intervals."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.hrl_xf.arena.standings import standings
from echelon.hrl_xf.arena.tables import write_standings
from echelon.hrl_xf.arena.world import results_in
from echelon.reporting.arena import arena, evaluated_agents
from tests.reporting.examples import arena_results, write_arena


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_arena(tmp_path / "arena", arena_results())


def test_standings_differences_and_losses(folder: Path) -> None:
    said = arena(folder)
    assert said["competitors"] == ["Best", "Ours", "</script><b>Worst"]
    table = {t.id: t for t in said["tables"]}
    assert [row[1].text for row in table["standings"].rows] == said["competitors"]
    assert [table["standings"].is_marked(i) for i in range(3)] == [False, True, False]
    assert [row[3].value for row in table["standings"].rows] == pytest.approx([1.3, 1.2, 0.7])
    overall = {p["rival"]: p for p in said["paired"] if p["scope"] == "all"}
    assert overall["Best"]["mean"] == pytest.approx(-0.1)
    assert overall["Best"]["high"] < 0  # the same in every world: no doubt
    # One of the two seats lost: 8 of 100 in penalties, so .04 a seat; on the first level .08.
    assert said["losses"]["all"]["Ours"]["shortfall"] == pytest.approx(0.04)
    assert said["losses"]["first"]["Ours"]["price_bought"] == pytest.approx(-0.05)
    assert said["losses"]["last"]["Ours"]["shortfall"] == 0
    assert "middle" not in said["losses"]


def test_the_verdict_says_what_the_intervals_say(folder: Path) -> None:
    (verdict,) = arena(folder)["verdicts"]
    assert verdict.startswith("Ours takes place 2 of 3: mean score 1.200 [1.000, 1.400].")
    assert verdict.endswith("Better than </script><b>Worst (+0.500); worse than Best (−0.100).")


def test_what_compete_wrote_decides_who_is_judged(folder: Path) -> None:
    results = results_in(folder)
    assert evaluated_agents(folder, results)[0] == ["Ours"]  # an agent of our own, as nothing was written
    write_standings(folder, standings(results, ["Best"], resamples=50))
    assert evaluated_agents(folder, results) == (["Best"], 50)
    assert arena(folder)["agents"] == ["Best"]
