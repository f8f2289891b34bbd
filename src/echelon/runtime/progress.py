"""Progress of long work: a bar in a terminal, elsewhere a plain line every 30 seconds."""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PROGRESS = __name__
"""Logger that gets every step of every progress, at level DEBUG; for callers that show progress themselves."""
log = logging.getLogger(PROGRESS)


def minutes(seconds: float) -> str:
    """A duration for people: 40 s, 12 min, 1.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class WorkProgress:
    """`with WorkProgress("worlds", total) as p: p.done(); p.failed()` — counts, rate and time left."""

    def __init__(self, unit: str, total: int, *, quiet: bool = False, every: float = 30.0) -> None:
        self.unit, self.total = unit, total
        self.n_done = self.n_failed = 0
        self._quiet = quiet
        self._console = Console(file=sys.stderr)
        self._every = every
        self._started = self._last_line = time.monotonic()
        self._bar: Progress | None = None
        if self._console.is_terminal and not quiet:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task(unit, total=total, rate="")

    def __enter__(self) -> WorkProgress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    @property
    def per_minute(self) -> float:
        elapsed = time.monotonic() - self._started
        return 60.0 * (self.n_done + self.n_failed) / elapsed if elapsed > 0 else 0.0

    def done(self) -> None:
        self.n_done += 1
        self._show()

    def failed(self) -> None:
        self.n_failed += 1
        self._show()

    def _show(self) -> None:
        finished = self.n_done + self.n_failed
        rate = f"{self.per_minute:.1f} {self.unit}/min" + (f", {self.n_failed} failed" if self.n_failed else "")
        if self._bar:
            self._bar.update(self._task, completed=finished, rate=rate)
            return
        now = time.monotonic()
        left = minutes((self.total - finished) * (now - self._started) / finished)
        line = f"{finished}/{self.total} {self.unit}, {rate}, {left} left"
        log.debug("%s", line)
        if self._quiet or (now - self._last_line < self._every and finished < self.total):
            return
        self._last_line = now
        self._console.print(line, highlight=False)
