"""Screening: which habits are tried where, and which are taken."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from echelon.hrl_xf.commands.evolve import run
from echelon.hrl_xf.evolve.evolution import HABITS, NAMES, SIZE, Evolution
from echelon.hrl_xf.evolve.run import screening
from echelon.hrl_xf.evolve.screening import (
    Habit,
    Play,
    Tried,
    habits,
    plan,
    screen,
    taken_of,
    tried_of,
    worth_trying,
)
from echelon.hrl_xf.layers.l3_habits import KINDS, TERMS
from echelon.hrl_xf.networks.l3_executor import load_l3
from echelon.hrl_xf.online.run import run_options
from echelon.hrl_xf.online.trainer import initial_layers
from echelon.hrl_xf.online.worlds import PlayedSeat, Weights, WorldTask
from echelon.runtime.execution.executors import make_executor
from echelon.runtime.files import read_json, write_json
from echelon.runtime.rundir import open_run
from tests.hrl_xf.evolve.test_evolution import options

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


def test_every_habit_is_tried_about_once_beside_a_play_without_any() -> None:
    tried = habits(6.0)
    plays = plan(TASKS, tried, seed=1)
    assert plays == plan(TASKS, tried, seed=1)
    plain = [play for play in plays if set(play.habits) == {None}]
    assert [play.chance for play in plain] == [1, 2, 3, 4]
    used = [i for play in plays for i in play.habits if i is not None]
    counts = np.bincount(used, minlength=len(tried))
    assert counts.min() >= 2
    assert counts.max() <= 8
    assert all(len(set(play.habits)) == len(play.habits) for play in plays if None not in play.habits)
    assert len({play.chance for play in plays}) == 4, "one chance for all plays of a configuration"
    sellers = plan(TASKS[:1], [Habit("seller", "end", 6.0)], seed=1)
    assert any(i is None for i in sellers[1].habits), "a seat that has nothing to try plays without"
    assert 0 in sellers[1].habits


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
            added = call[2][0] - 1.0
            assert np.array_equal(added, np.zeros(SIZE) if habit is None else tried[habit].vector())
            worth = 0.0 if habit is None else gains[habit] + 0.01 * float(draw.standard_normal())
            found.append([PlayedSeat(0, 1.0 + worth, 0)])
        found[3] = None  # a configuration without its plain play tells nothing
        found[7] = None
        return found

    patience, end = screen(plays, tried, np.ones(SIZE), NO_WEIGHTS, played)
    assert (patience.seats, end.seats) == (10, 11)
    assert patience.gain == pytest.approx(0.03, abs=0.01)
    assert patience.error == pytest.approx(0.01 / np.sqrt(10), rel=0.5)
    assert taken_of([patience, end]) == tried[:1]
    assert taken_of([end]) == taken_of([]) == []
    buyer = Tried(Habit("buyer", "accept", 6.0), 0.01, 0.004, 9)
    assert taken_of([end, patience, buyer]) == [buyer.habit, tried[0]], "one of each side"
    assert Tried(tried[0], 1.0, 0.0, 1).sure == 0.0, "one seat is no evidence"
    losing, other = (
        Tried(Habit("buyer", "end", 6.0), -0.02, 0.01, 9),
        Tried(Habit("buyer", "end", -6.0), -0.005, 0.01, 9),
    )
    opposite = Tried(Habit("seller", "patience", -6.0), -0.03, 0.01, 9)
    again = worth_trying([patience, end, losing, other, opposite], tried[:1])
    assert again == [*tried, other.habit, opposite.habit]
    assert tried_of(asdict(patience)) == patience


@pytest.mark.numeric
def test_a_run_begins_with_what_paid_and_does_not_screen_again(tmp_path: Path) -> None:
    small = options(tmp_path, steps=6, screening=6.0, screening_worlds=2, screening_rounds=1, generations=0)
    run(small)
    (found,) = [[tried_of(row) for row in found] for found in read_json(tmp_path / "screening.json")]
    wanted = sum((habit.vector() for habit in taken_of(found)), np.zeros(SIZE))
    learnt = load_l3(tmp_path / "latest" / "l3_evolved").habits
    assert learnt is not None
    assert np.array_equal(learnt.detach().numpy().ravel(), wanted[:HABITS].astype(np.float32))
    written = (tmp_path / "screening.json").stat().st_mtime_ns
    run(small)
    assert (tmp_path / "screening.json").stat().st_mtime_ns == written


def test_rounds_that_are_written_down_are_not_played_again(tmp_path: Path) -> None:
    known = [Tried(habit, 0.001 * i, 0.01, 24) for i, habit in enumerate(habits(6.0))]
    buyers = len(known) // 2  # the last one of each side is its best
    small = options(tmp_path, screening=6.0, screening_worlds=1, screening_rounds=1, generations=0)
    folder = open_run(small.output_dir, run_options(small))
    write_json(tmp_path / "screening.json", [[asdict(t) for t in known]])
    with make_executor("serial") as executor:
        evolution = Evolution(*initial_layers("cloned"), deviation=1.0, rate=0.1, memory=0.9, generations=0)
        begin = screening(small, evolution, folder, executor)
    assert np.array_equal(begin, known[buyers - 1].habit.vector() + known[-1].habit.vector())
