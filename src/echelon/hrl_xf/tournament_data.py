"""The chosen logs of a data folder: their shards as one store, and the goals that L3 and L4 see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.dataset_cache import LogRecord, fingerprint
from echelon.hrl_xf.day_batch import Ints
from echelon.hrl_xf.goals import GOAL_SIZE
from echelon.hrl_xf.sample_tables import SampleTables
from echelon.hrl_xf.shards import IN_MEMORY, Store, map_shard, ranges, read_metadata


class TournamentData:
    """Logs, and where their rows lie. Data sets of one `TournamentData` share its tables."""

    def __init__(
        self,
        folder: Path,
        records: Sequence[LogRecord],
        horizon: int,
        left_out: Sequence[LogRecord] = (),
        in_memory: int = IN_MEMORY,
    ) -> None:
        if not records:
            raise ValueError("no log is left to make samples of")
        self.folder, self.records, self.left_out, self.horizon = folder, list(records), list(left_out), horizon
        self.shards = list(dict.fromkeys(record.shard for record in records))
        store = Store((map_shard(folder / name) for name in self.shards), in_memory)
        self.tables = SampleTables(store, horizon)
        self.goals: NDArray[np.float32] | None = None  # (days of the store, 16); None: all zeros
        self.goal_source = "none"
        number = {name: i for i, name in enumerate(self.shards)}
        self._shard_of = np.array([number[record.shard] for record in records])
        self._log_rows = np.array([store.first_row("log", number[r.shard]) + r.row for r in records])
        self._by_row = np.full(store.rows("log"), -1)
        self._by_row[self._log_rows] = np.arange(len(records))

    @property
    def fingerprint(self) -> str:
        """Names the data for whoever trains on them."""
        return fingerprint(self.records, self.horizon)

    def rows(self, table: str) -> Ints:
        """All rows of the chosen logs in `day`, `thread`, `decision` or `set`, log by log."""
        spans = np.array([getattr(record, f"{table}s") for record in self.records], np.int64).reshape(-1, 2)
        base = np.array([self.tables.store.first_row(table, shard) for shard in self._shard_of.tolist()], np.int64)
        return ranges(spans[:, 0] + base, spans[:, 1])

    def log_of_day(self, days: Ints) -> Ints:
        """Index into `records` of each day's log.  # (N,)"""
        found: Ints = self._by_row[self.tables.store.take("day.log", days)]
        return found

    def goal_of_day(self, days: Ints) -> NDArray[np.float32]:
        """The goals that condition L3 and L4.  # (N, 16)"""
        return np.zeros((len(days), GOAL_SIZE), np.float32) if self.goals is None else self.goals[days]

    def negotiation_id(self, thread: int) -> str:
        """World, day, agent and partner of a thread."""
        row = np.array([thread])
        take = self.tables.store.take
        day = take("thread.day", row)
        record = self.records[int(self.log_of_day(day)[0])]
        names = msgspec.json.decode(read_metadata(self.folder / record.shard)["partners"], type=list[str])
        partner = names[int(take("thread.partner", row)[0])]
        return f"{record.world_id}/{int(take('day.current_step', day)[0]):03d}/{record.agent_id}/{partner}"
