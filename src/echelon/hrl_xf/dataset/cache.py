"""Logs are parsed once. Afterwards a data set is a list of rows in shards that are already there.

    <cache>/<version>/shard-*.safetensors   tables of some logs; each says itself which logs it holds
    <cache>/<version>/index.json            what is known of every log: fingerprint, agent, shard, or why it is left out
    <cache>/<version>/.lock                 held while shards are added

A shard is written atomically and never changed: readers need no lock, a killed build continues with what is
missing, and a second builder waits for the first and finds its shards. A log whose size or time has changed is parsed
again. The version is that of the features and of this format, with the horizon: another one is another folder.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec

from echelon.hrl_xf.dataset.builder import build_tables
from echelon.hrl_xf.dataset.shards import ShardError, join, read_metadata, row_counts, write_shard
from echelon.hrl_xf.dataset.table_schema import Tables
from echelon.hrl_xf.recording.log_columns import LogColumns, check_complete, columns_of
from echelon.hrl_xf.recording.log_files import UNREADABLE, BadLog, LogFile, agent_type_of, read_log
from echelon.hrl_xf.state.day_batch import FEATURE_VERSION
from echelon.hrl_xf.state.schema import LogError
from echelon.runtime.execution.executors import cores
from echelon.runtime.execution.tasks import Task, run_tasks
from echelon.runtime.files import TEMPORARY, locked, write_atomic
from echelon.runtime.progress import WorkProgress

log = logging.getLogger(__name__)

CACHE_VERSION = 2
"""Raise it with any change of the tables."""
SHARD_LOGS = 64
WORTH_A_WORKER = 50
"""Logs that take about as long to parse as a worker to start."""
_TOGETHER = 8
"""Logs whose columns are computed at once: many small arrays are slow, very large ones too."""
INDEX = "index.json"


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one log."""

    file: LogFile
    agent_type: str = ""
    error: str = ""
    """why it is left out"""
    shard: str = ""
    """empty: not parsed yet"""
    row: int = 0
    digest: str = ""
    """of the content: identifies the data, in any folder"""
    agent_id: str = ""
    world_id: str = ""
    config_id: str = ""
    days: tuple[int, int] = (0, 0)
    """first row in the shard, and how many"""
    threads: tuple[int, int] = (0, 0)
    decisions: tuple[int, int] = (0, 0)
    sets: tuple[int, int] = (0, 0)


class Index(msgspec.Struct, frozen=True, kw_only=True):
    format_version: int = CACHE_VERSION
    feature_version: int
    horizon: int
    records: list[LogRecord] = []


class LogCache:
    """The shards of one data folder."""

    def __init__(self, data_dir: Path, cache_dir: Path | None = None, horizon: int = 40) -> None:
        self.data_dir, self.horizon = data_dir, horizon
        version = f"features{FEATURE_VERSION}-tables{CACHE_VERSION}-horizon{horizon}"
        self.folder = (cache_dir or data_dir / ".hrl_cache") / version

    def index(self) -> dict[str, LogRecord]:
        """Records by path: those of index.json, and of shards that a killed build had finished."""
        path = self.folder / INDEX
        records: list[LogRecord] = []
        if path.exists():
            try:
                saved = msgspec.json.decode(path.read_bytes(), type=Index)
                same = (saved.format_version, saved.feature_version) == (CACHE_VERSION, FEATURE_VERSION)
                records = saved.records if same and saved.horizon == self.horizon else []
            except msgspec.DecodeError as error:
                log.warning("%s is damaged (%s); it is rebuilt from the shards", path, error)
        there = {p.name for p in self.folder.glob("shard-*.safetensors")}
        known = {record.shard for record in records}
        found = {r.file.path: r for r in records if not r.shard or r.shard in there}
        for name in sorted(there - known):
            for record in _records_of(self.folder / name):
                if record.file.path not in found or not found[record.file.path].shard:
                    found[record.file.path] = record
        return found

    def identify(self, files: Sequence[LogFile]) -> dict[str, LogRecord]:
        """Whose log each file is; only files that are new or changed are opened."""
        known = self.index()
        records = {}
        for file in files:
            record = known.get(file.path)
            if record is None or record.file != file:
                try:
                    record = LogRecord(file=file, agent_type=agent_type_of(self.data_dir, file.path))
                except BadLog as error:
                    record = LogRecord(file=file, error=error.reason)
            records[file.path] = record
        return records

    def update(
        self, files: Sequence[LogFile], wanted: Sequence[str], num_workers: int | None, *, strict: bool, quiet: bool
    ) -> dict[str, LogRecord]:
        """Parse the wanted logs that are not in a shard yet; returns all records."""
        records = self.identify(files)
        if not _missing(records, wanted) and self._saved(records):
            return records
        with self._building():
            records = self.identify(files)  # another process may have built them in the meantime
            missing = _missing(records, wanted)
            try:
                for parsed in self._parse(missing, num_workers, quiet):
                    records.update({record.file.path: record for record in parsed})
                    bad = [record for record in parsed if record.error]
                    if strict and bad:
                        raise BadLog(str(self.data_dir / bad[0].file.path), bad[0].error)
            finally:
                # logs that are gone too: they may come back; but what could not be read may be readable next time
                known = [r for r in (self.index() | records).values() if not r.error.startswith(UNREADABLE)]
                index = Index(feature_version=FEATURE_VERSION, horizon=self.horizon, records=known)
                write_atomic(self.folder / INDEX, msgspec.json.encode(index))
        return records

    def _saved(self, records: dict[str, LogRecord]) -> bool:
        """Whether the index has all of these: then neither the lock nor a writable cache is needed."""
        if not (self.folder / INDEX).exists():
            return False
        known = self.index()
        return all(known.get(path) == record for path, record in records.items())

    @contextmanager
    def _building(self) -> Iterator[None]:
        waiting = f"another process is building {self.folder}; waiting for it"
        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.folder / ".lock", waiting=waiting))
            except OSError as error:
                raise OSError(
                    f"the cache {self.folder} cannot be written ({error.strerror}); give another cache_dir"
                ) from error
            for unfinished in self.folder.glob(f"{TEMPORARY}*"):
                unfinished.unlink()
            yield

    def _parse(self, missing: list[LogFile], num_workers: int | None, quiet: bool) -> Iterator[list[LogRecord]]:
        workers = max(1, min(cores() if num_workers is None else num_workers, len(missing) // WORTH_A_WORKER))
        size = max(1, min(SHARD_LOGS, -(-len(missing) // (2 * workers))))
        groups = [missing[i : i + size] for i in range(0, len(missing), size)]
        tasks = [
            Task(
                f"logs {group[0].path} to {group[-1].path}", (str(self.data_dir), group, str(self.folder), self.horizon)
            )
            for group in groups
        ]
        by_name = dict(zip((task.name for task in tasks), groups, strict=True))
        spec = "serial" if workers == 1 or len(groups) == 1 else f"loky:{workers}"
        with WorkProgress("logs", len(missing), quiet=quiet) as progress:
            for result in run_tasks(spec, parse_group, tasks):
                if result.value is None:
                    raise RuntimeError(f"{result.name}: {result.status}\n{result.error}")
                for record in result.value:
                    (progress.failed if record.error else progress.done)()
                assert len(result.value) == len(by_name[result.name])
                yield result.value


def _missing(records: dict[str, LogRecord], wanted: Sequence[str]) -> list[LogFile]:
    return [records[path].file for path in wanted if not records[path].shard and not records[path].error]


def _records_of(path: Path) -> list[LogRecord]:
    try:
        return msgspec.json.decode(read_metadata(path)["logs"], type=list[LogRecord])
    except (ShardError, KeyError, msgspec.DecodeError) as error:
        log.warning("%s is not a shard of this version (%s) and is not used", path, error)
        return []


def parse_group(data_dir: str, files: list[LogFile], folder: str, horizon: int) -> list[LogRecord]:
    """In a worker: parse some logs into one shard. Every file comes back as a record, with its error if it has one."""
    records: list[LogRecord] = []
    parts: list[Tables] = []
    partners: dict[str, int] = {}
    at = {"log": 0, "day": 0, "thread": 0, "decision": 0, "set": 0}
    name = f"shard-{secrets.token_hex(8)}.safetensors"
    for begin in range(0, len(files), _TOGETHER):
        for record, tables in _parse_some(Path(data_dir), files[begin : begin + _TOGETHER], partners, horizon):
            if tables is None:
                records += record
                continue
            parts.append(tables)
            placed = _placed(record, tables, name, at)
            records += placed
            counts = row_counts(tables)
            at = {table: at[table] + counts[table] for table in at}
    good = [record for record in records if not record.error]
    if good:
        logs = msgspec.json.encode(good).decode()
        metadata = {"logs": logs, "partners": msgspec.json.encode(list(partners)).decode()}
        write_shard(Path(folder) / name, join(parts), metadata)
    return records


def _placed(records: list[LogRecord], tables: Tables, shard: str, at: dict[str, int]) -> list[LogRecord]:
    """Records with their rows; a log's rows are adjacent in each table."""
    spans: dict[str, list[tuple[int, int]]] = {}
    log_of_thread = tables["day.log"][tables["thread.day"]]
    log_of_decision = log_of_thread[tables["decision.thread"]]
    owner = {
        "day": tables["day.log"],
        "thread": log_of_thread,
        "decision": log_of_decision,
        "set": log_of_decision[tables["member.decision"][tables["set.first_member"]]],
    }
    for table, logs in owner.items():
        edges = logs.searchsorted(range(len(records) + 1)).tolist()
        spans[table] = [(at[table] + a, b - a) for a, b in pairwise(edges)]
    return [
        msgspec.structs.replace(
            record,
            shard=shard,
            row=at["log"] + i,
            days=spans["day"][i],
            threads=spans["thread"][i],
            decisions=spans["decision"][i],
            sets=spans["set"][i],
        )
        for i, record in enumerate(records)
    ]


def _parse_some(
    data_dir: Path, files: list[LogFile], partners: dict[str, int], horizon: int
) -> Iterator[tuple[list[LogRecord], Tables | None]]:
    """Good logs with their tables, bad ones without."""
    good: list[LogRecord] = []
    columns: list[LogColumns] = []
    for file in files:
        try:
            record, parsed = _read(data_dir, file, horizon)
        except LogError as error:
            reason = error.reason if isinstance(error, BadLog) else str(error)
            yield [LogRecord(file=file, error=reason)], None
        else:
            good.append(record)
            columns.append(parsed)
    if not good:
        return
    try:
        together = build_tables(columns, partners, horizon)
    except (ValueError, ArithmeticError, LookupError) as error:
        if len(good) == 1:
            yield [LogRecord(file=good[0].file, error=f"cannot be turned into samples: {error}")], None
            return
        for record in good:  # one of them spoils the others: find it
            yield from _parse_some(data_dir, [record.file], partners, horizon)
    else:
        yield good, together


def _read(data_dir: Path, file: LogFile, horizon: int) -> tuple[LogRecord, LogColumns]:
    decoded, digest = read_log(data_dir, file.path)
    check_complete(decoded)
    record = LogRecord(
        file=file,
        agent_type=decoded.agent_type,
        digest=digest,
        agent_id=decoded.agent_id,
        world_id=decoded.world_id,
        config_id=decoded.config_id,
    )
    return record, columns_of(decoded, horizon)


def records_fingerprint(records: Sequence[LogRecord], horizon: int) -> str:
    """Identifies the data: the same logs, in any folder, with the same features."""
    digests = "".join(sorted(record.digest for record in records))
    text = f"{FEATURE_VERSION} {CACHE_VERSION} {horizon} {digests}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
