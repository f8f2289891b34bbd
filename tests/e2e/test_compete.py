"""`echelon hrl compete` as a user runs it: by subprocess, in parallel, killed, resumed."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_collect import command, echelon, n_results, wait_until

SMALL = [
    "compete", "--agent", "PenguinAgent", "--against", "RandomStdAgent", "--worlds", "3",
    "--field", "PenguinAgent,SyncRandomStdAgent", "--steps", "5", "--seed", "5", "--output-dir", "c",
    "--resamples", "500",
]  # fmt: skip
"""Two competitors in three configurations: six worlds of five days."""


def records(folder: Path) -> dict[str, Any]:
    """All results, without what the clock says."""
    found = {f.name: json.loads(f.read_text()) for f in sorted((folder / "worlds").glob("[0-9]*.json"))}
    for record in found.values():
        del record["seconds"]
        for seat in record["seats"]:
            del seat["seconds"]
    return found


def tables(folder: Path) -> Any:
    content = json.loads((folder / "standings.json").read_text())
    for line in content["competitors"]:
        del line["conduct"]["seconds_per_day"]
    return content


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six worlds, serially and undisturbed."""
    base = tmp_path_factory.mktemp("reference")
    done = echelon(*SMALL, "--parallelism", "serial", cwd=base)
    assert done.returncode == 0, done.stderr
    assert "6 worlds to play: 3 configurations x 2 competitors; about" in done.stdout
    assert "PenguinAgent minus rival, in the same seats" in done.stdout
    assert "6 of 6 worlds in c" in done.stdout
    return base / "c"


def test_everything_that_is_promised_is_there(reference: Path) -> None:
    table = tables(reference)
    assert [line["competitor"] for line in table["competitors"]][-1] == "RandomStdAgent"
    assert table["complete_worlds"] == 3
    assert {(p["agent"], p["rival"]) for p in table["paired"]} == {("PenguinAgent", "RandomStdAgent")}
    rows = list(csv.DictReader((reference / "standings.csv").open()))
    assert [row["competitor"] for row in rows] == [line["competitor"] for line in table["competitors"]]
    assert float(rows[0]["all_score_mean"]) == table["competitors"][0]["scores"]["all"]["score"]["mean"]
    assert len(list(csv.DictReader((reference / "paired.csv").open()))) == len(table["paired"])
    scores = list(csv.DictReader((reference / "scores.csv").open()))
    assert len(scores) == 6, "a seat per world"
    for line in table["competitors"]:
        own = [float(row["score"]) for row in scores if row["competitor"] == line["competitor"]]
        assert sum(own) / len(own) == pytest.approx(line["scores"]["all"]["score"]["mean"])
    by_world: dict[int, set[str]] = {}
    for record in records(reference).values():
        by_world.setdefault(record["index"], set()).add(record["digest"])
        assert [seat["level"] for seat in record["seats"]] == [record["index"] % record["levels"]]
        assert all(len(seat["balance"]) == record["days"] == 5 for seat in record["seats"])
    assert [len(digests) for digests in by_world.values()] == [1, 1, 1]
    for record in records(reference).values():
        for seat in record["seats"]:
            assert (reference / seat["log_file"]).stat().st_size > 0
            assert seat["diary_file"] is None, "neither is ours"
    levels = {record["index"]: record["seats"][0]["place"] for record in records(reference).values()}
    for line in table["competitors"]:
        by_level = {scope: score["configurations"] for scope, score in line["scores"].items() if scope != "all"}
        assert by_level == Counter(levels.values()), "each world counts in the table of the level it was played on"


@pytest.mark.slow
def test_parallel_equals_serial(reference: Path, tmp_path: Path) -> None:
    done = echelon(*SMALL, "--parallelism", "loky:2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert records(tmp_path / "c") == records(reference)
    assert tables(tmp_path / "c") == tables(reference)


def test_killed_and_resumed_equals_undisturbed(reference: Path, tmp_path: Path) -> None:
    folder, arguments = tmp_path / "c", [*SMALL, "--parallelism", "serial"]
    process = subprocess.Popen(command(*arguments), cwd=tmp_path, stdout=subprocess.DEVNULL)
    wait_until(lambda: n_results(folder) >= 2, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = {f: f.stat().st_mtime_ns for f in (folder / "worlds").glob("[0-9]*.json")}
    assert 2 <= len(finished) < 6
    done = echelon(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{6 - len(finished)} worlds to play ({len(finished)} of 6 exist already)" in done.stdout
    assert all(f.stat().st_mtime_ns == then for f, then in finished.items())
    assert records(folder) == records(reference)
    assert tables(folder) == tables(reference)
