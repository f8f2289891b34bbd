"""What a run measured: one line of JSON per value, TensorBoard, and one line on the console per step.

    with MetricsWriter(run.path) as metrics:
        metrics.record("loss/policy", 0.31, step=12)

`metrics.jsonl` is the reference: `{"step": 12, "name": "loss/policy", "value": 0.31}`. NaN and infinities are
written as the strings "NaN", "Infinity", "-Infinity", since JSON has no numbers for them.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from echelon.runtime.files import write_atomic

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Series:
    """One metric over the run."""

    steps: np.ndarray[Any, np.dtype[np.int64]]  # (N,)
    values: np.ndarray[Any, np.dtype[np.float64]]  # (N,)

    def __post_init__(self) -> None:
        if self.steps.shape != self.values.shape or self.steps.ndim != 1:
            raise ValueError(f"steps {self.steps.shape} and values {self.values.shape} must have one shape (N,)")


class Recorder(Protocol):
    """Another place that metrics go to."""

    def log(self, values: Mapping[str, float], step: int, /) -> None:
        """All values of one step."""

    def close(self) -> None:
        """Finish."""


class MetricsWriter:
    """Writes a run's metrics; opened again on the same directory, it continues.

    `resume_step`: the step of the checkpoint the run continues from. Whatever was recorded after it will be
    recorded again, so it is removed first. `tensorboard=False` writes no event files. `also` gets every value too.
    """

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        *,
        resume_step: int | None = None,
        tensorboard: bool = True,
        also: Recorder | None = None,
    ) -> None:
        self.path = Path(run_dir) / "metrics.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _repair(self.path, resume_step)
        self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self._board = _board(Path(run_dir) / "tb", resume_step) if tensorboard else None
        self._also = also
        self._step: int | None = None
        self._line: dict[str, float] = {}

    def record(self, name: str, value: float, step: int) -> None:
        """Record one value: anything `float()` accepts, such as a tensor of one element."""
        if not name or step < 0:
            raise ValueError(f"metric {name!r} at step {step}: a name and a step of 0 or more are needed")
        number = float(value)
        if step != self._step:
            self._show()
            self._step = step
        self._line[name] = number
        self._file.write(json.dumps({"step": int(step), "name": name, "value": _to_json(number)}) + "\n")
        self._file.flush()
        if self._board is not None:
            self._board.add_scalar(name, number, step)

    def record_all(self, values: Mapping[str, float], step: int) -> None:
        """Record several values of one step."""
        for name, value in values.items():
            self.record(name, value, step)

    def close(self) -> None:
        """Finish the files. Safe to call twice."""
        self._show()
        self._file.close()
        if self._board is not None:
            self._board.close()
        if self._also is not None:
            self._also.close()
            self._also = None

    def __enter__(self) -> MetricsWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _show(self) -> None:
        if self._line:
            log.info("step %s  %s", self._step, "  ".join(f"{name} {v:.4g}" for name, v in self._line.items()))
            if self._also is not None and self._step is not None:
                self._also.log(self._line, self._step)
            self._line = {}


@contextmanager
def without_console_lines() -> Iterator[None]:
    """Metrics go to their files only, for commands that print lines of their own."""
    before = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


def read_metrics(path: str | os.PathLike[str]) -> dict[str, Series]:
    """Every metric in a `metrics.jsonl` (or in the run directory that holds it), in the order of recording.

    A half-written last line, as a killed run leaves it, is not read.
    """
    file = Path(path)
    lines, _ = _parse(file / "metrics.jsonl" if file.is_dir() else file)
    columns: dict[str, tuple[list[int], list[float]]] = {}
    for line in lines:
        steps, values = columns.setdefault(line["name"], ([], []))
        steps.append(line["step"])
        values.append(float(line["value"]))  # float() parses the three names
    return {
        name: Series(np.asarray(steps, dtype=np.int64), np.asarray(values, dtype=np.float64))
        for name, (steps, values) in columns.items()
    }


def export_csv(path: str | os.PathLike[str], csv_path: str | os.PathLike[str]) -> None:
    """One row per step, one column per metric; empty where nothing was recorded, the last value where several were."""
    metrics = read_metrics(path)
    rows: dict[int, dict[str, float]] = {}
    for name, series in metrics.items():
        for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
            rows.setdefault(step, {})[name] = value
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["step", *metrics])
    for step in sorted(rows):
        table.writerow([step, *(rows[step].get(name, "") for name in metrics)])
    write_atomic(csv_path, text.getvalue().encode())


def _parse(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """The lines of a file, and whether its end is whole. A bad line that is not the last is an error."""
    data = path.read_bytes()
    if not data:
        return [], True
    *whole, rest = data.split(b"\n")
    lines = []
    for i, text in enumerate(whole):
        try:
            line = json.loads(text)
            lines.append({"step": int(line["step"]), "name": str(line["name"]), "value": line["value"]})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {i + 1} is not a metric ({error!r}): {text[:80]!r}") from error
    return lines, rest == b""


def _repair(path: Path, resume_step: int | None) -> None:
    """Drop a half-written last line and everything after `resume_step`."""
    if not path.exists():
        return
    lines, whole = _parse(path)
    kept = [line for line in lines if resume_step is None or line["step"] <= resume_step]
    if not whole or len(kept) < len(lines):
        write_atomic(path, "".join(json.dumps(line) + "\n" for line in kept).encode())


def _board(folder: Path, resume_step: int | None) -> Any:
    """TensorBoard's writer, or None and a warning if it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        log.warning("TensorBoard is not installed: no event files; install it with: pip install tensorboard")
        return None
    return SummaryWriter(str(folder), purge_step=None if resume_step is None else resume_step + 1)


def _to_json(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
