"""`echelon hrl online` and `hrl evolve` as users run them: killed at any moment and resumed, and over dask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SMALL = {
    "online": """
        --rounds 3 --field GreedyStdAgent --configurations 2 --group 2 --steps 8 --critic-rounds 0 --l4-rounds 0
        --validate-every 0 --past 0.5 --past-every 1 --minibatch 64 --quiet
    """,
    "evolve": """
        --generations 3 --field GreedyStdAgent --configurations 2 --plays 2 --steps 8
        --validate-every 0 --quiet
    """,
}


def command(name: str, folder: Path, parallelism: str) -> list[str]:
    where = ["--output-dir", str(folder), "--parallelism", parallelism]
    return [sys.executable, "-m", "echelon", "hrl", name, *SMALL[name].split(), *where]


def layers_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "latest").glob("*.safetensors")}


Whole = tuple[str, dict[str, bytes]]
"""A command, and the layers of a run of it that nobody disturbed."""


@pytest.fixture(scope="module", params=sorted(SMALL))
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp(request.param) / "whole"
    subprocess.run(command(request.param, folder, "serial"), check=True)
    found = layers_of(folder)
    assert len(found) == 3
    return request.param, found


def test_killed_in_the_second_round_and_resumed_it_gives_the_same_layers(tmp_path: Path, whole: Whole) -> None:
    (name, layers), folder = whole, tmp_path / "killed"
    process = subprocess.Popen(command(name, folder, "loky:2"), start_new_session=True)
    until = time.monotonic() + 600
    while not (folder / "checkpoints" / "pointers.json").exists():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "latest").exists()
    subprocess.run(command(name, folder, "loky:2"), check=True)
    assert layers_of(folder) == layers


def test_the_workers_of_a_cluster_give_the_same_layers(tmp_path: Path, whole: Whole) -> None:
    pytest.importorskip("distributed")
    name, layers = whole
    subprocess.run(command(name, tmp_path / "dask", "dask"), check=True)  # a local cluster, a worker for each core
    assert layers_of(tmp_path / "dask") == layers
