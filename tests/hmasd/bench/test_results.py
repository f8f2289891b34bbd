"""What the runs say together, from files written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from echelon.hmasd.bench.picture import draw
from echelon.hmasd.bench.plan import PlannedRun, plan_runs
from echelon.hmasd.bench.results import BenchResults, curve_of, rows, score_of, summarise, table
from echelon.hmasd.options import BenchOptions
from echelon.runtime.metrics import MetricsWriter, Series

TOTAL = 1000


def planned(folder: Path, envs: str = "alice_and_bob,simple_spread", seeds: int = 4) -> list[PlannedRun]:
    changes = (f"total_steps={TOTAL}", "envs=4", "samples_per_update=100")
    return plan_runs(BenchOptions(envs=envs, seeds=seeds, set=changes, output_dir=folder))


def written(run: PlannedRun, curves: Mapping[str, Mapping[int, float]], done: int = TOTAL) -> None:
    """A run's files, as far as a bench reads them."""
    with MetricsWriter(run.options.directory, tensorboard=False) as metrics:
        for name, points in curves.items():
            for step, value in points.items():
                metrics.record(name, value, step)
    state = run.options.directory / "checkpoints" / "hmasd_sync_final" / "state.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"state": {"env_steps": done}}))


def returns(level: float) -> dict[str, dict[int, float]]:
    return {
        "Eval/RandomReward": {0: -10.0},
        "Eval/MeanReward": {500: level - 4, 950: level - 1, 1000: level + 1},
        "Sync/CollectionTime": {500: 30.0, 1000: 30.0},
        "Sync/UpdateTime": {500: 60.0, 1000: 60.0},
    }


def successes(share: float) -> dict[str, dict[int, float]]:
    return {**returns(share), "Eval/SuccessRate": {500: 0.0, 1000: share}}


@pytest.fixture
def results(tmp_path: Path) -> BenchResults:
    """Scores 0, 1, 3, 100 and the same + 4 in spread; success .2, .4, .6, 1 and 0 in alice."""
    for run in planned(tmp_path):
        i, better = run.seed - 1, run.algorithm == "hmasd"
        if run.env == "simple_spread":
            written(run, returns([0.0, 1.0, 3.0, 100.0][i] + 4 * better))
        else:
            written(run, successes([0.2, 0.4, 0.6, 1.0][i] * better))
    return summarise(planned(tmp_path), None, 2000)


def test_the_score_is_the_mean_of_the_last_tenth() -> None:
    curve = Series(np.array([500, 900, 950, 1000]), np.array([1.0, 9.0, 2.0, 4.0]))
    assert score_of(curve, 1000) == 3.0
    assert score_of(curve, 2000) == 4.0  # no evaluation is that late: the last one


def test_lines_by_hand(results: BenchResults) -> None:
    lines = {(line.env, line.label): line for line in results.lines}
    spread = lines["simple_spread", "mappo"]
    assert (spread.metric, spread.scores, spread.seeds) == ("Eval/MeanReward", [0.0, 1.0, 3.0, 100.0], [1, 2, 3, 4])
    assert spread.score is not None
    assert (spread.score.value, spread.mean, spread.random) == (2.0, 26.0, -10.0)  # middle two of four; all four
    assert spread.score.low < 2.0 < spread.score.high
    assert (spread.minutes, spread.steps) == (3.0, TOTAL)
    alice = lines["alice_and_bob", "hmasd"]
    assert alice.metric == "Eval/SuccessRate"
    assert alice.score is not None
    assert alice.score.value == pytest.approx(0.5)
    assert alice.curve.steps == [500, 1000]
    assert alice.curve.value == pytest.approx([0.0, 0.5])


def test_all_environments_on_one_scale(results: BenchResults) -> None:
    """0 is no success or -10, 1 is success 1 or 104: of 8 scaled scores the middle four are averaged."""
    found = {line.label: line.score.value for line in results.overall}
    spread = [(x + 10) / 114 for x in (4, 5, 7, 104)]
    middle = sorted([*spread, 0.2, 0.4, 0.6, 1.0])[2:6]
    assert found["hmasd"] == pytest.approx(np.mean(middle))
    assert list(found) == ["hmasd", "mappo"]  # best first
    assert all(0 <= line.score.low <= line.score.high <= 1 for line in results.overall)


def test_one_environment_needs_no_common_scale(tmp_path: Path) -> None:
    runs = planned(tmp_path, "simple_spread", 2)
    for run in runs:
        written(run, returns(1.0))
    assert summarise(runs, None, 100).overall == []


def test_unfinished_runs_are_counted_and_left_out(tmp_path: Path) -> None:
    runs = planned(tmp_path, "simple_spread", 3)
    written(runs[0], returns(5.0))
    written(runs[2], returns(50.0), done=900)  # hmasd of seed 2 has not done all its steps; seed 3 has not begun
    line = summarise(runs, None, 100).lines[0]
    assert (line.seeds, line.unfinished, line.scores) == ([1], [2, 3], [5.0])
    nothing = summarise(runs, None, 100).lines[1]
    assert (nothing.score, nothing.mean, nothing.curve.steps) == (None, None, [])
    text = table(summarise(runs, None, 100))
    assert "| simple_spread | hmasd | 5.000 [5.000, 5.000] | 5.000 | 5.000 | 5.000 | -10.000 | 1 of 3 |" in text[2]
    assert "| simple_spread | mappo | – |" in text[3]


def test_another_metric_can_be_compared(tmp_path: Path) -> None:
    runs = planned(tmp_path, "alice_and_bob", 1)
    for run in runs:
        written(run, successes(0.5))
    assert summarise(runs, "Eval/MeanReward", 100).lines[0].scores == [0.5]


def test_curves_use_the_steps_that_all_seeds_have() -> None:
    seeds = [Series(np.array([1, 2, 3]), np.array([0.0, 1.0, 2.0])), Series(np.array([1, 3]), np.array([4.0, 6.0]))]
    curve = curve_of(seeds, 500, ("x",))
    assert (curve.steps, curve.value) == ([1, 3], [2.0, 4.0])
    assert (curve.low, curve.high) == ([0.0, 2.0], [4.0, 6.0])


def test_files_for_others(results: BenchResults) -> None:
    listed = rows(results)
    assert len(listed) == 16
    assert {
        "env": "simple_spread",
        "algorithm": "mappo",
        "metric": "Eval/MeanReward",
        "seed": 4,
        "score": 100.0,
    } in listed
    axes = draw(results).axes
    assert [a.get_title() for a in axes] == ["alice_and_bob", "simple_spread"]
    assert [line.get_label() for line in axes[0].lines] == ["hmasd (4)", "mappo (4)"]
