"""The chosen logs of a data folder: their shards as one store, their rows as typed tables, and L3's goals.

Days come back as a `DayBatch` equal bit for bit to the one of the log, so features are computed here by the very
function the agent uses in play.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console

from echelon.hrl_xf.dataset.cache import LogCache, LogRecord, records_fingerprint
from echelon.hrl_xf.dataset.shards import IN_MEMORY, Store, map_shard, ranges, read_metadata
from echelon.hrl_xf.dataset.table_schema import OF_DAY, OF_LOG
from echelon.hrl_xf.dataset.thread_tables import unpack_answer
from echelon.hrl_xf.recording.log_files import BadLog, find_logs, match_agents
from echelon.hrl_xf.state.day_batch import DayBatch, Offers, negotiates_input, negotiates_output
from echelon.hrl_xf.state.day_state import REJECT
from echelon.hrl_xf.state.features import DayFeatures, StateBuilder
from echelon.hrl_xf.state.goals import GOAL_SIZE
from echelon.hrl_xf.state.l1_safety import BUY_AT, SELL_AT
from echelon.hrl_xf.state.threads import tokens_of
from echelon.runtime.arrays import Bools, Float32, Floats, Ints

log = logging.getLogger(__name__)
PathLike = str | Path


@dataclass(frozen=True)
class Threads:
    """Negotiations as padded sequences of offers."""

    tokens: Float32  # (B, L, 4) quantity, price as ratio of the issue's range, days ahead, 1 if mine
    mask: Bools  # (B, L) True where there is a token
    offers: Ints  # (B, L, 3) the same offers in whole numbers: quantity, days ahead, unit price


@dataclass(frozen=True)
class Decisions:
    """N stored decisions: the moment as L1 sees it, and what was answered."""

    thread: Ints  # (N,) row of the thread
    day: Ints  # (N,) row of the day
    seller: Bools  # (N,)
    history: Ints  # (N,) how many of the thread's tokens came before
    round: Ints  # (N,)
    relative_time: Float32  # (N,)
    issues: Ints  # (N, 6) bounds of quantity, days ahead, price
    spot: Floats  # (N, 2) prices in and out
    signed: Floats  # (N, 4, 2) pieces signed since dawn by bucket [bought, sold]
    B_free: Floats  # (N,)
    safe: Floats  # (N, H+1) safe quantity of the side
    open: Bools  # (N, H+1) days that L1 allows
    baseline: Floats  # (N, 3) quantity, days ahead, unit price
    legal_baseline: Ints  # (N, 3) the same as a legal offer; quantity 0 where there is none
    others: Ints  # (N, 3) other threads of the call on this side with an offer, their quantity, rank by price
    op: Ints  # (N,) ACCEPT, REJECT, END
    l1_op: Ints  # (N,) L1's own answer
    sent: Bools  # (N,)
    on_table: Bools  # (N,)
    asked: Ints  # (N,) index into `log_columns.ASKED`
    call: Ints  # (N,)
    l1_rules: Ints  # (N,) bits of `thread_tables`
    offer: Ints  # (N, 3) what a REJECT proposed: quantity, days ahead, unit price; else zeros
    both_sides: Bools  # (N,) whether the agent buys and sells

    @property
    def residual(self) -> Ints:
        """The offer less the legal baseline; zeros unless REJECT.  # (N, 3)"""
        return np.where((self.op == REJECT)[:, None], self.offer - self.legal_baseline, 0)


class SampleTables:
    """A store of shards, read as samples."""

    def __init__(self, store: Store, horizon: int) -> None:
        self.store, self.horizon = store, horizon
        self._builder = StateBuilder(horizon)

    def days(self, rows: Ints, *, offers: bool = True) -> DayBatch:
        """Days as they stood in their logs; without yesterday's offers if no features are needed."""
        take, n, H = self.store.take, len(rows), self.horizon
        log = take("day.log", rows)
        columns: dict[str, Any] = {name: take(f"log.{name}", log).astype(np.float64) for name in OF_LOG}
        columns |= {name: take(f"day.{name}", rows).astype(np.float64) for name in OF_DAY}
        count = take("day.n_commitments", rows)
        entry = ranges(take("day.first_commitment", rows), count)
        at = (take("commitment.seller", entry), np.repeat(np.arange(n), count), take("commitment.ahead", entry))
        quantity, money = np.zeros((2, n, H + 1)), np.zeros((2, n, H + 1))
        quantity[at], money[at] = take("commitment.quantity", entry), take("commitment.money", entry)
        columns |= {side: take(f"day.{side}", rows) for side in ("buy_issues", "sell_issues")}
        seen = take("day.n_offers", rows) if offers else np.zeros(n, np.int64)
        entry = ranges(take("day.first_offer", rows), seen)
        heard = Offers(
            np.repeat(np.arange(n), seen), take("offer.seller", entry) == 1,
            *(take(f"offer.{name}", entry) for name in ("ahead", "quantity", "price", "age")),
        )  # fmt: skip
        return DayBatch(
            **columns, Q_in=quantity[0], Q_out=quantity[1], Payables=money[0], Receivables=money[1], offers=heard
        )

    def build(self, days: DayBatch) -> DayFeatures:
        return self._builder.build(days)

    def threads(self, rows: Ints) -> Threads:
        """Tokens of threads, padded behind to the longest of them."""
        take = self.store.take
        count = take("thread.n_tokens", rows)
        entry = ranges(take("thread.first_token", rows), count)
        L = max(1, int(count.max(initial=0)))
        mask = np.arange(L) < count[:, None]
        offer = np.stack([take(f"token.{name}", entry) for name in ("quantity", "ahead", "price")], axis=-1)
        low, high = np.repeat(self._issues(rows)[:, 4:], count, axis=0).T
        tokens = np.zeros((len(rows), L, 4), np.float32)
        tokens[mask] = tokens_of(offer, take("token.mine", entry) == 1, low, high)
        offers = np.zeros((len(rows), L, 3), np.int64)
        offers[mask] = offer
        return Threads(tokens, mask, offers)

    def _issues(self, threads: Ints) -> Ints:
        """Issue bounds of threads, in days ahead.  # (B, 6)"""
        take = self.store.take
        day, seller = take("thread.day", threads), take("thread.seller", threads)[:, None] == 1
        return np.where(seller, take("day.sell_issues", day), take("day.buy_issues", day))

    def decisions(self, rows: Ints) -> Decisions:
        take, n = self.store.take, np.arange(len(rows))
        thread = take("decision.thread", rows)
        day, seller = take("thread.day", thread), take("thread.seller", thread)
        ledger = take("day.first_ledger", day) + take("decision.deals_before", rows)
        spot = np.stack([take("day.spot_price_in", day), take("day.spot_price_out", day)], axis=-1)
        issues = self._issues(thread)
        price = np.where(seller == 1, SELL_AT * spot[:, 1], BUY_AT * spot[:, 0])
        quantity, ahead = take("ledger.baseline_quantity", ledger)[n, seller], take("ledger.baseline_ahead", ledger)
        op, l1_op, sent, on_table, asked = unpack_answer(take("decision.answer", rows))
        safe, is_open = self._limits(ledger, day, seller == 1, issues)
        return Decisions(
            thread=thread,
            day=day,
            seller=seller == 1,
            history=take("decision.history", rows),
            round=take("decision.round", rows),
            relative_time=take("time.relative", take("decision.time", rows)),
            issues=issues,
            spot=spot,
            signed=take("ledger.signed", ledger).reshape(-1, 4, 2) / 4.0,
            B_free=take("ledger.B_free", ledger),
            safe=safe,
            open=is_open,
            baseline=np.stack([quantity.astype(np.float64), ahead[n, seller].astype(np.float64), price], axis=-1),
            legal_baseline=take("ledger.plain", ledger).reshape(-1, 2, 3)[n, seller],
            others=take("decision.others", rows),
            op=op,
            l1_op=l1_op,
            sent=sent,
            on_table=on_table,
            asked=asked,
            call=take("decision.call", rows),
            l1_rules=take("decision.l1_rules", rows),
            offer=np.stack([take(f"decision.{c}", rows) for c in ("quantity", "ahead", "price")], axis=-1),
            both_sides=self._both_sides(take("day.log", day)),
        )

    def _both_sides(self, log: Ints) -> Bools:
        take = self.store.take
        sells = negotiates_output(take("log.my_output_product", log), take("log.n_products", log))
        return sells & negotiates_input(take("log.my_input_product", log))

    def _limits(self, ledger: Ints, day: Ints, seller: Bools, issues: Ints) -> tuple[Floats, Bools]:
        """Safe quantity of the side and the days L1 allows; beyond the game's horizon nothing is. (N, H+1) each"""
        take = self.store.take
        stored = np.where(seller[:, None], take("ledger.Q_safe_sell", ledger), take("ledger.Q_safe", ledger))
        safe = np.zeros((len(ledger), self.horizon + 1))
        safe[:, : stored.shape[1]] = stored
        log = take("day.log", day)
        to_go = take("log.n_steps", log) - 1 - take("day.current_step", day)
        last = np.minimum(take("log.horizon", log), to_go)
        reachable = np.arange(self.horizon + 1) <= last[:, None]
        return safe, (safe >= 1) & reachable & (issues[:, 1:2] > 0)


@dataclass(frozen=True)
class Goals:
    """What conditions L3 and L4: a goal for each day, and where they come from."""

    source: str = "none"
    values: Float32 | None = None  # (days of the store, 16); None: all zeros


@dataclass(frozen=True)
class TournamentData:
    """Logs, and the positions of their rows. Data sets of one `TournamentData` share its tables."""

    folder: Path
    """of the shards"""
    records: tuple[LogRecord, ...]
    horizon: int
    tables: SampleTables
    left_out: tuple[LogRecord, ...] = ()
    goals: Goals = Goals()

    @classmethod
    def open(
        cls,
        folder: Path,
        records: Sequence[LogRecord],
        horizon: int,
        left_out: Sequence[LogRecord] = (),
        in_memory: int = IN_MEMORY,
    ) -> TournamentData:
        if not records:
            raise ValueError("no log is left to make samples of")
        store = Store((map_shard(folder / name) for name in _shards(records)), in_memory)
        return cls(folder, tuple(records), horizon, SampleTables(store, horizon), tuple(left_out))

    def with_goals(self, goals: Goals) -> TournamentData:
        """The same logs with other goals; the tables are shared."""
        return replace(self, goals=goals)

    @cached_property
    def shards(self) -> list[str]:
        return _shards(self.records)

    @cached_property
    def _shard_of(self) -> Ints:
        number = {name: i for i, name in enumerate(self.shards)}
        return np.array([number[record.shard] for record in self.records])

    @cached_property
    def _by_row(self) -> Ints:
        """Index into `records` of each log of the store; −1 where it is not among them."""
        store = self.tables.store
        shards = self._shard_of.tolist()
        rows = [store.first_row("log", shard) + r.row for shard, r in zip(shards, self.records, strict=True)]
        found = np.full(store.rows("log"), -1)
        found[rows] = np.arange(len(rows))
        return found

    @property
    def fingerprint(self) -> str:
        """Identifies the data for a training."""
        return records_fingerprint(self.records, self.horizon)

    def rows(self, table: str) -> Ints:
        """All rows of the chosen logs in `day`, `thread`, `decision` or `set`, log by log."""
        spans = np.array([getattr(record, f"{table}s") for record in self.records], np.int64).reshape(-1, 2)
        base = np.array([self.tables.store.first_row(table, shard) for shard in self._shard_of.tolist()], np.int64)
        return ranges(spans[:, 0] + base, spans[:, 1])

    def log_of_day(self, days: Ints) -> Ints:
        """Index into `records` of each day's log.  # (N,)"""
        found: Ints = self._by_row[self.tables.store.take("day.log", days)]
        return found

    def goal_of_day(self, days: Ints) -> Float32:
        """The goals that condition L3 and L4.  # (N, 16)"""
        values = self.goals.values
        return np.zeros((len(days), GOAL_SIZE), np.float32) if values is None else values[days]

    def negotiation_id(self, thread: int) -> str:
        """World, day, agent and partner of a thread."""
        row = np.array([thread])
        take = self.tables.store.take
        day = take("thread.day", row)
        record = self.records[int(self.log_of_day(day)[0])]
        names = msgspec.json.decode(read_metadata(self.folder / record.shard)["partners"], type=list[str])
        partner = names[int(take("thread.partner", row)[0])]
        return f"{record.world_id}/{int(take('day.current_step', day)[0]):03d}/{record.agent_id}/{partner}"


def _shards(records: Sequence[LogRecord]) -> list[str]:
    return list(dict.fromkeys(record.shard for record in records))


def open_tournament(
    data_dir: PathLike,
    agent_name: str = "PenguinAgent",
    num_workers: int | None = None,
    *,
    cache_dir: PathLike | None = None,
    horizon: int = 40,
    strict: bool = False,
    quiet: bool = False,
    in_memory: int = IN_MEMORY,
) -> TournamentData:
    """Find the logs, choose the agent's, parse what is new, and open the rest."""
    folder = Path(data_dir)
    cache = LogCache(folder, None if cache_dir is None else Path(cache_dir), horizon)
    files = find_logs(folder)
    if not files:
        raise ValueError(f"{folder} contains no tracker log (agent_*.json or agent_*.json.gz), nor do its folders")
    records = cache.identify(files)
    _report(folder, [record for record in records.values() if record.error], strict)
    agents = match_agents(agent_name, (record.agent_type for record in records.values() if record.agent_type))
    agent = ", ".join(agents)
    wanted = [path for path, record in records.items() if record.agent_type in agents]
    folders = len({str(Path(path).parent) for path in records})
    say(f"{len(files)} logs in {folders} folders; agent {agent_name!r} is {agent}: {len(wanted)} logs", quiet)
    before = {path for path, record in records.items() if record.error}
    records = cache.update(files, wanted, num_workers, strict=strict, quiet=quiet)
    _report(folder, [record for path, record in records.items() if record.error and path not in before], strict)
    good = [records[path] for path in wanted if not records[path].error]
    bad = [record for record in records.values() if record.error]
    if not good:
        raise ValueError(f"none of the {len(wanted)} logs of {agent} in {folder} can be used; see the messages above")
    return TournamentData.open(cache.folder, good, horizon, bad, in_memory)


def say(text: str, quiet: bool) -> None:
    """To the log; in a script that has set up none, to the terminal: whose data these are must not go unseen."""
    log.info("%s", text)
    if not quiet and not log.isEnabledFor(logging.INFO):
        Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


def _report(folder: Path, bad: Sequence[LogRecord], strict: bool) -> None:
    for record in bad:
        error = BadLog(str(folder / record.file.path), record.error)
        if strict:
            raise error
        log.warning("left out: %s", error)
