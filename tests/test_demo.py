"""`echelon demo`: both systems to one page, run twice, and stopped in the middle."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from echelon.demo import command
from echelon.demo.screen import Screen, activity, only_to_file
from echelon.options import DemoOptions
from echelon.runtime.metrics import read_metrics
from tests.e2e.test_collect import n_results, wait_until

NAMES = ["collect", "dataset", "train", "compete", "hmasd", "report"]
ROWS = ["L2, ", "L3, ", "L4, ", "Score with these weights", "Score with bundled weights", "HMASD, "]


def test_the_chain_runs_and_runs_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "demo"
    options = DemoOptions(output_dir=folder, quick=True, parallelism="serial")
    assert command.run(options) == 0
    screen = capsys.readouterr().out.splitlines()
    assert len(screen) <= 24, "one screen"
    assert max(len(line.replace(str(folder), "runs/demo")) for line in screen) <= 80
    assert [found[1] for line in screen if (found := re.match(r"\d/6 (\w+) +\S.* \d+ s$", line))] == NAMES
    assert "12 SCML worlds of champions, 48 logs" in screen[3]
    heading = next(i for i, line in enumerate(screen) if line.startswith("What was learnt"))
    rows = screen[heading + 1 : heading + 7]
    assert [row[: len(name)] for row, name in zip(rows, ROWS, strict=True)] == ROWS
    table = json.loads((folder / "arena" / "standings.json").read_text())
    assert set(table["agents"]) == {"just-trained", "bundled"}
    scores = {line["competitor"]: line["scores"]["all"]["score"]["mean"] for line in table["competitors"]}
    assert set(scores) == {*table["agents"], "PenguinAgent", "RandomStdAgent"}
    assert f"{scores['just-trained']:.2f} [" in rows[3]
    assert f"{scores['bundled']:.2f} [" in rows[4]
    assert sum(line["conduct"]["exceptions"] for line in table["competitors"]) == 0
    told = read_metrics(folder / "skills")["Discriminator/IndividualAccuracy"].values[-1]
    assert f"{told:.0%} of steps" in rows[5]
    assert screen[-3].endswith(f"Open {folder / 'report.html'} in a browser.")
    page = (folder / "report.html").read_text()
    for name in ("arena", "training", "skills", "dataset", "collection"):
        assert f'<h2>{name} <span class="kind">' in page
    assert 'src="data:image/png;base64,' in page
    details = (folder / "log.txt").read_text()
    assert "l3_bc epoch 1/1" in details
    assert "progress: 6400/6400" in details
    weights = (folder / "training" / "l3_bc.safetensors").read_bytes()
    assert command.run(options) == 0
    again = (folder / "log.txt").read_text().removeprefix(details)
    assert "0 worlds to play (12 of 12 exist already)" in again
    assert "0 worlds to play (8 of 8 exist already)" in again
    assert "progress:" not in again, "the HMASD run was complete"
    assert (folder / "training" / "l3_bc.safetensors").read_bytes() == weights


def test_steps_log_to_the_file_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = logging.getLogger("echelon")
    before = list(package.handlers)
    package.addHandler(logging.StreamHandler(sys.stdout))
    try:
        with only_to_file(tmp_path / "logs" / "log.txt"), Screen().step("1/1 try") as result:
            logging.getLogger("echelon.anything").info("a figure")
            result.append("done")
        package.warning("to the console again")
    finally:
        package.handlers = before
    assert re.fullmatch(r"1/1 try done +0 s\nto the console again\n", capsys.readouterr().out)
    assert (tmp_path / "logs" / "log.txt").read_text().endswith(" INFO a figure\n")


def test_the_running_step_takes_one_line_of_the_terminal() -> None:
    epoch = "l3_bc epoch 7/12 * | loss 1.807  nll_op 0.3089  acc_op 0.8818"
    assert activity("3/6 train   ", epoch, 80) == "3/6 train    l3_bc epoch 7/12 *"
    long = activity("1/6 collect ", "x" * 200, 80)
    assert (len(long), long[-2:]) == (77, "x…"), "a spinner and a space come before it"


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
    assert said.splitlines()[-1] == "stopped in step 1 of 6; completed work is kept, the same command resumes"
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
    told = read_metrics(tmp_path / "demo" / "skills")["Discriminator/IndividualAccuracy"].values[-1]
    assert told > 0.5, "chance is .25"
