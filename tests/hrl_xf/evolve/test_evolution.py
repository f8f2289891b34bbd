"""Evolution: what is tried out, what stands, and a run of small real worlds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from echelon.hrl_xf.commands.evolve import run
from echelon.hrl_xf.evolve.evolution import Evolution, Play, play_changed
from echelon.hrl_xf.evolve.numbers import HABITS, NAMES, SIZE, used_by_place, values
from echelon.hrl_xf.evolve.run import generation, generation_tasks, save
from echelon.hrl_xf.online.run import run_options
from echelon.hrl_xf.online.trainer import initial_layers
from echelon.hrl_xf.online.validation import validation_tasks
from echelon.hrl_xf.online.worlds import PlayedSeat, WorldTask
from echelon.hrl_xf.options.evolve import EvolveOptions
from echelon.runtime.execution.executors import make_executor
from echelon.runtime.metrics import read_metrics
from echelon.runtime.rundir import open_run

pytestmark = pytest.mark.numeric
TASKS = [WorldTask("GreedyStdAgent", 5, i, "each-level", 8, None) for i in range(40)]


def options(folder: Path, **changes: object) -> EvolveOptions:
    """A run of seconds."""
    small = {
        "output_dir": folder, "init": "cloned", "generations": 2, "configurations": 1, "plays": 2,
        "field": "GreedyStdAgent", "steps": 8, "validate_every": 0, "validation_worlds": 1,
        "validation_fields": "GreedyStdAgent", "parallelism": "serial", "quiet": True,
    }  # fmt: skip
    return EvolveOptions(**(small | changes))  # type: ignore[arg-type]


def evolution(share: float = 0.25) -> Evolution:
    return Evolution(*initial_layers("cloned"), weight=6.0, share=share, memory=0.98)


def layers_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "latest").glob("*.safetensors")}


def played(plays: list[Play], worth: np.ndarray, noise: float, seed: int) -> list[list[PlayedSeat] | None]:
    """Scores as if each level of each number were worth this much.  # (SIZE, 5)"""
    draw, used = np.random.default_rng(seed), used_by_place()
    found: list[list[PlayedSeat] | None] = []
    for play in plays:
        seats = []
        for place, levels in enumerate(play.levels[:3]):
            score = play.task.index % 7 + (worth[np.arange(SIZE), levels] * used[place]).sum()
            seats.append(PlayedSeat(place, float(score + noise * draw.standard_normal()), 0))
        found.append(seats)
    return found


def test_a_seat_tries_a_share_of_all_numbers_beside_what_stands() -> None:
    e = evolution(share=0.2)
    plays = e.plan(TASKS[:10], 6, seed=1)
    again = e.plan(TASKS[:10], 6, seed=1)
    assert all(np.array_equal(a.levels, b.levels) for a, b in zip(plays, again, strict=True))
    levels = np.concatenate([play.levels for play in plays])
    assert (levels > 0).mean() == pytest.approx(0.1 * 0.92, abs=0.02), "nearly every draw finds a level above 0"
    assert len(np.unique(levels, axis=0)) == len(levels), "every seat has its own"
    e.learn(plays, played(plays, np.zeros((SIZE, 5)), 0.05, 2))
    assert not any(np.array_equal(a.levels, b.levels) for a, b in zip(plays, e.plan(TASKS[:10], 6, 1), strict=True))


def test_what_pays_stands_and_what_loses_does_not() -> None:
    """Ten generations of 48 worlds in which each number is worth what it was given."""
    worth = np.zeros((SIZE, 5))
    worth[:] = np.array([0.0, -0.03, -0.01, -0.01, -0.03])  # trying things out costs money
    good, small, others = (
        NAMES.index(f"{name}")
        for name in (
            "seller, first level, large partner/patience",
            "buyer, last level, small partner/end",
            "goal/buy_0",
        )
    )
    worth[good] = [0.0, -0.03, -0.01, 0.01, 0.03]
    worth[small] = [0.0, 0.03, 0.04, -0.02, -0.04]
    worth[others] = [0.0, 0.03, 0.01, 0.0, 0.0]
    e = evolution()
    for number in range(8):
        plays = e.plan(TASKS[4 * number : 4 * number + 4], 12, seed=3)
        results = played(plays, worth, 0.01, number)
        results[5] = None  # a world that failed
        e.learn(plays, results)
    assert e.generation == 8
    known = e.standing()
    assert known.levels[[good, others]].tolist() == [4, 1]
    assert known.levels[small] in (1, 2), "both pay"
    assert known.worth[good] == pytest.approx(0.03, abs=5 * known.error[good])
    assert (known.levels > 0).sum() <= 8, "few others by mistake"
    moved = values(known.levels, 6.0)
    assert moved[good] == 6.0
    l2, l3, _ = e.layers()
    assert l3.habits is not None
    assert l3.habits.detach().numpy().ravel() == pytest.approx(moved[:HABITS])
    assert l2.mean.bias.detach().numpy()[::2] - e.l2.mean.bias.detach().numpy()[::2] == pytest.approx(
        moved[HABITS:], abs=1e-6
    )
    tried = np.concatenate([play.levels for play in e.plan(TASKS[:10], 6, seed=3)])
    assert 0.75 < (tried[:, good] == 4).mean() < 0.95, "what stands is played, and compared with what was"
    with pytest.raises(RuntimeError, match="no world"):
        e.learn(plays[:1], [None])


def test_a_world_depends_on_its_habits_alone() -> None:
    weights = evolution().start_weights()
    task = WorldTask("GreedyStdAgent,SyncRandomStdAgent", 5, 0, "each-level", 12, None)
    by = np.random.default_rng(0).normal(0.0, 4.0, (len(task.configuration().focal), SIZE))
    first, again = (play_changed(task, weights, by) for _ in range(2))
    assert first == again
    assert [s.score for s in first] != [s.score for s in play_changed(task, weights, -by)]
    assert all(seat.fallbacks == 0 for seat in first)


def test_a_run_stopped_after_a_generation_and_resumed_equals_one_that_was_not(tmp_path: Path) -> None:
    run(options(tmp_path / "whole"))
    small = options(tmp_path / "stopped", parallelism="loky:2")
    with make_executor("serial") as executor:
        begun = Evolution(*initial_layers("cloned"), weight=small.weight, share=small.share, memory=small.memory)
        folder = open_run(small.output_dir, run_options(small))
        generation(small, begun, executor)
        save(small, begun, folder)
    run(small)
    whole = layers_of(tmp_path / "whole")
    assert sorted(whole) == ["l2_evolved.safetensors", "l3_evolved.safetensors", "l4_distill.safetensors"]
    assert layers_of(tmp_path / "stopped") == whole
    steps = read_metrics(tmp_path / "stopped")["Evolution/score"].steps
    assert steps.tolist()[-1] == 4


def test_the_best_by_validation_is_kept_and_its_worlds_are_others(tmp_path: Path) -> None:
    small = options(tmp_path, validate_every=1, generations=1)
    run(small)
    assert "Validation/all/gain" in read_metrics(tmp_path)
    assert (tmp_path / "l3_evolved.safetensors").exists()
    trained = {(t.seed, t.index) for g in range(3) for t in generation_tasks(small, g)}
    assert len(trained) == 3
    assert not trained & {(t.seed, t.index) for t in validation_tasks(small)}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"configurations": 0}, "--configurations 0 must be at least 1"),
        ({"plays": 1}, "--plays 1 must be at least 2"),
        ({"weight": 0.0}, "--weight 0.0 must be positive"),
        ({"memory": 1.1}, "--memory 1.1 must be at most 1"),
        ({"steps": 4}, "--steps 4 is too short"),
        ({"validate_every": -1}, "--validate-every -1 must not be negative"),
    ],
)
def test_bad_options_are_refused(wrong: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        options(tmp_path, **wrong)
