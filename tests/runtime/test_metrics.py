"""Metrics: what was recorded is what is read, over kills and resumes."""

from __future__ import annotations

import csv
import logging
import math
from pathlib import Path

import numpy as np
import pytest

from echelon.runtime.metrics import MetricsWriter, export_csv, read_metrics


def test_what_is_recorded_is_read(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path, tensorboard=False) as metrics:
        metrics.record("loss", 0.1, step=0)
        metrics.record_all({"loss": np.float32(0.5), "kl": 1e-300}, step=1)  # type: ignore[dict-item]
        for value in (math.nan, math.inf, -math.inf):
            metrics.record("odd", value, step=2)
    found = read_metrics(tmp_path)
    assert found["loss"].steps.tolist() == [0, 1]
    assert found["loss"].values.tolist() == [0.1, 0.5]
    assert found["kl"].values.tolist() == [1e-300]
    assert np.array_equal(found["odd"].values, [math.nan, math.inf, -math.inf], equal_nan=True)
    assert "NaN" in (tmp_path / "metrics.jsonl").read_text().replace('"NaN"', "NaN")
    with pytest.raises(ValueError, match="at step -1"), MetricsWriter(tmp_path, tensorboard=False) as metrics:
        metrics.record("loss", 1, step=-1)


def test_a_resumed_run_forgets_what_lies_beyond_its_checkpoint(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path, tensorboard=False) as metrics:
        for i in range(5):
            metrics.record("loss", i, step=i)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 5, "name": "lo')  # killed here
    assert read_metrics(tmp_path)["loss"].steps.tolist() == [0, 1, 2, 3, 4]
    with MetricsWriter(tmp_path, resume_step=2, tensorboard=False) as metrics:
        metrics.record("loss", 30, step=3)
    assert read_metrics(tmp_path)["loss"].values.tolist() == [0, 1, 2, 30]
    with MetricsWriter(tmp_path, tensorboard=False) as metrics:  # without a step everything stays
        metrics.record("loss", 40, step=4)
    assert read_metrics(tmp_path)["loss"].values.tolist() == [0, 1, 2, 30, 40]


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 0, "name": "a", "value": 1}\nrubbish\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2 is not a metric"):
        read_metrics(tmp_path)


def test_one_console_line_a_step(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "echelon"), MetricsWriter(tmp_path, tensorboard=False) as metrics:
        metrics.record("loss", 0.123456, step=1)
        metrics.record("kl", 2, step=1)
        metrics.record("loss", 0.1, step=2)
    assert caplog.messages == ["step 1  loss 0.1235  kl 2", "step 2  loss 0.1"]


def test_tensorboard_has_the_same(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with MetricsWriter(tmp_path) as metrics:
        for i in range(4):
            metrics.record("loss", i, step=i)
    with MetricsWriter(tmp_path, resume_step=1) as metrics:
        metrics.record("loss", 20, step=2)
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(0, 0), (1, 1), (2, 20)]


def test_csv(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path, tensorboard=False) as metrics:
        metrics.record("loss, total", 0.5, step=3)
        metrics.record("kl", 1, step=1)
        metrics.record("loss, total", 0.25, step=1)
    export_csv(tmp_path, tmp_path / "metrics.csv")
    with open(tmp_path / "metrics.csv", newline="") as file:
        assert list(csv.reader(file)) == [["step", "loss, total", "kl"], ["1", "0.25", "1.0"], ["3", "0.5", ""]]
