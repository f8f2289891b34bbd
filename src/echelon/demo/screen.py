"""The demo's console: one line per step; everything the steps log goes to a file."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.status import Status
from rich.text import Text

from echelon.runtime.progress import PROGRESS, minutes

WIDTH = 62
"""Characters of a step's line before its duration."""


class Screen:
    """Writes to standard output. In a terminal, the line of a running step shows the last message of the step."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, highlight=False)

    def say(self, line: str = "") -> None:
        self._console.print(line, markup=False, soft_wrap=True)

    @contextmanager
    def step(self, head: str) -> Iterator[list[str]]:
        """One line; the caller appends the result to the list, and the line ends with it and with the duration."""
        started, result = time.monotonic(), list[str]()
        if self._console.is_terminal:
            with self._console.status(head) as status, _shown(status, head, self._console.width):
                yield result
            self._console.print(head, end=" ", markup=False)
        else:
            self._console.print(head, end=" ", markup=False)
            self._console.file.flush()  # so that a reader of the pipe sees which step is running
            try:
                yield result
            except BaseException:
                self.say()  # what is written next begins a line
                raise
        took = minutes(time.monotonic() - started)
        self.say(f"{'; '.join(result):<{WIDTH - len(head)}} {took:>6}")

    def table(self, rows: Sequence[tuple[str, ...]]) -> None:
        """Columns as wide as their widest cell."""
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for row in rows:
            self.say("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


class _Activity(logging.Handler):
    """Shows each message on the line of the running step."""

    def __init__(self, status: Status, head: str, width: int) -> None:
        super().__init__(logging.DEBUG)
        self._status, self._head, self._width = status, head, width

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage().strip().splitlines()
        if message:
            self._status.update(Text(activity(self._head, message[0], self._width)))


def activity(head: str, message: str, width: int) -> str:
    """A message behind the step's head, without its figures (after ` | `), in one line of a terminal with a spinner."""
    line = f"{head} {message.partition(' | ')[0]}"
    return line if len(line) <= width - 3 else f"{line[: width - 4]}…"


@contextmanager
def _shown(status: Status, head: str, width: int) -> Iterator[None]:
    """Show what is logged, and the progress of worlds, while the block runs."""
    package, progress = logging.getLogger("echelon"), logging.getLogger(PROGRESS)
    handler = _Activity(status, head, width)
    before = progress.level
    package.addHandler(handler)
    progress.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        progress.setLevel(before)
        package.removeHandler(handler)


@contextmanager
def only_to_file(path: Path) -> Iterator[None]:
    """While the block runs, the package logs to `path` and to no console."""
    path.parent.mkdir(parents=True, exist_ok=True)
    package = logging.getLogger("echelon")
    before, level = package.handlers, package.level
    file = logging.FileHandler(path, encoding="utf-8")
    file.setLevel(logging.INFO)
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    package.handlers = [file]
    package.setLevel(logging.INFO)
    try:
        yield
    finally:
        package.handlers = before
        package.setLevel(level)
        file.close()
