"""`echelon demo`: the chain from real worlds to one page, again and again, and stopped in the middle."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from echelon import demo
from echelon.options import DemoOptions
from tests.e2e.test_collect import n_results, wait_until


def test_the_chain_runs_and_runs_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = DemoOptions(output_dir=tmp_path / "demo", quick=True, parallelism="serial")
    with caplog.at_level(logging.INFO, logger="echelon"):
        assert demo.run(options) == 0
    for number in range(1, 6):
        assert f"Step {number} of 5: " in caplog.text
    assert "12 of 12 worlds" in caplog.text
    table = json.loads((tmp_path / "demo" / "arena" / "standings.json").read_text())
    assert set(table["agents"]) == {"just-trained", "bundled"}
    assert {line["competitor"] for line in table["competitors"]} == {*table["agents"], "PenguinAgent", "RandomStdAgent"}
    assert sum(line["conduct"]["exceptions"] for line in table["competitors"]) == 0
    page = tmp_path / "demo" / "report.html"
    assert caplog.messages[-2].endswith(f"Open {page} in a browser.")
    for name in ("arena", "training", "dataset", "collection"):
        assert f'<h2>{name} <span class="kind">' in page.read_text()
    weights = (tmp_path / "demo" / "training" / "l3_bc.safetensors").read_bytes()
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="echelon"):
        assert demo.run(options) == 0
    assert "0 worlds to play (12 of 12 are there already)" in caplog.text
    assert "0 worlds to play (8 of 8 are there already)" in caplog.text
    assert (tmp_path / "demo" / "training" / "l3_bc.safetensors").read_bytes() == weights


def test_ctrl_c_is_one_clear_line(tmp_path: Path) -> None:
    how = ["--quick", "--parallelism", "loky:1", "--output-dir", "demo"]
    command = [sys.executable, "-m", "echelon.cli", "demo", *how]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell has it ignored
    )  # fmt: skip
    wait_until(lambda: n_results(tmp_path / "demo" / "collection") >= 1, process)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to everybody
    said, errors = (text.decode() for text in process.communicate(timeout=120))
    assert process.returncode == 130
    assert said.splitlines()[-1] == "stopped in step 1 of 5; what is done is kept, the same command goes on"
    assert "Traceback" not in said + errors


def test_a_world_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="--steps 4 is too short"):
        DemoOptions(steps=4)


@pytest.mark.slow
def test_the_full_demo_trains_something_better_than_chance(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "echelon.cli", "demo", "--output-dir", "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=7200)
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "demo" / "arena" / "standings.json").read_text())
    (against_random,) = (
        p for p in table["paired"]
        if (p["agent"], p["rival"], p["scope"]) == ("just-trained", "RandomStdAgent", "all")
    )  # fmt: skip
    assert against_random["difference"]["low"] > 0
