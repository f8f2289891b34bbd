"""`echelon hrl play`: the story is that of the world, the same each time, and every option does something."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from echelon import cli
from echelon.hrl_xf.commands.play import build, played, run
from echelon.hrl_xf.options.play import PlayOptions
from echelon.hrl_xf.play.telling import tell

SMALL: dict[str, Any] = {"days": 4, "levels": 2, "factories": 2, "against": "RandomStdAgent,PenguinAgent"}


def story_of(caplog: pytest.LogCaptureFixture, **options: Any) -> str:
    caplog.clear()
    with caplog.at_level(logging.INFO, "echelon"):
        assert run(PlayOptions(**(SMALL | options))) == 0
    return "\n".join(r.message for r in caplog.records if not r.message.startswith("played in"))


def test_the_story_is_that_of_the_world(caplog: pytest.LogCaptureFixture) -> None:
    options = PlayOptions(**SMALL, l2="heuristic", l3="l1", l4="heuristic")
    world, agent = build(options)
    days = list(played(world, agent))
    assert [day.dawn.current_step for day in days] == [0, 1, 2, 3]
    mine = [c for c in world.saved_contracts if agent.id in (c["seller"], c["buyer"])]
    negotiated = sorted(
        (c["quantity"], c["delivery_time"], c["unit_price"])
        for c in mine
        if not {c["seller"], c["buyer"]} & {"SELLER", "BUYER"}
    )
    assert sorted(offer for day in days for _, _, offer in day.deals) == negotiated
    assert negotiated
    lines = [line for day in days for line in tell(day)]
    assert sum("signed" in line for line in lines) == len(negotiated)
    text = story_of(caplog, l2="heuristic", l3="l1", l4="heuristic")
    for _, _, (q, t, p) in (deal for day in days for deal in day.deals):
        assert f"signed {q} x {p} @ {t}" in text
    assert f"{world.scores()[agent.id]:.3f}" in text, "the command plays the same world"
    assert "\x1b" not in text, "plain text without a terminal"
    assert "[/]" not in text


def test_the_bundled_agent_plays_the_same_twice(caplog: pytest.LogCaptureFixture) -> None:
    first = story_of(caplog)
    assert first == story_of(caplog)
    assert "L2 HorizonManagerPPO, L3 TemporalDecisionTransformer, L4 GlobalCoordinator" in first
    assert all(f"day {day} of 4" in first for day in range(4))
    assert "PenguinAgent" in first
    assert "rank" in first
    assert first != story_of(caplog, seed=1)


@pytest.mark.parametrize(
    ("place", "level", "task"), [("first", 0, "must sell"), ("middle", 1, "must buy our"), ("last", 2, "ordered")]
)
def test_the_agent_plays_in_the_seat_asked_for(
    place: Any, level: int, task: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = story_of(caplog, levels=3, agent_level=place, l3="l1", l2="heuristic", l4="heuristic")
    assert f"LitaAgentHRL, on level {level} of 0..2" in text
    assert task in text.splitlines()[0]


def test_verbose_prints_every_offer(caplog: pytest.LogCaptureFixture) -> None:
    options = PlayOptions(**SMALL, l2="heuristic", l3="l1", l4="heuristic")
    offers = [x for day in played(*build(options)) for thread in day.threads.values() for x in thread.said]
    text = story_of(caplog, verbose=True, l2="heuristic", l3="l1", l4="heuristic")
    assert text.count("we said ") + text.count("we heard ") == len(offers) > 3


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        (["--levels", "2", "--agent-level", "middle"], "first or last"),
        (["--levels", "5"], "between 2 and 4"),
        (["--days", "3"], "at least 4"),
        (["--factories", "1"], "at least 2"),
        (["--seed", "-1"], "must not be negative"),
    ],
)
def test_wrong_use_is_one_line_with_the_cure(
    arguments: list[str], cure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["hrl", "play", *arguments]) == 2
    said = capsys.readouterr().err
    assert cure in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(("against", "cure"), [("PenguinAgnt", "did you mean PenguinAgent"), (",", "is empty")])
def test_unknown_rivals_are_refused(against: str, cure: str) -> None:
    with pytest.raises(ValueError, match=cure):
        run(PlayOptions(**(SMALL | {"against": against})))
