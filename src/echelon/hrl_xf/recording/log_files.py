"""Finding tracker logs, knowing whose they are, and reading them.

A log is any `agent_*.json` or `agent_*.json.gz` below a folder: `tracker_logs/` of one collection or of several under
one parent, or the folder itself. Its agent is in its first bytes, so that choosing one agent's logs out of many
thousands reads little.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec

from echelon.hrl_xf.state.schema import AgentLog, LogError, decode_log, encode_log
from echelon.runtime.files import write_atomic

LOGS = "tracker_logs"

HEAD_BYTES = 4096
_NAME = re.compile(r"agent_.*\.json(\.gz)?")
_HEAD_TYPE = re.compile(rb'"agent_type"\s*:\s*("(?:[^"\\]|\\.)*")')
_HEAD_VERSION = re.compile(rb'^\s*\{\s*"format_version"\s*:\s*\d+')
UNREADABLE = "cannot be read"
MAX_LOG_BYTES = 1 << 30
"""Beyond this a log is not one: a damaged .gz could otherwise unpack to any size."""


class BadLog(LogError):
    """A log that was left out: which file, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class LogFile(msgspec.Struct, frozen=True):
    """A file as the folder shows it. The same path, size and time mean the same content."""

    path: str
    """relative to the data folder"""
    size: int
    mtime_ns: int


def find_logs(data_dir: Path) -> list[LogFile]:
    """All logs below a folder, in the order of their paths; links to folders are followed once."""
    if not data_dir.is_dir():
        raise FileNotFoundError(
            f"{data_dir} is not a folder; give the one `echelon hrl collect` wrote, or a parent of it"
        )
    return sorted(_walk(str(data_dir), "", set()), key=lambda f: f.path)


def _walk(folder: str, prefix: str, seen: set[tuple[int, int]]) -> Iterator[LogFile]:
    here = os.stat(folder)
    if (here.st_dev, here.st_ino) in seen:
        return
    seen.add((here.st_dev, here.st_ino))
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from _walk(entry.path, f"{prefix}{entry.name}/", seen)
            elif _NAME.fullmatch(entry.name):
                stat = entry.stat()
                yield LogFile(prefix + entry.name, stat.st_size, stat.st_mtime_ns)


def read_bytes(data_dir: Path, path: str) -> bytes:
    """The JSON text of a log; `BadLog` if it cannot be had."""
    try:
        raw = (data_dir / path).read_bytes()
    except OSError as error:
        raise BadLog(path, f"{UNREADABLE}: {error.strerror}") from error
    return _unpacked(path, raw, MAX_LOG_BYTES) if path.endswith(".gz") else raw


def _unpacked(path: str, raw: bytes, limit: int, *, whole: bool = True) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(raw, limit)
    except zlib.error as error:
        raise BadLog(path, f"damaged .gz: {error}") from error
    if whole and not unpacker.eof:
        cause = f"unpacks to more than {limit} bytes" if unpacker.unconsumed_tail else "cut short"
        raise BadLog(path, f"damaged .gz: {cause} after {len(text)} bytes of text")
    if whole and unpacker.unused_data:
        raise BadLog(path, f"damaged .gz: {len(unpacker.unused_data)} bytes after its end")
    return text


def read_log(data_dir: Path, path: str) -> tuple[AgentLog, str]:
    """Decode and validate a log; `BadLog` says which file and why. Returns it with a digest of its text."""
    raw = read_bytes(data_dir, path)
    try:
        return decode_log(raw), blake2b(raw, digest_size=16).hexdigest()
    except LogError as error:
        raise BadLog(path, str(error)) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise BadLog(path, f"not a valid tracker log: {error}") from error


class _Owner(msgspec.Struct):
    agent_type: str


def agent_type_of(data_dir: Path, path: str) -> str:
    """The class of the agent a log is about, from its first bytes; `BadLog` if it does not say."""
    try:
        with (data_dir / path).open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise BadLog(path, f"{UNREADABLE}: {error.strerror}") from error
    if not head:
        raise BadLog(path, "the file is empty")
    if path.endswith(".gz"):
        head = _unpacked(path, head, HEAD_BYTES, whole=False)
    found = _HEAD_TYPE.search(head) if _HEAD_VERSION.match(head) else None
    try:
        if found:
            return msgspec.json.decode(found[1], type=str)
        return msgspec.json.decode(read_bytes(data_dir, path), type=_Owner).agent_type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLog(path, f"not a tracker log, or cut short: {error}") from error


def match_agent(name: str, types: Iterable[str]) -> str:
    """The one class called `name`, or the one whose name begins so. Anything else is an error with the candidates."""
    counts = Counter(types)
    if not counts:
        raise ValueError("no readable tracker log was found; collect some with `echelon hrl collect`")
    if name in counts:
        return name
    matches = sorted(t for t in counts if name and t.startswith(name))
    if len(matches) == 1:
        return matches[0]
    why = f"could be {', '.join(matches)}" if matches else "is none of the recorded agents"
    raise ValueError(f"agent_name={name!r} {why}; recorded are {listing(counts)}")


def match_agents(names: str, types: Iterable[str]) -> list[str]:
    """The classes of a list `A,B,…`, each once, as `match_agent` finds them; "all" are all of them."""
    known = list(types)
    if names.strip() == "all" and known:
        return sorted(set(known))
    return list(dict.fromkeys(match_agent(name.strip(), known) for name in names.split(",")))


def listing(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({n} logs)" for name, n in sorted(counts.items()))


def seat_name(agent_id: str, world_id: str) -> str:
    """An agent of a world as a part of file names."""
    agent = re.sub(r"[^\w.@-]", "-", agent_id)
    return f"{agent}_world_{world_id}"


def write_log(log: AgentLog, folder: Path, compress: bool) -> tuple[str, int]:
    """Write a log; its name and the bytes it takes."""
    raw = encode_log(log)
    name = f"agent_{seat_name(log.agent_id, log.world_id)}.json"
    if compress:
        name, raw = name + ".gz", gzip.compress(raw, compresslevel=6, mtime=0)
    write_atomic(folder / name, raw)
    return name, len(raw)
