"""Edit an agent and run the same `compete` again: its old score must not stand as the new agent's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_files_here import echelon

AGENT = """
from helper import GREED
from scml.std.agents import SyncRandomStdAgent


class MyAgent(SyncRandomStdAgent):
    def first_proposals(self):
        return {} if GREED else super().first_proposals()

    def counter_all(self, offers, states):
        return {} if GREED else super().counter_all(offers, states)
"""
ARENA = [
    "hrl", "compete", "--agent", "mine=myagent:MyAgent", "--against", "RandomStdAgent", "--worlds", "1", "--steps", "6",
    "--field", "PenguinAgent,SyncRandomStdAgent", "--output-dir", "c", "--resamples", "50", "--parallelism", "serial",
]  # fmt: skip


def scores(folder: Path) -> dict[str, float]:
    table = json.loads((folder / "standings.json").read_text())
    return {line["competitor"]: line["scores"]["all"]["score"]["mean"] for line in table["competitors"]}


def said(cwd: Path, *more: str, arena: list[str] = ARENA) -> str:
    done = echelon(*arena, *more, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_edited_agent_plays_its_worlds_again(tmp_path: Path) -> None:
    (tmp_path / "myagent.py").write_text(AGENT)
    (tmp_path / "helper.py").write_text("GREED = 0\n")
    assert "2 worlds to play" in said(tmp_path)
    first = scores(tmp_path / "c")
    (tmp_path / "helper.py").write_text("GREED = 1\n")
    old = said(tmp_path, "--keep-old")
    assert "mine: 1 existing worlds were played by other code of its own; they are shown as they are" in old
    assert "0 worlds to play (2 of 2 exist already)" in old
    assert scores(tmp_path / "c") == first
    again = said(tmp_path)
    assert "mine: 1 existing worlds were played by other code of its own; they are played again now" in again
    assert "1 worlds to play (1 of 2 exist already)" in again
    second = scores(tmp_path / "c")
    assert second["mine"] != first["mine"]
    assert second["RandomStdAgent"] == first["RandomStdAgent"]


def test_a_resumed_collection_says_that_its_code_has_changed(tmp_path: Path) -> None:
    (tmp_path / "myagent.py").write_text(AGENT)
    (tmp_path / "helper.py").write_text("GREED = 0\n")
    collect = [
        "hrl", "collect", "--configs", "1", "--runs", "1", "--max-top-2025", "0", "--max-top-2024", "0", "--steps", "5",
        "--add", "myagent:MyAgent", "--foreground", "--no-auto-collect", "--output-dir", "c", "--resumable",
        "--parallelism", "serial",
    ]  # fmt: skip
    assert "today's code" not in said(tmp_path, arena=collect)
    lost = tmp_path / "c" / "worlds" / "00001.json"
    before = json.loads(lost.read_text())["code"]
    lost.unlink()
    (tmp_path / "helper.py").write_text("GREED = 1\n")
    assert "2 worlds exist already, and not all were played by today's code (changed: myagent.MyAgent)" in said(
        tmp_path, arena=collect
    )
    after = json.loads(lost.read_text())["code"]
    assert {name for name in after if after[name] != before[name]} == {"myagent.MyAgent"}


@pytest.mark.slow
def test_in_an_official_tournament_too(tmp_path: Path) -> None:
    arena = [*ARENA, "--official"]
    arena[arena.index("--worlds") + 1] = "1"
    (tmp_path / "myagent.py").write_text(AGENT)
    (tmp_path / "helper.py").write_text("GREED = 0\n")
    assert "2 worlds to play" in said(tmp_path, arena=arena)
    before = results(tmp_path)
    (tmp_path / "helper.py").write_text("GREED = 1\n")
    kept = said(tmp_path, "--keep-old", arena=arena)
    assert "2 existing worlds were played by other code (mine changed); they are shown as they are" in kept
    assert results(tmp_path) == before
    again = said(tmp_path, arena=arena)
    assert "2 existing worlds were played by other code (mine changed); they are played again now" in again
    assert results(tmp_path) != before


def results(folder: Path) -> list[Any]:
    return [json.loads(path.read_text())["scores"] for path in sorted((folder / "c" / "worlds").glob("[0-9]*.json"))]
