"""Parsed once; new logs added; killed and two at once without damage; bad logs left out by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import numpy as np
import pytest

from echelon.hrl_xf.data_pipeline import load_tournament_data
from echelon.hrl_xf.dataset import cache as dataset_cache
from echelon.hrl_xf.dataset.builder import build_tables
from echelon.hrl_xf.dataset.cache import Index, LogCache
from echelon.hrl_xf.dataset.datasets import macro_of, micro_of
from echelon.hrl_xf.dataset.table_schema import Tables
from echelon.hrl_xf.dataset.tournament import TournamentData, open_tournament
from echelon.hrl_xf.recording import log_files
from echelon.hrl_xf.recording.log_columns import LogColumns
from echelon.hrl_xf.recording.log_files import BadLog, find_logs, read_log
from echelon.hrl_xf.state.day_batch import FEATURE_VERSION
from echelon.hrl_xf.state.schema import AgentLog
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, log_of, plain_logging, put, text_of
from tests.hrl_xf.state.examples import same_bits


def opened(folder: Path, **options: object) -> TournamentData:
    return open_tournament(folder, "PenguinAgent", 1, quiet=True, **options)  # type: ignore[arg-type]


def filled(folder: Path, logs: int = 3) -> Path:
    for i in range(logs):
        put(folder, f"{i:02d}", text_of(PENGUIN_FIRST))
    return folder


def shards(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in folder.rglob("shard-*.safetensors")}


def assert_same_data(a: TournamentData, b: TournamentData) -> None:
    one, other = macro_of(a), macro_of(b)
    assert len(one) == len(other)
    assert same_bits(one.batch(np.arange(len(one))).X_temporal, other.batch(np.arange(len(other))).X_temporal)
    x, y = (micro_of(d).batch(np.arange(len(micro_of(d)))) for d in (a, b))
    for name in ("op", "history", "offer", "legal_baseline", "others", "safe", "B_free"):
        assert same_bits(getattr(x.decisions, name), getattr(y.decisions, name)), name
    assert a.fingerprint == b.fingerprint


def watch_reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the logs that are read from now on, in this process."""
    read: list[str] = []

    def noted(data_dir: Path, path: str) -> tuple[AgentLog, str]:
        read.append(path)
        return read_log(data_dir, path)

    monkeypatch.setattr(dataset_cache, "read_log", noted)
    return read


def test_logs_are_parsed_once_and_new_ones_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled(tmp_path)
    first = opened(folder)
    before = shards(folder)
    read = watch_reading(monkeypatch)
    assert_same_data(first, opened(folder))
    assert read == []
    put(folder, "01b", text_of(PENGUIN_MIDDLE))
    more = opened(folder)
    assert read == ["tracker_logs/agent_01b.json"]
    assert shards(folder).items() > before.items()
    assert len(macro_of(more)) == len(macro_of(first)) + 50
    assert [r.file.path for r in more.records] == [f"tracker_logs/agent_{n}.json" for n in ("00", "01", "01b", "02")]
    assert more.fingerprint != first.fingerprint


def test_nothing_is_opened_on_a_second_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled(tmp_path)
    opened(folder)
    index = next(folder.rglob("index.json")).stat().st_mtime_ns
    monkeypatch.setattr(log_files, "read_bytes", lambda *_: pytest.fail("a log was read"))
    monkeypatch.setattr(dataset_cache, "agent_type_of", lambda *_: pytest.fail("a log was opened"))
    opened(folder)
    assert next(folder.rglob("index.json")).stat().st_mtime_ns == index


def test_a_changed_log_is_parsed_again_and_its_old_rows_are_gone(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    opened(folder)
    put(folder, "01", text_of(PENGUIN_MIDDLE))
    changed = opened(folder)
    fresh = opened(folder, cache_dir=tmp_path / "other")
    assert len(macro_of(changed)) == 10 + 50 + 10
    assert_same_data(changed, fresh)


def test_a_deleted_log_is_no_longer_part_of_the_data(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    opened(folder)
    (folder / "tracker_logs" / "agent_00.json").unlink()
    assert len(macro_of(opened(folder))) == 20


def test_another_feature_version_or_horizon_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled(tmp_path, 1)
    data = opened(folder)
    named = data.fingerprint
    assert macro_of(opened(folder, horizon=20))[0].state_temporal.shape == (21, 10)
    monkeypatch.setattr(dataset_cache, "FEATURE_VERSION", FEATURE_VERSION + 1)
    newer = opened(folder)
    assert newer.folder != data.folder
    assert newer.fingerprint != named
    assert len(shards(folder)) == 3


def test_an_index_of_another_version_is_not_believed(tmp_path: Path) -> None:
    folder = filled(tmp_path, 1)
    cache = LogCache(folder)
    data = opened(folder)
    path = cache.folder / "index.json"
    index = msgspec.json.decode(path.read_bytes(), type=Index)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(index, feature_version=0)))
    (cache.folder / data.records[0].shard).unlink()
    assert_same_data(opened(folder), opened(folder, cache_dir=tmp_path / "other"))


@pytest.mark.parametrize("damage", ["index gone", "index half", "shard gone"])
def test_a_damaged_cache_heals(tmp_path: Path, damage: str) -> None:
    folder = filled(tmp_path)
    data = opened(folder)
    index = data.folder / "index.json"
    if damage == "index gone":
        index.unlink()
    elif damage == "index half":
        index.write_bytes(index.read_bytes()[:200])
    else:
        (data.folder / data.records[0].shard).unlink()
    assert_same_data(opened(folder), opened(folder, cache_dir=tmp_path / "other"))


def test_workers_give_the_same_as_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_cache, "WORTH_A_WORKER", 1)
    folder = filled(tmp_path, 5)
    two = open_tournament(folder, "Pe", 2, quiet=True, cache_dir=tmp_path / "two")
    assert len(two.shards) > 1
    assert_same_data(two, opened(folder))


SLOW_BUILD = """
    import sys, time
    from pathlib import Path
    from echelon.hrl_xf.dataset import cache as dataset_cache
    dataset_cache.SHARD_LOGS = 2
    real = dataset_cache.write_shard
    def slow(path, tables, metadata):
        size = real(path, tables, metadata)
        print("shard", flush=True)
        time.sleep({pause})
        return size
    dataset_cache.write_shard = slow
    from echelon.hrl_xf.data_pipeline import load_tournament_data
    macro, micro = load_tournament_data(sys.argv[1], "PenguinAgent", 1, quiet=True)
    print(len(macro), len(micro), macro.data.fingerprint, flush=True)
"""


def start(folder: Path, pause: float) -> subprocess.Popen[str]:
    code = textwrap.dedent(SLOW_BUILD.format(pause=pause))
    return subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)


def test_killed_in_the_middle_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled(tmp_path, 8)
    process = start(folder, 30)
    assert process.stdout is not None
    assert process.stdout.readline() == "shard\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    survivors = shards(folder)
    assert len(survivors) == 1
    (next(folder.rglob("shard-*")).parent / ".tmp-shard-half").write_bytes(b"x" * 100)
    read = watch_reading(monkeypatch)
    data = opened(folder)
    assert len(read) == 6  # the killed shard held two
    assert shards(folder).items() >= survivors.items()
    assert not list(folder.rglob(".tmp-*"))
    assert_same_data(data, opened(folder, cache_dir=tmp_path / "other"))


def test_two_builders_at_once_give_one_cache(tmp_path: Path) -> None:
    folder = filled(tmp_path, 8)
    first = start(folder, 0.3)
    assert first.stdout is not None
    assert first.stdout.readline() == "shard\n"
    second = start(folder, 0.3)
    outputs = [p.communicate(timeout=60)[0].splitlines() for p in (first, second)]
    assert [p.returncode for p in (first, second)] == [0, 0]
    assert outputs[0][-1] == outputs[1][-1] == f"80 {8 * 74} {opened(folder).fingerprint}"
    assert len(outputs[1]) == 1  # it waited, and found everything built
    assert len(shards(folder)) == 4


def test_readers_do_not_wait_for_a_builder(tmp_path: Path) -> None:
    folder = filled(tmp_path, 2)
    opened(folder)
    new = [put(folder, f"new{i}", text_of(PENGUIN_FIRST)) for i in range(4)]
    process = start(folder, 30)
    assert process.stdout is not None
    assert process.stdout.readline() == "shard\n"
    for path in new:
        path.unlink()
    assert len(macro_of(opened(folder))) == 20
    assert process.poll() is None  # it still holds the lock
    process.kill()
    process.wait()


def test_bad_logs_are_named_counted_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = filled(tmp_path, 2)
    text = text_of(PENGUIN_FIRST)
    put(folder, "cut", text[:-100])
    put(folder, "empty", b"")
    put(folder, "lying", text.replace(b'"deals_before":4', b'"deals_before":5', 1))
    for _ in range(2):  # the second time from the index
        caplog.clear()
        with plain_logging():
            data = opened(folder)
        assert len(macro_of(data)) == 20
        assert len(data.left_out) == 3
        messages = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
        assert len(messages) == 3
        named = "\n".join(messages)
        assert "agent_cut.json: not a tracker log, or cut short: Input data was truncated" in named
        assert "agent_empty.json: the file is empty" in named
        assert "agent_lying.json: entry 16 (decision, day 0): deals_before is 5, but 4 deals" in named


def test_strict_stops_at_a_bad_log(tmp_path: Path) -> None:
    folder = filled(tmp_path, 2)
    put(folder, "cut", text_of(PENGUIN_FIRST)[:-100])
    with pytest.raises(BadLog, match=r"agent_cut\.json: .*truncated"):
        opened(folder, strict=True)
    with pytest.raises(BadLog, match=r"agent_cut\.json"):
        opened(folder, strict=True)
    assert len(macro_of(opened(folder))) == 20


def test_a_log_that_could_not_be_read_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken disk or network says nothing about the log."""
    folder = filled(tmp_path, 2)

    def fails(data_dir: Path, path: str) -> tuple[AgentLog, str]:
        if path.endswith("agent_01.json"):
            raise BadLog(path, f"{log_files.UNREADABLE}: Input/output error")
        return read_log(data_dir, path)

    monkeypatch.setattr(dataset_cache, "read_log", fails)
    assert len(macro_of(opened(folder))) == 10
    monkeypatch.setattr(dataset_cache, "read_log", read_log)
    assert len(macro_of(opened(folder))) == 20


def test_only_bad_logs_are_an_error(tmp_path: Path) -> None:
    put(tmp_path, "x", text_of(PENGUIN_FIRST)[:-100])
    with pytest.raises(ValueError, match="none of the 1 logs of PenguinAgent"):
        opened(tmp_path)


def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    folder = filled(tmp_path, 1)
    (folder / ".hrl_cache").write_text("in the way")
    with pytest.raises(OSError, match="give another cache_dir"):
        opened(folder)
    macro, _ = load_tournament_data(folder, "Pe", 1, cache_dir=tmp_path / "elsewhere", quiet=True)
    assert len(macro) == 10


def test_one_log_that_cannot_be_built_does_not_spoil_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled(tmp_path, 3)
    log = log_of(PENGUIN_FIRST)
    put(folder, "01b", msgspec.structs.replace(log, agent_id="cursed"))

    def build(logs: list[LogColumns], partners: dict[str, int], horizon: int) -> Tables:
        if any(one.agent_id == "cursed" for one in logs):
            raise ValueError("numbers that do not go together")
        return build_tables(logs, partners, horizon)

    monkeypatch.setattr(dataset_cache, "build_tables", build)
    data = opened(folder)
    assert len(macro_of(data)) == 30
    assert [r.error for r in data.left_out] == ["cannot be turned into samples: numbers that do not go together"]


def test_every_file_found_is_in_the_index_with_its_owner(tmp_path: Path) -> None:
    folder = filled(tmp_path, 2)
    put(folder, "z", msgspec.structs.replace(log_of(PENGUIN_FIRST), agent_type="AS0"))
    opened(folder)
    records = LogCache(folder).index()
    assert {f.path for f in find_logs(folder)} == set(records)
    assert records["tracker_logs/agent_z.json"].agent_type == "AS0"
    assert records["tracker_logs/agent_z.json"].shard == ""  # nobody asked for it
