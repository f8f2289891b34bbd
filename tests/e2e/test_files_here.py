"""A file in the working directory is an agent or an environment, without PYTHONPATH, in worker processes too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

AGENT = "from scml.std.agents import SyncRandomStdAgent\n\n\nclass MyAgent(SyncRandomStdAgent):\n    pass\n"
COMPETE = [
    "hrl", "compete", "--agent", "myagent:MyAgent", "--against", "RandomStdAgent", "--worlds", "1", "--steps", "5",
    "--field", "SyncRandomStdAgent", "--output-dir", "c", "--resamples", "50",
]  # fmt: skip
CONSOLE = "import sys; from echelon.cli import main; sys.exit(main())"


def echelon(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As the installed script starts: the working directory is not on the path, and the hash seed is set."""
    command = [sys.executable, "-P", "-c", CONSOLE, *arguments]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("parallelism", [pytest.param("serial", marks=pytest.mark.slow), "loky:1"])
def test_a_file_here_is_an_agent(parallelism: str, tmp_path: Path) -> None:
    (tmp_path / "myagent.py").write_text(AGENT)
    done = echelon(*COMPETE, "--parallelism", parallelism, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "myagent:MyAgent minus rival" in done.stdout


def test_it_can_be_recorded_too(tmp_path: Path) -> None:
    (tmp_path / "myagent.py").write_text(AGENT)
    small = ["--configs", "1", "--runs", "1", "--max-top-2025", "0", "--max-top-2024", "0", "--steps", "5"]
    one = ["--n-competitors-per-world", "3", "--foreground", "--no-auto-collect"]
    done = echelon("hrl", "collect", *small, *one, "--add", "myagent:MyAgent", "--output-dir", "c", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert any("My" in log.name for log in (tmp_path / "c" / "tracker_logs").iterdir())


def test_a_file_that_is_not_here_is_named(tmp_path: Path) -> None:
    done = echelon(*COMPETE, cwd=tmp_path)
    assert done.returncode == 2
    assert f"there is no myagent.py in {tmp_path} and no installed module myagent" in done.stderr


def test_a_file_here_hides_no_installed_package(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise RuntimeError('not the real one')\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    command = [sys.executable, "-P", "-m", "echelon", "hrl", "compete", "--agent", "Nobody"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "unknown agent 'Nobody'" in done.stderr, "also after the process started over to fix its hash seed"


def test_python_m_echelon_is_echelon(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "echelon", "hrl", "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout.startswith("usage: echelon hrl COMMAND")


def test_a_file_here_is_an_environment(tmp_path: Path) -> None:
    """In the process that trains and in those that hold the worlds."""
    odd_envs = Path(__file__).parent.parent / "envs" / "odd_envs.py"
    (tmp_path / "myenv.py").write_text(odd_envs.read_text())
    settings = (
        "--envs 2 --env-workers 2 --samples-per-update 24 --k 3 --hidden 8 --heads 2 --total-steps 24 --eval-every 0"
    )
    done = echelon("hmasd", "train", "--env", "myenv:counter", "--output-dir", "r", *settings.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r" / "checkpoints").is_dir()
