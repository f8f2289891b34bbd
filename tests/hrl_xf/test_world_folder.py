"""What counts as played: a world whose file is there, and only if nothing cut it short."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from echelon.hrl_xf.world_folder import FAILED, Unit, play_units
from echelon.runtime.deadline import raise_if_late
from echelon.runtime.files import write_atomic


@dataclass(frozen=True)
class Quietly:
    parallelism: str = "serial"
    world_timeout: float = 60.0
    quiet: bool = True
    fail_fast: bool = False


def unit(folder: Path) -> Unit:
    path = folder / "result.json"
    return Unit(name="world 0", stem="00000", args=(path,), summary={"index": 0}, result=path)


def write_and_stumble(path: Path) -> None:
    write_atomic(path, b"{}")
    raise OSError("the worker stumbled after its work was done")


def fail(path: Path) -> None:
    raise OSError(f"nothing was written to {path}")


class _Drops:
    def __del__(self) -> None:
        """Here Python drops exceptions."""
        time.sleep(0.8)
        for _ in range(1000):
            pass


def lose_the_exception(path: Path) -> None:
    _Drops()
    raise_if_late()
    write_atomic(path, b"{}")


def test_a_world_whose_file_is_there_has_been_played(tmp_path: Path) -> None:
    failure = tmp_path / FAILED / "00000.json"
    assert play_units([unit(tmp_path)], fail, tmp_path, Quietly(), lambda _: "replay it").played == 0
    assert json.loads(failure.read_text())["replay"] == "replay it"
    played = play_units([unit(tmp_path)], write_and_stumble, tmp_path, Quietly(), lambda _: "replay it")
    assert (played.played, played.failed) == (1, [])
    assert not failure.exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_world_that_swallowed_its_time_limit_leaves_nothing(tmp_path: Path) -> None:
    played = play_units([unit(tmp_path)], lose_the_exception, tmp_path, Quietly(world_timeout=0.05), lambda _: "")
    assert played.played == 0
    assert "timeout: " in played.failed[0]
    assert not unit(tmp_path).ended
