"""How far the runs of a bench are, read from their own files, and how long the rest will take."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from echelon.hmasd.bench.plan import PlannedRun
from echelon.runtime.progress import minutes

log = logging.getLogger(__name__)

EVERY = 30.0
"""seconds between two lines"""
TAIL = 8192


def steps_of(folder: Path) -> int:
    """Environment steps a run has done: the highest step in the last lines of its metrics; 0 before the first."""
    file = folder / "metrics.jsonl"
    if not file.is_file():
        return 0
    with open(file, "rb") as source:
        source.seek(0, 2)
        source.seek(max(source.tell() - TAIL, 0))
        whole = source.read().split(b"\n")[:-1]  # the last line may be half written, the first is cut off
    return max((_step(line) for line in whole), default=0)


def _step(line: bytes) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return 0


class BenchProgress:
    """Counts steps of all runs since it was made."""

    def __init__(self, runs: Sequence[PlannedRun]) -> None:
        self._runs = runs
        self._total = sum(run.options.config.total_steps for run in runs)
        self._first, self._started = self.steps(), time.monotonic()
        self.finished = self.failed = 0

    def steps(self) -> int:
        """Steps of all runs so far, at most those that are wanted."""
        return sum(min(steps_of(run.options.directory), run.options.config.total_steps) for run in self._runs)

    def log_line(self) -> None:
        """One line: how much is done, how fast, how long the rest takes."""
        seconds = time.monotonic() - self._started
        log.info("%s", line(self.steps(), self._total, self._first, seconds, self.counts))

    @property
    def counts(self) -> str:
        """Runs that are done."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.finished}/{len(self._runs)} runs{failed}"

    @contextmanager
    def logged(self, every: float = EVERY) -> Iterator[None]:
        """A line now and then while the block runs."""
        over = threading.Event()

        def report() -> None:
            while not over.wait(every):
                self.log_line()

        thread = threading.Thread(target=report, name="bench progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def line(done: int, total: int, first: int, seconds: float, counts: str) -> str:
    """`4/20 runs, 31.0 % of 30,000,000 steps, 5,100 steps/s, 68 min left`; the rate is that of this process's time."""
    share = f"{counts}, {100 * done / max(total, 1):.1f} % of {total:,} steps"
    rate = (done - first) / seconds if seconds > 0 else 0.0
    return f"{share}, {rate:,.0f} steps/s, {minutes((total - done) / rate)} left" if rate > 0 else share
