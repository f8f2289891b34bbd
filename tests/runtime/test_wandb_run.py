"""What goes to Weights & Biases, with the package's two functions in place of the package."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from echelon.runtime.metrics import MetricsWriter
from echelon.runtime.wandb_run import STEP, WandbRun, require_wandb


class Notes:
    """A run that keeps what it is told."""

    def __init__(self) -> None:
        self.logged: list[dict[str, float]] = []
        self.axes: list[Any] = []
        self.finished = 0

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes.append((name, step_metric))

    def log(self, values: dict[str, float]) -> None:
        self.logged.append(values)

    def finish(self) -> None:
        self.finished += 1


def test_every_value_arrives_by_its_own_step_also_a_late_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, asked = Notes(), list[dict[str, Any]]()

    def init(**options: Any) -> Notes:
        asked.append(options)
        return notes

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    folder = tmp_path / "night" / "runs" / "alice-s1"
    with MetricsWriter(folder, tensorboard=False, also=WandbRun("offline", folder, {"lr": 1.0})) as metrics:
        metrics.record_all({"a": 1.0, "b": 2.0}, 80)
        metrics.record_all({"a": 3.0, "c": math.nan}, 160)
        metrics.record("Eval/MeanReward", 4.0, 100)
    assert notes.logged == [{STEP: 80, "a": 1.0, "b": 2.0}, {STEP: 160, "a": 3.0}, {STEP: 100, "Eval/MeanReward": 4.0}]
    assert notes.axes == [(STEP, None), ("*", STEP)]
    assert notes.finished == 1
    WandbRun("online", folder, {})
    first, again = asked
    assert (first["group"], first["name"], first["mode"], first["dir"]) == ("night", "alice-s1", "offline", str(folder))
    assert first["id"] == again["id"]  # resumed, it is the same run there


def test_off_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    require_wandb("off")
    with pytest.raises(ValueError, match=r"--wandb online needs the package wandb.*pip install"):
        require_wandb("online")
