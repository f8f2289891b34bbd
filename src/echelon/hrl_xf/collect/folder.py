"""A folder that fills with worlds: one writer at a time, resumable at any moment, and a bad world ends nothing.

What `collect` and `compete` share. config.json says what the folder is and which options decide its worlds; each world
leaves one file when it has ended; those that failed are described under failed/ until they are played after all.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from echelon.runtime.execution.tasks import Task, TaskResult, run_tasks
from echelon.runtime.files import LockedError, locked, write_json
from echelon.runtime.progress import WorkProgress, minutes
from echelon.runtime.rundir import check_options, read_config

log = logging.getLogger(__name__)

PACKAGES = ("echelon", "scml", "negmas", "scml-agents", "numpy")
"""Whose versions decide what is played."""
EXIT_SOME_FAILED = 3
LOG_FILE = "log.txt"
FAILED = "failed"
LOCK = ".lock"
WORLDS = "worlds"


class Result(Protocol):
    """What a world leaves."""

    @property
    def format_version(self) -> int: ...


R = TypeVar("R", bound=Result)


class FolderError(ValueError):
    """The command cannot run as asked; the message is all the user needs."""


@dataclass(frozen=True)
class WorldJob:
    """One world to play."""

    name: str
    """how messages call it: number, seed, who plays"""
    stem: str
    """the name of its file under failed/"""
    args: tuple[Any, ...]
    """of the function that plays it"""
    summary: Mapping[str, Any]
    """what failed/ says about it"""
    result: Path
    """the file that it leaves when it has ended, as the last thing it does"""

    @property
    def ended(self) -> bool:
        return self.result.exists()


@dataclass(frozen=True)
class RunOutcome:
    """How many worlds a run played, which failed, and how long it took."""

    played: int
    failed: list[str]
    seconds: float

    def line(self, existing: int, planned: int, folder: Path) -> str:
        """What exists now, and how fast it went."""
        pace = 60.0 * self.played / self.seconds if self.seconds > 0 else 0.0
        return (
            f"{existing} of {planned} worlds in {folder}; this run played {self.played} in {minutes(self.seconds)} "
            f"({pace:.1f} worlds/min)"
        )

    def log_failures(self, folder: Path) -> None:
        if self.failed:
            log.error("%d worlds failed; they are described in %s", len(self.failed), folder / FAILED)


class RunSettings(Protocol):
    """The options that say how to play, not what."""

    @property
    def parallelism(self) -> str: ...
    @property
    def world_timeout(self) -> float: ...
    @property
    def quiet(self) -> bool: ...
    @property
    def fail_fast(self) -> bool: ...


def contents(folder: Path) -> list[str]:
    """What is in the folder, apart from a log and a lock."""
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"--output-dir {folder} is a file; choose another name")
    return (
        [p.name for p in folder.iterdir() if p.name != LOG_FILE and not p.name.startswith(LOCK)]
        if folder.exists()
        else []
    )


def check_same(folder: Path, kind: str, options: Mapping[str, Any]) -> None:
    """What is continued must be what was begun: the same kind and options."""
    saved = read_config(folder)
    if saved is None or saved.kind != kind:
        found = "no config.json" if saved is None else f"its config.json says: {saved.kind or 'training'}"
        raise FolderError(f"{folder} is not a folder of kind {kind} ({found}); choose another folder")
    check_options(folder, saved.options, options)


def result_files(folder: Path) -> list[Path]:
    """The results of the worlds that have ended, in the order of their numbers."""
    return sorted((folder / WORLDS).glob("[0-9]*.json"))


def read_struct(path: Path, kind: type[R], format_version: int) -> R:
    """A result from its file; an error names it."""
    try:
        result = msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as error:
        raise FolderError(
            f"{path} is not a {kind.__name__} ({error}); delete it, and the same command plays that world again"
        ) from error
    if result.format_version != format_version:
        raise FolderError(f"{path} has format_version {result.format_version}, this Echelon reads {format_version}")
    return result


def play_worlds(
    jobs: Sequence[WorldJob],
    fn: Callable[..., Any],
    folder: Path,
    settings: RunSettings,
    replay: Callable[[WorldJob], str],
) -> RunOutcome:
    """Play every job; one that fails is recorded under failed/ with the command that replays it, and the others
    continue."""
    by_name = {job.name: job for job in jobs}
    tasks = (Task(job.name, job.args) for job in jobs)
    started = time.perf_counter()
    failed: list[str] = []
    played = 0
    with WorkProgress("worlds", len(jobs), quiet=settings.quiet) as progress:
        for result in run_tasks(settings.parallelism, fn, tasks, timeout=settings.world_timeout):
            job = by_name[result.name]
            failure = folder / FAILED / f"{job.stem}.json"
            if result.status == "ok" or job.ended:  # what ends a worker after the file is there, comes too late
                failure.unlink(missing_ok=True)
                played += 1
                progress.done()
                continue
            failure.parent.mkdir(exist_ok=True)
            write_json(failure, _failure(job, result, replay(job)))
            failed.append(f"{job.name}: {result.status}: {last_line(result.error)}")
            log.error("%s (details in %s)", failed[-1], failure)
            progress.failed()
            if settings.fail_fast:
                break
    return RunOutcome(played, failed, time.perf_counter() - started)


def _failure(job: WorldJob, result: TaskResult[Any], replay: str) -> dict[str, Any]:
    ended = {"status": result.status, "error": result.error, "seconds": result.seconds, "replay": replay}
    return dict(job.summary) | ended


def last_line(error: str | None) -> str:
    return (error or "no reason given").strip().splitlines()[-1]


@contextmanager
def exclusive(folder: Path, kind: str) -> Iterator[None]:
    """One writer at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder / LOCK, waiting=None):
            yield
    except LockedError as error:
        raise FolderError(
            f"another {kind} (pid {error.pid}) is writing to {folder}; wait for it or choose another --output-dir"
        ) from error
