"""What counts as played: a world whose file is there, and only if nothing cut it short."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from echelon.hrl_xf.collect.folder import FAILED, WorldJob, play_worlds
from echelon.runtime.files import write_atomic


@dataclass(frozen=True)
class Quietly:
    parallelism: str = "serial"
    world_timeout: float = 60.0
    quiet: bool = True
    fail_fast: bool = False


def job(folder: Path) -> WorldJob:
    path = folder / "result.json"
    return WorldJob(name="world 0", stem="00000", args=(path,), summary={"index": 0}, result=path)


def write_and_stumble(path: Path) -> None:
    write_atomic(path, b"{}")
    raise OSError("the worker stumbled after its work was done")


def fail(path: Path) -> None:
    raise OSError(f"nothing was written to {path}")


def swallow_everything(path: Path) -> None:
    try:
        while True:
            time.sleep(0.01)
    except BaseException:  # noqa: BLE001 - an agent that catches everything
        pass
    finally:
        write_atomic(path, b"{}")


def test_a_world_whose_file_exists_has_been_played(tmp_path: Path) -> None:
    failure = tmp_path / FAILED / "00000.json"
    assert play_worlds([job(tmp_path)], fail, tmp_path, Quietly(), lambda _: "replay it").played == 0
    assert json.loads(failure.read_text())["replay"] == "replay it"
    played = play_worlds([job(tmp_path)], write_and_stumble, tmp_path, Quietly(), lambda _: "replay it")
    assert (played.played, played.failed) == (1, [])
    assert not failure.exists()


def test_a_world_that_catches_its_time_limit_leaves_no_result(tmp_path: Path) -> None:
    played = play_worlds([job(tmp_path)], swallow_everything, tmp_path, Quietly(world_timeout=0.05), lambda _: "")
    assert played.played == 0
    assert "timeout: world 0 took more than 0.05 s" in played.failed[0]
    assert not job(tmp_path).ended
