"""Evolution: what pairs of worlds show, and a run of small real worlds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from echelon.hrl_xf.commands.evolve import run
from echelon.hrl_xf.evolve.evolution import (
    HABITS,
    NAMES,
    SIZE,
    Evidence,
    Evolution,
    Trial,
    deviated,
    epsilon,
    evidence_of,
    play_trial,
    scales,
    used_by_place,
)
from echelon.hrl_xf.evolve.run import generation, generation_tasks, save
from echelon.hrl_xf.layers.l3_habits import TERMS
from echelon.hrl_xf.online.run import run_options
from echelon.hrl_xf.online.trainer import initial_layers
from echelon.hrl_xf.online.validation import validation_tasks
from echelon.hrl_xf.online.worlds import PlayedSeat, WorldTask
from echelon.hrl_xf.options.evolve import EvolveOptions
from echelon.runtime.execution.executors import make_executor
from echelon.runtime.metrics import read_metrics
from echelon.runtime.rundir import open_run

pytestmark = pytest.mark.numeric


def options(folder: Path, **changes: object) -> EvolveOptions:
    """A run of seconds."""
    small = {
        "output_dir": folder, "init": "cloned", "generations": 2, "pairs": 2, "field": "GreedyStdAgent", "steps": 8,
        "screening": 0.0,
        "validate_every": 0, "validation_worlds": 1, "validation_fields": "GreedyStdAgent", "parallelism": "serial",
        "quiet": True,
    }  # fmt: skip
    return EvolveOptions(**(small | changes))  # type: ignore[arg-type]


def evolution(**changes: float) -> Evolution:
    settings = {"deviation": 2.0, "rate": 0.1, "memory": 0.5, **changes}
    return Evolution(*initial_layers("cloned"), **settings, generations=10)  # type: ignore[arg-type]


def layers_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "latest").glob("*.safetensors")}


def test_pairs_show_the_slope_of_what_a_seat_uses() -> None:
    slope = np.zeros(SIZE)
    mine = NAMES.index("seller, large partner/end")
    others = NAMES.index("buyer/end")
    slope[mine], slope[others] = 0.03, 0.5
    seeds = list(range(400))
    worth = [float(epsilon(seed, 0) @ (slope * used_by_place()[0])) for seed in seeds]
    plus: list[list[PlayedSeat] | None] = [[PlayedSeat(0, 1.0 + w, 0)] for w in worth]
    minus: list[list[PlayedSeat] | None] = [[PlayedSeat(0, 1.0 - w, 0)] for w in worth]
    plus[7] = None  # a world that failed
    found = evidence_of(seeds, plus, minus)
    assert found.worth.tolist() == pytest.approx(worth[:7] + worth[8:])
    assert found.score == pytest.approx(1.0)
    assert not found.drawn[:, others].any(), "a first-level seat buys nothing"
    assert found.drawn[7, mine] == epsilon(8, 0)[mine]
    e = evolution()
    sure = e.learn(found)
    assert sure[mine] == 4.0, "as sure as anything counts"
    assert sure[others] == 0.0
    noise = np.delete(sure, [mine, others])
    assert np.abs(noise).max() < 4.0
    with pytest.raises(RuntimeError, match="no pair"):
        evidence_of([1], [None], [[PlayedSeat(0, 1.0, 0)]])


def test_what_each_place_plays_with() -> None:
    used = used_by_place()
    assert used.shape == (3, SIZE)
    kinds = used[:, :HABITS].reshape(3, 3, len(TERMS)).all(2)
    assert kinds.tolist() == [[False, True, True], [True, True, True], [True, False, False]]
    sides = {NAMES[j] for j in range(HABITS, SIZE) if not used[0, j]}
    assert sides == {f"goal/buy_{b}" for b in range(4)}


def test_slopes_are_told_apart_and_steps_grow_with_how_sure_they_are() -> None:
    """Two numbers that deviate together, one of which matters: the mean of ε · difference could not tell them apart."""
    draw = np.random.default_rng(0)
    drawn = np.zeros((2000, SIZE))
    drawn[:, 0] = draw.standard_normal(2000)
    drawn[:, 1] = 0.9 * drawn[:, 0] + 0.44 * draw.standard_normal(2000)
    worth = 0.005 * drawn[:, 0] + 0.03 * draw.standard_normal(2000)
    e = evolution()
    sure = e.learn(Evidence(drawn, worth, 1.0))
    spread = 0.03 / np.sqrt(2000) / 0.44  # of a regression on two numbers that share .9
    assert sure[0] == pytest.approx(0.005 / spread, abs=1.5)
    assert abs(sure[1]) < 2.0
    assert e.moved[0] == pytest.approx(0.1 * 2.0 * sure[0] * min(1.0, (sure[0] / 3.0) ** 2))
    assert e.moved[2:].any() == sure[2:].any() == np.False_, "what nobody tried stays"
    before, gram = e.moved.copy(), e.gram.copy()
    e.learn(Evidence(drawn, -worth, 1.0))
    assert e.moved[0] < before[0], "newer evidence counts more"
    assert e.gram == pytest.approx(1.5 * gram)


def test_a_seat_deviates_and_the_other_half_of_the_pair_the_other_way() -> None:
    e = evolution()
    layers = e.weights().layers()
    up, down = Trial(3, 1, 2.0).of_seat(1), Trial(3, -1, 2.0).of_seat(1)
    assert np.array_equal(up, -down)
    assert np.array_equal(up, scales(2.0) * epsilon(3, 1))
    assert not np.array_equal(up, Trial(3, 1, 2.0).of_seat(0))
    changed = deviated(layers, up)
    assert changed.l3.habits.ravel() == pytest.approx(up[:HABITS], rel=1e-6)  # type: ignore[attr-defined]
    moved = changed.l2.mean.bias - layers.l2.mean.bias  # type: ignore[attr-defined]
    assert moved[::2] == pytest.approx(up[HABITS:], abs=1e-5)
    assert not moved[1::2].any(), "prices stay"
    assert not layers.l3.habits.any(), "the layers given stay"  # type: ignore[attr-defined]
    e.moved = up
    l2, l3, _ = e.layers()
    assert l3.habits is not None
    assert l3.habits.detach().numpy().ravel() == pytest.approx(up[:HABITS], rel=1e-6)
    assert l2.mean.bias.detach().numpy() == pytest.approx(changed.l2.mean.bias)  # type: ignore[attr-defined]


def test_a_world_depends_on_its_trial_alone() -> None:
    weights = evolution().weights()
    task = WorldTask("GreedyStdAgent,SyncRandomStdAgent", 5, 0, "each-level", 12, None)
    first, again = (play_trial(task, weights, Trial(1, 1, 4.0)) for _ in range(2))
    assert first == again
    assert [s.score for s in first] != [s.score for s in play_trial(task, weights, Trial(1, -1, 4.0))]
    assert all(seat.fallbacks == 0 for seat in first)


def test_a_run_stopped_after_a_generation_and_resumed_equals_one_that_was_not(tmp_path: Path) -> None:
    run(options(tmp_path / "whole"))
    small = options(tmp_path / "stopped", parallelism="loky:2")
    with make_executor("serial") as executor:
        begun = Evolution(
            *initial_layers("cloned"), deviation=small.deviation, rate=small.rate, memory=small.memory,
            generations=small.generations,
        )  # fmt: skip
        folder = open_run(small.output_dir, run_options(small))
        generation(small, begun, executor)
        save(small, begun, folder)
    run(small)
    whole = layers_of(tmp_path / "whole")
    assert sorted(whole) == ["l2_evolved.safetensors", "l3_evolved.safetensors", "l4_distill.safetensors"]
    assert layers_of(tmp_path / "stopped") == whole
    steps = read_metrics(tmp_path / "stopped")["Evolution/score"].steps
    assert steps.tolist()[-1] == 8


def test_the_best_by_validation_is_kept_and_its_worlds_are_others(tmp_path: Path) -> None:
    small = options(tmp_path, validate_every=1, generations=1)
    run(small)
    assert "Validation/all/gain" in read_metrics(tmp_path)
    assert (tmp_path / "l3_evolved.safetensors").exists()
    trained = {(t.seed, t.index) for g in range(3) for t in generation_tasks(small, g)[0]}
    assert len(trained) == 6
    assert not trained & {(t.seed, t.index) for t in validation_tasks(small)}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"pairs": 0}, "--pairs 0 must be at least 1"),
        ({"rate": 0.0}, "--rate 0.0 must be positive"),
        ({"memory": 1.0}, "--memory 1.0 must be 0 or more and less than 1"),
        ({"steps": 4}, "--steps 4 is too short"),
        ({"validate_every": -1}, "--validate-every -1 must not be negative"),
    ],
)
def test_bad_options_are_refused(wrong: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        options(tmp_path, **wrong)
