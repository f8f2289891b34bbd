"""Fills a RolloutBatch while worlds run: arrays allocated once per round, nothing dropped, nothing stored past the end.

A decision is opened (what it saw, chose and expected), earns rewards step by step, and is closed. Columns may be at
different slots, because worlds take decisions at different times; `columns` are their indices. A level
that decides at every step uses `store`, which does the three at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from echelon.onpolicy.batch import TREE_FIELDS, Arrays, RolloutBatch, VersionError
from echelon.runtime.arrays import Array

Columns = Array | None
EMPTY: Arrays = {}


class RolloutBuilder:
    """Preallocated arrays for `slots` decisions of `columns` worlds with `units` ratios each.

    Trailing shapes and types are taken from the first decision stored; later ones must agree. Floats are kept as
    float32. `chunk` is the length of recurrent chunks; recurrent states are kept at their starts only.
    """

    def __init__(self, slots: int, columns: int, units: int = 1, chunk: int = 1) -> None:
        if min(slots, columns, units, chunk) < 1:
            raise ValueError(f"slots={slots}, columns={columns}, units={units} and chunk={chunk} must be at least 1")
        self.slots, self.columns, self.units, self.chunk = slots, columns, units, chunk
        self._clear()

    def _clear(self) -> None:
        per_unit, per_slot = (self.slots, self.columns, self.units), (self.slots, self.columns)
        self.version: int | None = None
        self._unit: dict[str, Array] = {
            "log_prob": np.zeros(per_unit, np.float32),
            "value": np.zeros(per_unit, np.float32),
            "next_value": np.full(per_unit, np.nan, np.float32),
            "reward": np.zeros(per_unit, np.float32),
            "terminated": np.zeros(per_unit, bool),
            "done": np.zeros(per_unit, bool),
            "alive": np.zeros(per_unit, bool),
            "earns": np.zeros(per_unit, bool),
        }
        self._span = np.zeros(per_slot, np.int64)
        self._reset = np.zeros(per_slot, bool)
        self._trees: dict[str, dict[str, Array]] = {tree: {} for tree in (*TREE_FIELDS, "state")}
        self._opened = np.zeros(self.columns, np.int64)
        self._is_open = np.zeros(self.columns, bool)
        self._all = np.arange(self.columns)
        self._stateful: bool | None = None
        self._named: set[str] = set()

    def open(
        self,
        version: int,
        observation: Arrays,
        action: Arrays,
        log_prob: Array,
        value: Array,
        *,
        mask: Arrays = EMPTY,
        alive: Array | None = None,
        earns: Array | bool | None = None,
        state: Arrays = EMPTY,
        reset: Array | None = None,
        columns: Columns = None,
    ) -> None:
        """Begin one decision in each of `columns` (all, if None); arrays start with the columns' axis.

        `earns` says whose return runs through the decision; not given: that of the units that are alive.

        A recurrent level gives with every decision the `state` it was taken from and `reset`: whether the state was
        zeroed just before because an episode starts. Per-unit arrays may be (B,), when all units share the number, or
        (B, U).
        """
        at = self._all if columns is None else columns
        self._check_open(version, at, bool(state), reset)
        slot, where = self._where(columns, self._opened)
        living: Array | bool = True if alive is None else alive
        per_unit = {"log_prob": log_prob, "value": value, "alive": living, "earns": living if earns is None else earns}
        for name, number in per_unit.items():
            self._unit[name][where] = self._per_unit(number, name, len(at))
        if reset is not None:
            self._reset[where] = reset
        for tree, content in (("observation", observation), ("action", action), ("mask", mask)):
            self._write(tree, content, where, self.slots)
        self._write_state(state, slot, at)
        self.version = version
        self._opened[at] += 1
        self._is_open[at] = True

    def earn(self, reward: Array, span: int | Array = 1, columns: Columns = None) -> None:
        """Add what the open decisions of `columns` earned in the last `span` environment steps."""
        at = self._all if columns is None else columns
        self._check_running(at)
        _, where = self._where(columns, self._opened - 1)
        self._unit["reward"][where] += self._per_unit(reward, "reward", len(at))
        self._span[where] += span

    def close(
        self,
        terminated: Array | bool,
        done: Array | bool,
        next_value: Array | None = None,
        *,
        extra: Arrays = EMPTY,
        columns: Columns = None,
    ) -> None:
        """End the open decisions of `columns`.

        `next_value` is the critic's output at the state that followed. It is needed where the chain stops without
        termination (a time limit, or a column's last decision; for the latter see `take`); elsewhere the value of the
        column's next decision is taken when it is None or NaN.
        """
        at = self._all if columns is None else columns
        self._check_running(at)
        _, where = self._where(columns, self._opened - 1)
        self._unit["terminated"][where] = self._per_unit(terminated, "terminated", len(at))
        self._unit["done"][where] = self._per_unit(done, "done", len(at))
        if next_value is not None:
            self._unit["next_value"][where] = self._per_unit(next_value, "next_value", len(at))
        self._write("extra", extra, where, self.slots)
        self._is_open[at] = False

    def store(
        self,
        version: int,
        observation: Arrays,
        action: Arrays,
        log_prob: Array,
        value: Array,
        reward: Array,
        terminated: Array | bool,
        done: Array | bool,
        next_value: Array | None = None,
        *,
        mask: Arrays = EMPTY,
        alive: Array | None = None,
        earns: Array | bool | None = None,
        state: Arrays = EMPTY,
        reset: Array | None = None,
        extra: Arrays = EMPTY,
    ) -> None:
        """One whole decision of one step in every column: open, earn, close."""
        self.open(
            version, observation, action, log_prob, value, mask=mask, alive=alive, earns=earns, state=state, reset=reset
        )
        self.earn(reward)
        self.close(terminated, done, next_value, extra=extra)

    def forget(self, columns: Array) -> None:
        """Let nothing be learnt from the running episodes of `columns`: a world broke and its numbers mean nothing.

        Their decisions since the last one that was done in all units no longer act; the slots stay used.
        """
        self._check_closed(columns)
        for column in columns.tolist():
            count = int(self._opened[column])
            ends = np.flatnonzero(self._unit["done"][: max(count - 1, 0), column].all(-1))
            begin = int(ends[-1]) + 1 if len(ends) else 0
            self._unit["alive"][begin:count, column] = False
            self._unit["earns"][begin:count, column] = False

    def take(self, last_value: Array | None = None) -> RolloutBatch:
        """The round as a batch; the builder is empty afterwards and shares no memory with it.

        `last_value` (B,) or (B, U) is the critic's output at each column's current state: the bootstrap of its
        last decision where that was neither terminated nor given a `next_value` of its own.
        """
        if self.version is None:
            raise ValueError("nothing was stored; a batch needs at least one decision")
        self._check_closed(self._all)
        valid = np.arange(self.slots)[:, None] < self._opened[None, :]  # (T, B)
        self._fill_next_value(valid, last_value)
        content: dict[str, Any] = {
            **self._unit,
            **self._trees,
            "span": self._span,
            "valid": valid,
            "reset": self._reset,
        }
        batch = RolloutBatch(version=self.version, chunk=self.chunk, **content)
        self._clear()
        return batch

    def _fill_next_value(self, valid: Array, last_value: Array | None) -> None:
        """next_value[t] = value[t + 1] where the same unit continues; the last decision takes `last_value`."""
        unit = self._unit
        given, earning = unit["next_value"], unit["earns"] & valid[:, :, None]
        follows = np.zeros_like(earning)
        follows[:-1] = earning[1:] & ~unit["done"][:-1]
        candidate = np.full_like(given, np.nan)
        candidate[:-1] = unit["value"][1:]
        candidate[~follows] = np.nan
        if last_value is not None:
            used = np.flatnonzero(self._opened)
            last = self._opened[used] - 1
            ends = self._per_unit(last_value, "last_value", self.columns)[used]
            candidate[last, used] = np.where(unit["done"][last, used], np.nan, ends)
        filled = np.where(np.isnan(given), candidate, given)
        unwanted = unit["terminated"] | ~earning
        missing = np.isnan(filled) & ~unwanted
        if missing.any():
            slot, column, u = (int(i) for i in np.argwhere(missing)[0])
            raise ValueError(
                f"slot {slot}, column {column}, unit {u} (and {int(missing.sum()) - 1} more) stops without "
                "termination and without a next_value; give close() the critic's value of the true final state, or "
                "take() a last_value"
            )
        unit["next_value"] = np.where(unwanted, np.float32(0.0), filled)

    def _check_open(self, version: int, at: Array, stateful: bool, reset: Array | None) -> None:
        if self.version is not None and version != self.version:
            raise VersionError(
                f"a round has one policy version: it began with {self.version}, this decision is of {version}"
            )
        self._check_closed(at)
        if (self._opened[at] >= self.slots).any():
            over = at[self._opened[at] >= self.slots].tolist()
            raise IndexError(
                f"columns {over} already hold {self.slots} decisions; take() the batch before storing more"
            )
        if self._stateful is not None and stateful != self._stateful:
            raise ValueError("either every decision of a round comes with a recurrent state, or none does")
        if stateful and reset is None:
            raise ValueError("a recurrent level must say with each decision whether its state was reset; give reset=")
        self._stateful = stateful

    def _check_closed(self, at: Array) -> None:
        if self._is_open[at].any():
            raise ValueError(f"columns {at[self._is_open[at]].tolist()} have an open decision; close it first")

    def _check_running(self, at: Array) -> None:
        if not self._is_open[at].all():
            raise ValueError(f"columns {at[~self._is_open[at]].tolist()} have no open decision; open one first")

    def _where(self, columns: Columns, slot: Array) -> tuple[Array, Any]:
        """The slot of each column, and an index that writes there; a plain row if all columns are abreast."""
        if columns is None:
            return slot, int(slot[0]) if (slot == slot[0]).all() else (slot, self._all)
        return slot[columns], (slot[columns], columns)

    def _per_unit(self, number: Array | bool, name: str, columns: int) -> Array:
        """The number as something that numpy spreads over (columns, units)."""
        array = np.asarray(number)
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim and (array.ndim != 2 or array.shape[0] != columns or array.shape[1] not in (1, self.units)):
            raise ValueError(
                f"{name} {np.shape(number)} must be ({columns},) or ({columns}, {self.units}): columns, units"
            )
        return array

    def _write(self, tree: str, content: Arrays, where: Any, rows: int) -> None:
        store = self._trees[tree]
        if content.keys() != store.keys():
            if tree in self._named:
                raise ValueError(f"{tree} has the names {sorted(content)}, earlier decisions had {sorted(store)}")
            self._allocate(store, content, rows)
        self._named.add(tree)
        for name, array in content.items():
            if array.shape[1:] != store[name].shape[2:]:
                raise ValueError(f"{tree}[{name!r}] {array.shape} must be (columns, {store[name].shape[2:]})")
            store[name][where] = array

    def _write_state(self, state: Arrays, slot: Array, at: Array) -> None:
        starts = slot % self.chunk == 0
        if not state or not starts.any():
            return
        piece = {name: array[starts] for name, array in state.items()}
        self._write("state", piece, (slot[starts] // self.chunk, at[starts]), -(-self.slots // self.chunk))

    def _allocate(self, store: dict[str, Array], content: Mapping[str, Array], rows: int) -> None:
        for name, array in content.items():
            kind = np.dtype(np.float32) if array.dtype.kind == "f" else array.dtype
            store[name] = np.zeros((rows, self.columns, *array.shape[1:]), kind)
