"""Tables on disk: safetensors files of narrow columns, memory-mapped, and a store that reads many as one.

A column is written in the narrowest type that holds every value exactly, and read back in the type of `dtype_of`: what
comes out is what went in, bit for bit. Row numbers are local to a shard; the store counts them over all shards.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from echelon.hrl_xf.dataset.table_schema import REFERENCES, Tables, dtype_of
from echelon.runtime.arrays import Ints
from echelon.runtime.files import write_atomic

IN_MEMORY = 1 << 29
"""Data sets up to this many bytes are read into memory; larger ones stay in the files and are read by rows."""

_INTEGERS = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)
_DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip


class ShardError(ValueError):
    """A shard that is not whole; the message names it."""


def compact(column: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in the narrowest type that holds each exactly."""
    if column.dtype == np.bool_:
        return column.astype(np.uint8)
    if column.dtype.kind == "f":
        whole = np.isfinite(column).all() and (np.abs(column) < 2**31).all() and (column == np.rint(column)).all()
        if not whole:
            narrow = (np.float16, np.float32)
            exact = (t for t in narrow if t != column.dtype and _same(_quietly(column, t), column))
            return column.astype(next(exact, column.dtype))
        if (np.signbit(column) & (column == 0)).any():
            return column  # whole numbers have no negative zero
    low, high = (int(column.min()), int(column.max())) if column.size else (0, 0)
    fits_int = (t for t in _INTEGERS if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
    return column.astype(next(fits_int, np.int64))


def _quietly(column: NDArray[Any], dtype: Any) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return column.astype(dtype)


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True))


def row_counts(tables: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """How many rows each table has."""
    return {name.partition(".")[0]: len(column) for name, column in tables.items()}


def join(parts: Sequence[Mapping[str, NDArray[Any]]]) -> Tables:
    """Tables one after the other, row numbers counted through."""
    counts = [row_counts(part) for part in parts]
    joined: Tables = {}
    for name in parts[0]:
        columns = [part[name] for part in parts]
        target = REFERENCES.get(name)
        if target is not None:
            offsets = np.cumsum([0, *(count[target] for count in counts)])
            columns = [column.astype(np.int64) + offset for column, offset in zip(columns, offsets, strict=False)]
        width = max((column.shape[1:] for column in columns), default=())
        joined[name] = np.concatenate([_widened(column, width) for column in columns])
    return joined


def _widened(column: NDArray[Any], width: tuple[int, ...]) -> NDArray[Any]:
    """Zeros after each row up to `width`: limits are stored as far as the game's horizon reaches."""
    if column.shape[1:] == width:
        return column
    wide = np.zeros((len(column), *width), column.dtype)
    wide[:, : column.shape[1]] = column
    return wide


def write_shard(path: Path, tables: Tables, metadata: Mapping[str, str]) -> int:
    """Write a shard atomically; returns its size in bytes."""
    data = save({name: np.ascontiguousarray(compact(column)) for name, column in tables.items()}, dict(metadata))
    write_atomic(path, data)
    return len(data)


def read_metadata(path: Path) -> dict[str, str]:
    return dict(_header(path)[0].get("__metadata__", {}))


def _header(path: Path) -> tuple[dict[str, Any], int, int]:
    """The header of a safetensors file, where its data begin, and the file's size."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= size - 8:
            raise ShardError(f"{path} is not a whole safetensors file; delete it, and it is built again")
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise ShardError(f"{path} has a damaged header ({error}); delete it, and it is built again") from error
    return header, 8 + length, size


def map_shard(path: Path) -> Tables:
    """The columns of a shard, memory-mapped: nothing is read until it is used."""
    header, begin, size = _header(path)
    raw = np.memmap(path, np.uint8, "r")
    tables: Tables = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        first, last = tensor["data_offsets"]
        if begin + last > size:
            raise ShardError(f"{path} is cut short; delete it, and it is built again")
        tables[name] = raw[begin + first : begin + last].view(_DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
    return tables


class Store:
    """Columns of many shards under one numbering. `take` reads rows; the whole of a column is `column`."""

    def __init__(self, shards: Iterable[Mapping[str, NDArray[Any]]], in_memory: int = IN_MEMORY) -> None:
        self._shards = list(shards)
        if not self._shards:
            raise ValueError("a store needs at least one shard")
        counts = [row_counts(shard) for shard in self._shards]
        self._offsets = {table: np.cumsum([0, *(count[table] for count in counts)]) for table in counts[0]}
        total = sum(column.nbytes for shard in self._shards for column in shard.values())
        if len(self._shards) > 1 and total <= in_memory:
            self._shards = [join(self._shards)]
        self._widths = {name: max(shard[name].shape[1:] for shard in self._shards) for name in self._shards[0]}

    def first_row(self, table: str, shard: int) -> int:
        """Where the rows of the n-th shard begin."""
        return int(self._offsets[table][shard])

    def rows(self, table: str) -> int:
        return int(self._offsets[table][-1])

    def column(self, name: str) -> NDArray[Any]:
        """All rows of a column."""
        return self.take(name, np.arange(self.rows(name.partition(".")[0])))

    def take(self, name: str, rows: Ints) -> NDArray[Any]:
        """Rows of a column, in the order asked for, in the type of `dtype_of`."""
        dtype, target = dtype_of(name), REFERENCES.get(name)
        if len(self._shards) == 1:
            return self._shards[0][name][rows].astype(dtype)
        table = name.partition(".")[0]
        shard_of = np.searchsorted(self._offsets[table], rows, side="right") - 1
        width = self._widths[name]
        out: NDArray[Any] = np.zeros((len(rows), *width), dtype)
        order = np.argsort(shard_of, kind="stable")
        used, begin = np.unique(shard_of[order], return_index=True)
        for s, at in zip(used.tolist(), np.split(order, begin[1:]), strict=True):
            found = self._shards[s][name][rows[at] - self._offsets[table][s]].astype(dtype)
            out[at] = _widened(found, width)
            if target is not None:
                out[at] += self._offsets[target][s]
        return out


def ranges(first: Ints, count: Ints) -> Ints:
    """first[0]..first[0]+count[0]−1, first[1].. and so on, one after the other."""
    begin = np.cumsum(count) - count
    return np.repeat(first - begin, count) + np.arange(int(count.sum()))
