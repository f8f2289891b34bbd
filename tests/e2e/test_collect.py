"""`echelon hrl collect` as a user runs it: by subprocess, killed, resumed, out of disk, two at once."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from echelon.hrl_xf.collect.folder import exclusive
from echelon.hrl_xf.state.schema import decode_log

SMALL = ["--configs", "1", "--runs", "1", "--max-top-2025", "0", "--max-top-2024", "1", "--steps", "6", "--seed", "5"]
"""Penguin and the two random agents: three worlds of six days."""
MORE = [*SMALL, "--runs", "4"]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "echelon.cli", "hrl", *arguments]


def echelon(*arguments: str, cwd: Path, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd=cwd, capture_output=True, text=True, timeout=300, **kwargs)


def logs(folder: Path) -> dict[str, str]:
    files = sorted((folder / "tracker_logs").glob("agent_*"))
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "took too long"
        assert process.poll() is None, "ended too early"
        time.sleep(0.02)


def n_results(folder: Path) -> int:
    return len(list((folder / "worlds").glob("[0-9]*.json")))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve worlds, serially and undisturbed."""
    base = tmp_path_factory.mktemp("reference")
    done = echelon("collect", *MORE, "--foreground", "--output-dir", "c", "--parallelism", "serial", cwd=base)
    assert done.returncode == 0, done.stderr
    assert "12 worlds to play" in done.stdout
    assert "about" in done.stdout
    return base / "c"


def test_everything_that_is_promised_is_there(reference: Path) -> None:
    for name in ("config.json", "params.json", "worlds.json", "scores.csv", "total_scores.csv", "stats.csv"):
        assert (reference / name).stat().st_size > 0, name
    assert (reference / "contracts.csv").stat().st_size > 0
    assert n_results(reference) == 12
    decoded = [decode_log(f.read_bytes()) for f in (reference / "tracker_logs").iterdir()]
    assert len(decoded) == 36, "three competitors in each of twelve worlds"
    assert {log.agent_type for log in decoded} == {"PenguinAgent", "RandomStdAgent", "SyncRandomStdAgent"}
    assert all(log.stats.tracker_failures == 0 for log in decoded)
    assert all(log.stats.days == 6 for log in decoded)
    assert sum(log.stats.decisions for log in decoded) > 500
    assert "PenguinAgent" in (reference / "total_scores.csv").read_text()
    assert not list(reference.glob("**/*.pickle"))


def test_the_run_is_registered_and_listed(reference: Path) -> None:
    index = json.loads((reference.parent / "tournament_history" / "index.json").read_text())
    (run,) = index["runs"]
    assert run["worlds"] == 12
    assert run["logs"] == 36
    listed = echelon("runs", cwd=reference.parent)
    assert "12 worlds" in listed.stdout
    assert "PenguinAgent" in listed.stdout


@pytest.mark.parametrize("executor", ["loky:2", pytest.param("dask", marks=pytest.mark.slow)])
def test_the_same_seed_gives_the_same_logs_in_parallel(reference: Path, tmp_path: Path, executor: str) -> None:
    done = echelon("collect", *MORE, "--foreground", "--output-dir", "c", "--parallelism", executor, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert logs(tmp_path / "c") == logs(reference)


def test_killed_and_resumed_equals_undisturbed(reference: Path, tmp_path: Path) -> None:
    arguments = ["collect", *MORE, "--foreground", "--output-dir", "c", "--parallelism", "serial", "--resumable"]
    folder = tmp_path / "c"
    for at_least in (2, 5):
        process = subprocess.Popen(command(*arguments), cwd=tmp_path, stdout=subprocess.DEVNULL)
        wait_until(lambda n=at_least: n_results(folder) >= n, process)  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.wait()
        for file in (folder / "tracker_logs").glob("agent_*"):
            decode_log(file.read_bytes())  # whole, whatever happened
    finished = {f: f.stat().st_mtime_ns for f in (folder / "worlds").glob("[0-9]*.json")}
    assert 5 <= len(finished) < 12
    done = echelon(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{12 - len(finished)} worlds to play ({len(finished)} of 12 exist already)" in done.stdout
    assert all(f.stat().st_mtime_ns == then for f, then in finished.items())
    assert logs(folder) == logs(reference)


def test_a_killed_worker_costs_nothing(reference: Path, tmp_path: Path) -> None:
    arguments = ["collect", *MORE, "--foreground", "--output-dir", "c", "--parallelism", "loky:2"]
    process = subprocess.Popen(command(*arguments), cwd=tmp_path, stdout=subprocess.DEVNULL)
    wait_until(lambda: n_results(tmp_path / "c") >= 2, process)
    workers = [c for c in psutil.Process(process.pid).children() if "popen_loky" in " ".join(c.cmdline())]
    assert workers
    workers[0].send_signal(signal.SIGKILL)
    assert process.wait(timeout=300) == 0
    assert logs(tmp_path / "c") == logs(reference)


@pytest.mark.slow
def test_worlds_that_take_too_long_are_recorded_and_played_later(reference: Path, tmp_path: Path) -> None:
    arguments = ["collect", *SMALL, "--foreground", "--output-dir", "c", "--parallelism", "serial"]
    late = echelon(*arguments, "--world-timeout", "0.05", cwd=tmp_path)
    assert late.returncode == 3
    failed = sorted((tmp_path / "c" / "failed").iterdir())
    assert len(failed) == 3
    record = json.loads(failed[0].read_text())
    assert record["status"] == "timeout"
    assert record["seed"] > 0
    assert record["replay"] == "echelon hrl replay c --world 0"
    assert logs(tmp_path / "c") == {}
    again = echelon(*arguments, "--resumable", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert list((tmp_path / "c" / "failed").iterdir()) == []
    assert logs(tmp_path / "c").items() <= logs(reference).items()
    replayed = echelon("replay", "c", "--world", "0", cwd=tmp_path)
    assert replayed.returncode == 0, replayed.stderr
    assert "PenguinAgent" in replayed.stdout


def test_a_resume_with_other_options_shows_the_difference(reference: Path) -> None:
    other = echelon(
        "collect", *MORE, "--steps", "7", "--resumable", "--output-dir", "c", "--foreground", cwd=reference.parent
    )
    assert other.returncode == 2
    assert "steps" in other.stderr
    assert "6" in other.stderr
    assert "7" in other.stderr
    assert "Traceback" not in other.stderr


def test_two_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    with exclusive(tmp_path / "c", "collection"):
        second = echelon("collect", *MORE, "--output-dir", "c", "--foreground", cwd=tmp_path)
    assert second.returncode == 2
    assert f"another collection (pid {os.getpid()}) is writing to c" in second.stderr


def test_background_is_the_default_and_says_how_to_follow(tmp_path: Path) -> None:
    started = echelon("collect", *SMALL, "--output-dir", "c", "--parallelism", "serial", cwd=tmp_path)
    assert started.returncode == 0, started.stderr
    assert "pid" in started.stdout
    assert f"tail -f {Path('c') / 'log.txt'}" in started.stdout
    pid = int(started.stdout.split("pid ")[1].split()[0])
    end = time.monotonic() + 120
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert "3 of 3 worlds" in (tmp_path / "c" / "log.txt").read_text()
    assert n_results(tmp_path / "c") == 3


@pytest.mark.slow
def test_four_hundred_tiny_worlds_finish(tmp_path: Path) -> None:
    arguments = [*SMALL, "--steps", "5", "--configs", "10", "--runs", "14", "--track-only-penguin", "--no-csv"]
    done = subprocess.run(
        command("collect", *arguments, "--foreground", "--output-dir", "c", "--parallelism", "loky:2"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=3000,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert n_results(tmp_path / "c") == 420
    assert len(logs(tmp_path / "c")) == 420
