"""The guides' way in: snippets, saving and loading, splits of one world, and a decoder that no bytes can fool."""

from __future__ import annotations

import copy
import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from echelon.hrl_xf import data_pipeline
from echelon.hrl_xf.data_pipeline import load_l4_distill_data, load_samples, load_tournament_data, save_samples
from echelon.hrl_xf.dataset import datasets, tournament
from echelon.hrl_xf.dataset.cache import parse_group
from echelon.hrl_xf.dataset.samples import MicroBatch
from echelon.hrl_xf.dataset.split import SPLITS, WorldSplit
from echelon.hrl_xf.dataset.thread_tables import REPRESENTABLE
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.recording.log_files import find_logs
from echelon.hrl_xf.state.day_state import REJECT
from echelon.hrl_xf.state.l1_safety import compute_l1_baseline
from tests.hrl_xf.log_examples import LOGS, PENGUIN_FIRST, plain_logging, put, text_of
from tests.hrl_xf.state.examples import same_bits
from tests.laws import examples


def test_the_guides_snippet_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Guide §4.3, with `litaagent_std.` as `echelon.` and a real folder."""
    snippet = """
from litaagent_std.hrl_xf.data_pipeline import load_tournament_data, save_samples

macro_ds, micro_ds = load_tournament_data(
    "./tournament_history/hrl_data_<timestamp>_std",
    agent_name="Pe",
    num_workers=4,
    goal_backfill="none",
)
save_samples(macro_ds, micro_ds, "./data/hrlxf_samples", horizon=40)
"""
    code = snippet.replace("litaagent_std.", "echelon.").replace(
        "./tournament_history/hrl_data_<timestamp>_std", "{logs}"
    )
    data = tmp_path / "logs"
    for path in LOGS.rglob("*.gz"):
        (data / path.parent.parent.name).mkdir(parents=True, exist_ok=True)
        (data / path.parent.parent.name / path.name).write_bytes(path.read_bytes())
    with plain_logging(), caplog.at_level(logging.INFO, "echelon"):
        exec(code.replace("{logs}", str(data)).replace("./data", str(tmp_path)), {})
    assert "14 logs in 2 folders; agent 'Pe' is PenguinAgent: 5 logs" in caplog.text
    assert re.search(r"130 macro samples, \d+ micro samples", caplog.text)
    macro, micro = load_samples(tmp_path / "hrlxf_samples")
    assert len(macro) == 130
    assert micro[0].history.shape[1] == 4


def test_a_script_without_logging_prints_what_matched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "a", text_of(PENGUIN_FIRST))
    with plain_logging():
        load_tournament_data(tmp_path, "Pe", 1)
    assert "agent 'Pe' is PenguinAgent: 1 logs" in capsys.readouterr().err
    load_tournament_data(tmp_path, "Pe", 1, quiet=True)
    assert capsys.readouterr().err == ""


def test_baseline_and_goal_functions_are_the_ones_of_play() -> None:
    assert data_pipeline.compute_l1_baseline_offline is compute_l1_baseline


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return LOGS, tmp_path_factory.mktemp("cache")


def load(logs: tuple[Path, Path], name: str = "Pe", **options: Any) -> Any:
    return load_tournament_data(logs[0], name, 1, cache_dir=logs[1], quiet=True, **options)


def assert_same_batch(one: MicroBatch, other: MicroBatch) -> None:
    for part, its in ((one, other), (one.decisions, other.decisions), (one.threads, other.threads)):
        for name, column in vars(part).items():
            assert not isinstance(column, np.ndarray) or same_bits(column, getattr(its, name)), name


def test_saved_samples_come_back_without_logs_or_cache(logs: tuple[Path, Path], tmp_path: Path) -> None:
    macro, micro = load(logs, goal_backfill="v2")
    some, few = macro[5:25], micro.pick(np.array([9, 2, 40]))
    save_samples(some, few, tmp_path / "out")
    macro2, micro2 = load_samples(tmp_path / "out")
    assert same_bits(macro2.batch(np.arange(20)).X_temporal, some.batch(np.arange(20)).X_temporal)
    a, b = micro2.batch(np.arange(3)), few.batch(np.arange(3))
    assert_same_batch(a, b)
    assert a.goal.any()
    assert micro2[1].negotiation_id == few[1].negotiation_id
    assert micro2.data.fingerprint == micro.data.fingerprint


def test_saving_refuses_what_would_not_fit(logs: tuple[Path, Path], tmp_path: Path) -> None:
    macro, micro = load(logs)
    with pytest.raises(ValueError, match="horizon=20, but the samples were made with 40"):
        save_samples(macro, micro, tmp_path, horizon=20)
    with pytest.raises(ValueError, match="two loads"):
        save_samples(macro, load(logs)[1], tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no samples\.json"):
        load_samples(tmp_path)
    save_samples(macro, micro, tmp_path)
    (tmp_path / "samples.json").write_text('{"format_version":9,"horizon":40,"goal_source":"none","records":[]}')
    with pytest.raises(ValueError, match="format_version 9"):
        load_samples(tmp_path)


def test_no_logs_and_no_such_agent_are_errors(logs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="contains no tracker log"):
        load_tournament_data(tmp_path, quiet=True)
    with pytest.raises(ValueError, match=r"'Pinguin' is none .* recorded are AS0 \(3 logs\), PenguinAgent \(5 logs\)"):
        load(logs, "Pinguin")


def test_agents_of_one_world_are_in_one_split(logs: tuple[Path, Path]) -> None:
    """Three configurations, one for each split; every agent's rows go with their configuration."""
    configs = ["s0-c0000", "s2025-c0000", "s2025-c0001"]
    split = WorldSplit(seed=0, val_ratio=0.3, test_ratio=0.3).extended(configs)
    where: dict[str, set[str]] = {}
    total = 0
    for agent in ("PenguinAgent", "AS0", "SyncRandomStdAgent"):
        macro, micro = load(logs, agent)
        for name in SPLITS:
            days, decisions = macro.part(split, name), micro.part(split, name)
            total += len(days)
            for ds in (days, decisions):
                for log in np.unique(ds.log):
                    where.setdefault(macro.data.records[log].world_id, set()).add(name)
    assert total == 130 + 2 * 30
    assert all(len(names) == 1 for names in where.values())
    assert {next(iter(names)) for names in where.values()} == set(SPLITS)
    with pytest.raises(ValueError, match="does not know s2025-c0000, s2025-c0001"):
        load(logs)[0].part(WorldSplit(seed=0, val_ratio=0.0, test_ratio=0.0).extended(configs[:1]), "train")


def test_sharded_data_give_the_same_batches(logs: tuple[Path, Path]) -> None:
    """Beyond the memory limit the files are read by rows."""
    opened = [
        tournament.open_tournament(logs[0], "Pe", 1, cache_dir=logs[1], quiet=True, in_memory=limit)
        for limit in (1 << 30, 0)
    ]
    rng = np.random.default_rng(1)
    micros = [datasets.micro_of(data) for data in opened]
    at = rng.integers(0, len(micros[0]), 300)
    one, other = (micro.batch(at) for micro in micros)
    assert_same_batch(one, other)
    sets = [datasets.l4_of(data) for data in opened]
    at = rng.integers(0, len(sets[0]), 50)
    assert same_bits(sets[0].batch(at).thread_feat, sets[1].batch(at).thread_feat)
    macros = [datasets.macro_of(data) for data in opened]
    assert same_bits(macros[0].batch(np.arange(130)).X_temporal, macros[1].batch(np.arange(130)).X_temporal)


def test_random_agents_have_no_sets_to_coordinate(logs: tuple[Path, Path]) -> None:
    """They answer one thread a call."""
    assert len(load_l4_distill_data(logs[0], "RandomStdAgent", num_workers=1, cache_dir=logs[1], quiet=True)) == 0
    assert len(load_l4_distill_data(logs[0], "Pe", num_workers=1, cache_dir=logs[1], quiet=True)) > 100


# -- fuzzing: whatever the bytes, a named error or sound samples --

TEXT = text_of(PENGUIN_FIRST)
FUZZ = settings(examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def assert_sound(folder: Path, content: bytes) -> bool:
    """A record with a reason, or samples that keep every rule; True if there were samples."""
    for old in folder.glob("shard-*"):
        old.unlink()
    put(folder, "x", content)
    (record,) = parse_group(str(folder), find_logs(folder), str(folder), 40)
    if record.error:
        assert len(record.error) > 10
        assert not list(folder.glob("shard-*"))
        return False
    data = TournamentData.open(folder, [record], 40)
    macro, micro = datasets.macro_of(data), datasets.micro_of(data)
    days, b = macro.batch(np.arange(len(macro))), micro.batch(np.arange(len(micro)))
    d = b.decisions
    made = (days.x_static, days.X_temporal, days.goal, b.threads.tokens, d.baseline, d.safe, d.B_free, b.open_goal)
    for array in made:
        assert np.isfinite(array).all()
    assert (days.goal[:, ::2] >= 0).all()
    assert (d.history <= b.threads.mask.sum(axis=1)[b.thread]).all()
    assert (d.op[~d.on_table] != 0).all()
    deal = data.tables.store.take("thread.deal", data.rows("thread"))
    assert ((deal[:, 0] > 0) | (deal == 0).all(axis=1)).all()
    rows = np.flatnonzero((d.op == REJECT) & (d.l1_rules == REPRESENTABLE))
    quantity, ahead, _ = d.offer[rows].T
    assert d.open[rows, ahead].all()
    assert (quantity <= d.safe[rows, ahead]).all()
    return True


def test_the_untouched_log_is_sound(tmp_path: Path) -> None:
    assert assert_sound(tmp_path, TEXT)


@FUZZ
@given(
    st.lists(
        st.tuples(st.integers(0, len(TEXT) - 1), st.binary(max_size=4), st.integers(0, 40)), min_size=1, max_size=4
    )
)
def test_mutated_bytes_never_crash(tmp_path: Path, edits: list[tuple[int, bytes, int]]) -> None:
    text = TEXT
    for place, new, gone in edits:
        text = text[:place] + new + text[place + gone :]
    assert_sound(tmp_path, text)


numbers = st.one_of(
    st.integers(-40, 60), st.integers(-(10**25), 10**25), st.floats(allow_nan=False, allow_infinity=False), st.none(),
    st.booleans(), st.text(max_size=3), st.just([]),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if not isinstance(value, (dict, list)) else []
    return found + [p for key, inner in items for p in places(inner, (*path, key))]


DOCUMENT = json.loads(TEXT)
ENTRY_PLACES = [p for p in places(DOCUMENT) if p[0] == "entries"]


@FUZZ
@given(st.lists(st.tuples(st.sampled_from(ENTRY_PLACES), numbers), min_size=1, max_size=2))
def test_changed_values_give_an_error_or_sound_samples(
    tmp_path: Path, changes: list[tuple[tuple[Any, ...], Any]]
) -> None:
    """Well-formed JSON with a wrong value somewhere: the schema, the checks, or harmless."""
    document = copy.deepcopy(DOCUMENT)
    for path, value in changes:
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
    assert_sound(tmp_path, json.dumps(document, separators=(",", ":")).encode())


@FUZZ
@given(
    st.lists(
        st.tuples(st.integers(0, len(DOCUMENT["entries"]) - 1), st.sampled_from(["drop", "twice", "swap"])),
        min_size=1,
        max_size=3,
    )
)
def test_entries_moved_about_are_noticed(tmp_path: Path, moves: list[tuple[int, str]]) -> None:
    """Stats count the entries and the ledger counts deals, so a missing or doubled decision is never a sample."""
    document = json.loads(TEXT)
    entries = document["entries"]
    for place, move in moves:
        at = min(place, len(entries) - 2)
        if move == "drop":
            entries.pop(at)
        elif move == "twice":
            entries.insert(at, entries[at])
        else:
            entries[at], entries[at + 1] = entries[at + 1], entries[at]
    kinds = [e["event"] for e in entries]
    same = all(
        kinds.count(kind) == [e["event"] for e in DOCUMENT["entries"]].count(kind)
        for kind in ("daily_status", "decision", "negotiation_success")
    )
    assert assert_sound(tmp_path, json.dumps(document).encode()) <= same
