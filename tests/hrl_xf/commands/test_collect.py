"""Collecting when things go wrong inside a run."""

from __future__ import annotations

import json
import resource
from pathlib import Path

from echelon.hrl_xf.collect.collection import play_missing
from echelon.hrl_xf.collect.plan import plan_worlds
from echelon.hrl_xf.commands.collect import collection_plan, open_collection, tracked_by
from echelon.hrl_xf.options.collect import CollectOptions
from echelon.hrl_xf.state.schema import decode_log

OPTIONS = CollectOptions(configs=1, runs=1, max_top_2025=0, max_top_2024=1, steps=6, parallelism="serial", quiet=True)


def test_a_full_disk_fails_worlds_and_leaves_no_half_log(tmp_path: Path) -> None:
    plan = collection_plan(OPTIONS)
    worlds, params = plan_worlds(plan)
    open_collection(tmp_path, OPTIONS, plan, worlds, params)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (20_000, hard)
    )  # files may not grow beyond this, as if the disk were full
    try:
        collected = play_missing(worlds, worlds, OPTIONS, tmp_path, tracked_by(OPTIONS))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(collected.run.failed) == 3
    assert all("File too large" in reason for reason in collected.run.failed)
    assert [json.loads(f.read_text())["status"] for f in (tmp_path / "failed").iterdir()] == ["error"] * 3
    assert collected.results == []
    left = list((tmp_path / "tracker_logs").iterdir())
    for file in left:
        decode_log(file.read_bytes())
    assert not any(file.name.startswith(".") for file in left), "temporary files are cleaned up"
    again = play_missing(worlds, worlds, OPTIONS, tmp_path, tracked_by(OPTIONS))
    assert len(again.results) == 3
    assert list((tmp_path / "failed").iterdir()) == []
