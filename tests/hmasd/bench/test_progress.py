"""How far a bench is, from the runs' own files."""

from __future__ import annotations

import json
from pathlib import Path

from echelon.hmasd.bench.plan import plan_runs
from echelon.hmasd.bench.progress import TAIL, BenchProgress, line, steps_of
from echelon.hmasd.options import BenchOptions


def test_time_left_is_by_the_rate_since_the_start() -> None:
    """400 of 1000 steps, 100 of them earlier: 300 in 60 s, so the other 600 take 120 s."""
    text = line(400, 1000, 100, 60.0, "1/4 runs")
    assert text == "1/4 runs, 40.0 % of 1,000 steps, 5 steps/s, 2 min left"
    assert line(100, 1000, 100, 60.0, "0/4 runs, 1 failed") == "0/4 runs, 1 failed, 10.0 % of 1,000 steps"


def test_steps_are_read_from_the_end_of_a_growing_file(tmp_path: Path) -> None:
    assert steps_of(tmp_path) == 0
    file = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": step, "name": "a" * 50, "value": 1.0}) for step in range(0, 5000, 10)]
    lines.append(json.dumps({"step": 4800, "name": "Eval/MeanReward", "value": 1.0}))  # recorded late, for earlier
    file.write_text("\n".join(lines) + '\n{"step": 99999')
    assert file.stat().st_size > 2 * TAIL
    assert steps_of(tmp_path) == 4990


def test_no_run_counts_for_more_than_it_has_to_do(tmp_path: Path) -> None:
    runs = plan_runs(BenchOptions(output_dir=tmp_path, seeds=1, set=("total_steps=1000",)))
    runs[0].options.directory.mkdir(parents=True)
    (runs[0].options.directory / "metrics.jsonl").write_text('{"step": 1280, "name": "x", "value": 0}\n')
    progress = BenchProgress(runs)
    assert progress.steps() == 1000
    progress.finished, progress.failed = 1, 1
    assert progress.counts == "1/2 runs, 1 failed"
