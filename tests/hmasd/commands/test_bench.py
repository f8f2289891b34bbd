"""The bench as a user runs it: killed and resumed, with a run that fails, over another executor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from echelon.cli import main
from echelon.runtime.checkpoint import latest
from tests.hmasd.commands.test_train import different, final

SHARED = (
    "envs=4 samples_per_update=80 total_steps=400 k=5 hidden=16 heads=1 encoder_layers=1 decoder_layers=1 epochs=2 "
    "discriminator_epochs=2"
)
SETTINGS = [word for option in SHARED.split() for word in ("--set", option)]


def command(folder: Path, *more: str) -> list[str]:
    common = ["--output-dir", str(folder), "--seeds", "2", "--eval-episodes", "2", "--eval-every", "100"]
    return ["hmasd", "bench", *common, *SETTINGS, *more]


def results(folder: Path) -> list[dict[str, Any]]:
    """The lines of a bench without its times."""
    lines: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())["lines"]
    return [{name: value for name, value in line.items() if name != "minutes"} for line in lines]


def test_a_bench_killed_outright_and_started_again_ends_the_same(tmp_path: Path) -> None:
    """The first runs in this process, the other in a worker that dies with its parent; then over two executors."""
    assert main(command(tmp_path / "whole", "--quiet")) == 0
    killed = tmp_path / "killed"
    over = [sys.executable, "-m", "echelon", *command(killed, "--executor", "loky:1")]
    victim = subprocess.Popen(over, stdout=subprocess.DEVNULL)
    second = killed / "runs" / "alice_and_bob-mappo-s1"
    deadline = time.monotonic() + 100
    while latest(second / "checkpoints") is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    names = sorted(path.name for path in (tmp_path / "whole" / "runs").iterdir())
    assert not all((killed / "runs" / name / "checkpoints" / "hmasd_sync_final").exists() for name in names)
    done = subprocess.run(over, check=True, capture_output=True, text=True)
    assert "/4 runs" in done.stdout
    assert "| alice_and_bob | mappo |" in done.stdout
    for name in names:
        assert different(final(tmp_path / "whole" / "runs" / name), final(killed / "runs" / name)) == []
    assert results(tmp_path / "whole") == results(killed)


def test_a_run_that_fails_is_recorded_and_the_others_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = command(tmp_path, "--envs", "tests.no_such_module:factory,alice_and_bob", "--algorithms", "mappo")
    assert main(asked) == 3
    note = json.loads((tmp_path / "failed" / "tests.no_such_module-factory-mappo-s2.json").read_text())
    assert note["status"] == "error"
    assert "no_such_module" in note["error"]
    assert note["command"].startswith("echelon hmasd train --config ")
    said = capsys.readouterr().out
    assert "2/4 runs, 2 failed" in said
    assert "progress:" not in said  # what runs say is in their own log.txt
    by_env = {line["env"]: line for line in results(tmp_path)}
    assert by_env["alice_and_bob"]["seeds"] == [1, 2]
    assert by_env["tests.no_such_module:factory"]["unfinished"] == [1, 2]


def test_it_names_every_option_and_only_new_runs_are_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = command(tmp_path, "--algorithms", "hmasd", "--sweep", "lambda_agent=0.02,0.2")
    assert main(asked) == 0
    content = json.loads((tmp_path / "bench.json").read_text())
    assert content["options"]["sweep"] == ["lambda_agent=0.02,0.2"]
    swept = {run["name"]: run["options"]["config"]["lambda_agent"] for run in content["runs"]}
    assert sorted(swept.values()) == [0.02, 0.02, 0.2, 0.2]
    assert all(run["options"]["config"]["gamma"] == 0.99 for run in content["runs"])
    weights = tmp_path / "runs" / "alice_and_bob-hmasd-lambda_agent=0.02-s1" / "checkpoints" / "hmasd_sync_final"
    before = weights.stat().st_mtime_ns
    capsys.readouterr()
    assert main([*asked, "--seeds", "3"]) == 0
    assert "4/6 runs" in capsys.readouterr().out
    assert weights.stat().st_mtime_ns == before
    assert [line["seeds"] for line in results(tmp_path)] == [[1, 2, 3], [1, 2, 3]]
    # other options under the same names would be other runs
    assert main([*asked, "--set", "lr=0.1"]) == 2
    error = capsys.readouterr().err
    assert "was made with other options" in error
    assert "config.lr: 0.0005 → 0.1" in error


def test_earlier_runs_stay_in_the_comparison(tmp_path: Path) -> None:
    assert main(command(tmp_path, "--algorithms", "hmasd", "--quiet")) == 0
    assert main(command(tmp_path, "--algorithms", "mappo", "--quiet")) == 0
    assert sorted(line["label"] for line in results(tmp_path)) == ["hmasd", "mappo"]
    assert len(json.loads((tmp_path / "bench.json").read_text())["runs"]) == 4


def test_a_dry_run_lists_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(tmp_path / "x", "--dry-run")) == 0
    assert "alice_and_bob-mappo-s2 (400 steps)" in capsys.readouterr().out
    assert not (tmp_path / "x").exists()


def test_without_the_package_weights_and_biases_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(command(tmp_path / "x", "--wandb", "offline")) == 2
    assert "pip install 'echelon[wandb]'" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
