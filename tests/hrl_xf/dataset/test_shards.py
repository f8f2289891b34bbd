"""What is written narrow is read back the same, and many shards are one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from echelon.hrl_xf.dataset.builder import build_tables
from echelon.hrl_xf.dataset.shards import ShardError, Store, compact, map_shard, ranges, read_metadata, write_shard
from echelon.hrl_xf.dataset.table_schema import Tables, dtype_of
from echelon.hrl_xf.recording.log_columns import columns_of
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, RANDOM, log_of
from tests.hrl_xf.state.examples import same_bits


@given(hnp.arrays(st.sampled_from([np.float64, np.float32, np.int64, np.bool_]), st.integers(0, 8)))
def test_compact_keeps_every_bit(column: NDArray[Any]) -> None:
    narrow = compact(column)
    assert narrow.nbytes <= column.nbytes
    back = narrow.astype(column.dtype)
    if column.dtype.kind == "f" and np.isnan(column).any():  # not-a-numbers have many bit patterns
        assert np.array_equal(back, column, equal_nan=True)
    else:
        assert same_bits(back, column)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0.0, 255.0], np.uint8), ([-1.0, 7.0], np.int8), ([0.5, 2.0], np.float16), ([0.1], np.float64),
        ([float(np.float32(0.1))], np.float32), ([0.0, 70000.0], np.uint32),
        ([-0.0], np.float64), ([2.0**40], np.float32),
    ],
)  # fmt: skip
def test_compact_takes_the_narrowest(values: list[float], dtype: type[np.generic]) -> None:
    assert compact(np.array(values)).dtype == dtype


def parts() -> list[Tables]:
    return [build_tables([columns_of(log_of(path))], {}) for path in (PENGUIN_MIDDLE, RANDOM, PENGUIN_FIRST)]


def test_a_shard_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    tables = parts()[0]
    size = write_shard(tmp_path / "s.safetensors", tables, {"logs": "[]"})
    assert (tmp_path / "s.safetensors").stat().st_size == size
    back = map_shard(tmp_path / "s.safetensors")
    assert back.keys() == tables.keys()
    for name, column in tables.items():
        assert np.array_equal(back[name].astype(dtype_of(name)), column.astype(dtype_of(name)), equal_nan=True), name
    assert read_metadata(tmp_path / "s.safetensors") == {"logs": "[]"}
    assert isinstance(back["token.price"].base, np.memmap)


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    write_shard(path, parts()[0], {})
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:5], b"", b"\xff" * 100, whole[:8] + b"x" + whole[9:]):
        path.write_bytes(damaged)
        with pytest.raises(ShardError, match=r"s\.safetensors"):
            map_shard(path)


def test_shards_read_one_by_one_are_the_shards_joined() -> None:
    """The same rows, references counted through, whether the store keeps shards apart or joins them."""
    apart, joined = Store(parts(), in_memory=0), Store(parts())
    rng = np.random.default_rng(0)
    for name in parts()[0]:
        table = name.partition(".")[0]
        assert apart.rows(table) == joined.rows(table)
        rows = rng.integers(0, apart.rows(table), 200)
        assert same_bits(apart.take(name, rows), joined.take(name, rows)), name
    last = np.array([apart.rows("decision") - 1])
    thread = apart.take("decision.thread", last)
    assert apart.take("thread.day", thread) == apart.rows("day") - 1  # the last decision is of the last day


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=8))
def test_ranges_are_ranges(spans: list[tuple[int, int]]) -> None:
    first, count = np.array([a for a, _ in spans], np.int64), np.array([n for _, n in spans], np.int64)
    assert ranges(first, count).tolist() == [x for a, n in spans for x in range(a, a + n)]
