"""Screening: which habits are tried where, and which are taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from echelon.hrl_xf.commands.evolve import run
from echelon.hrl_xf.layers.l3_habits import KINDS, TERMS
from echelon.hrl_xf.networks.l3_executor import load_l3
from echelon.hrl_xf.online.evolution import HABITS, NAMES, SIZE
from echelon.hrl_xf.online.screening import Habit, Play, Tried, habits, plan, screen, together
from echelon.hrl_xf.online.worlds import PlayedSeat, Weights, WorldTask
from echelon.runtime.files import read_json
from tests.hrl_xf.online.test_evolution import options

TASKS = [WorldTask("GreedyStdAgent", 5, i, "each-level", 8, None) for i in range(4)]
NO_WEIGHTS = Weights(b"", b"", b"")


def test_a_habit_is_of_one_side_and_a_seat_tries_only_what_it_can() -> None:
    vector = Habit("seller", "patience", 6.0).vector()
    assert {NAMES[i] for i in np.flatnonzero(vector)} == {
        f"seller, {size} partner/patience" for size in ("small", "large")
    }
    assert set(vector[vector != 0]) == {6.0}
    assert not vector[HABITS:].any()
    seller, buyer = Habit("seller", "end", -6.0), Habit("buyer", "end", 6.0)
    assert [seller.fits(place) for place in range(3)] == [True, True, False]
    assert [buyer.fits(place) for place in range(3)] == [False, True, True]
    assert len({str(h) for h in habits(6.0)}) == 4 * len(TERMS)
    assert len(KINDS) == 3


def test_every_habit_is_tried_about_as_often_beside_a_play_without_any() -> None:
    tried = habits(6.0)
    plays = plan(TASKS, tried, 30, seed=1)
    assert len(plays) == 4 * 31
    assert plays == plan(TASKS, tried, 30, seed=1)
    for first in plays[::31]:
        assert set(first.habits) == {None}
    used = [i for play in plays for i in play.habits if i is not None]
    counts = np.bincount(used, minlength=len(tried))
    assert counts.min() >= 3
    assert counts.max() <= counts.min() + 8
    assert all(len(set(play.habits)) == len(play.habits) for play in plays if play.habits[0] is not None)
    assert len({play.chance for play in plays}) == 4, "one chance for all plays of a configuration"


def test_what_pays_by_enough_is_taken() -> None:
    tried = [Habit("seller", "patience", 6.0), Habit("seller", "end", 6.0)]
    task, draw = TASKS[0], np.random.default_rng(0)
    plays = [Play(task, n, h) for n in range(12) for h in ((None,), (0,), (1,))]
    gains = {0: 0.03, 1: 0.0}

    def played(calls: list[tuple[WorldTask, Weights, list[np.ndarray], int]]) -> list[list[PlayedSeat] | None]:
        found: list[list[PlayedSeat] | None] = []
        for play, call in zip(plays, calls, strict=True):
            assert call[3] == play.chance
            habit = play.habits[0]
            worth = 0.0 if habit is None else gains[habit] + 0.01 * float(draw.standard_normal())
            found.append([PlayedSeat(0, 1.0 + worth, 0)])
        found[3] = None  # a configuration without its plain play tells nothing
        found[7] = None
        return found

    patience, end = screen(plays, tried, NO_WEIGHTS, played)
    assert (patience.seats, end.seats) == (10, 11)
    assert patience.gain == pytest.approx(0.03, abs=0.01)
    assert patience.error == pytest.approx(0.01 / np.sqrt(10), rel=0.5)
    assert patience.pays
    assert not end.pays
    assert np.array_equal(together([patience, end]), tried[0].vector())
    assert not together([end]).any()
    assert not Tried(tried[0], 1.0, 0.0, 1).pays, "one seat is no evidence"


@pytest.mark.numeric
def test_a_run_begins_with_what_paid_and_does_not_screen_again(tmp_path: Path) -> None:
    small = options(
        tmp_path, steps=6, screening=6.0, screening_worlds=3, screening_plays=12, generations=0, field="GreedyStdAgent"
    )
    run(small)
    rows = read_json(tmp_path / "screening.json")
    assert all(row["seats"] > 1 for row in rows)
    assert len(rows) > 10
    by_name = {str(habit): habit for habit in habits(6.0)}
    wanted = np.sum([by_name[row["habit"]].vector() for row in rows if row["pays"]] or [np.zeros(SIZE)], axis=0)
    learnt = load_l3(tmp_path / "latest" / "l3_evolved").habits
    assert learnt is not None
    assert np.array_equal(learnt.detach().numpy().ravel(), wanted[:HABITS].astype(np.float32))
    written = (tmp_path / "screening.json").stat().st_mtime_ns
    run(small)
    assert (tmp_path / "screening.json").stat().st_mtime_ns == written
