"""Atomic files: written under a temporary name, synced, then renamed; and a lock for files with one writer.

After `kill -9` or a power cut the old file or the new one exists, never half of one.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

TEMPORARY = ".tmp-"
"""Files with this prefix are unfinished; one found after a crash may be deleted."""


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the file at `path` by one with `data`."""
    target = Path(path)
    temporary = target.with_name(f"{TEMPORARY}{target.name}-{secrets.token_hex(4)}")
    try:
        write_synced(temporary, data)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    sync_directory(target.parent)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Replace the file at `path` by `value` as JSON. NaN and infinity are refused: JSON has none."""
    write_atomic(path, to_json(value, str(path)))


def to_json(value: Any, name: str) -> bytes:
    """`value` as JSON text; `name` is for the error."""
    try:
        return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: the value cannot be written as JSON: {error}") from error


def read_json(path: str | os.PathLike[str]) -> Any:
    """The value in a JSON file; an error names the file."""
    data = Path(path).read_bytes()
    try:
        return json.loads(data)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not complete JSON ({error}); it was damaged or truncated") from error


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk. Not atomic: for files inside an unfinished directory."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    if sys.platform == "win32":
        return  # where a directory cannot be opened
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LockedError(RuntimeError):
    """Another process holds the lock."""

    def __init__(self, path: Path, pid: str) -> None:
        super().__init__(f"{path} is locked by another process (pid {pid})")
        self.pid = pid


@contextlib.contextmanager
def locked(path: Path, *, waiting: str | None) -> Iterator[None]:
    """Hold the lock file `path`; it is released when its process ends, also by a crash.

    If another process holds it: log `waiting` and wait, or raise `LockedError` if `waiting` is None.
    """
    from filelock import FileLock, Timeout  # here: it imports asyncio

    lock = FileLock(path)
    holder = path.with_name(f"{path.name}.pid")  # a second file: on Windows a locked file cannot be read
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        if waiting is None:
            raise LockedError(path, holder.read_text() if holder.exists() else "unknown") from error
        log.info(waiting)
        lock.acquire()
    try:
        holder.write_text(str(os.getpid()))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a table atomically: readers see the old file or the new one."""
    columns = sorted({name for row in rows for name in row})
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(path, text.getvalue().encode())
