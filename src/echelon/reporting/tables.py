"""Tables for the page: columns with a help text, cells with the text to show and the value to sort by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from echelon.hrl_xf.collect.scores import Score

MISSING = "–"


class Cell(NamedTuple):
    """One cell; rows are sorted by `value`, None last."""

    text: str
    value: float | str | None


class Column(NamedTuple):
    """One column: its title, what it means, and whether it holds text (else numbers, set to the right)."""

    title: str
    help: str = ""
    text: bool = False


@dataclass(frozen=True)
class Table:
    """A table that the page can sort."""

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    marked: Sequence[bool] = field(default=())
    """rows to highlight: the evaluated agents"""

    def __post_init__(self) -> None:
        wrong = {len(row) for row in self.rows} - {len(self.columns)}
        if wrong:
            raise ValueError(f"table {self.id} has {len(self.columns)} columns but rows of {sorted(wrong)} cells")
        if self.marked and len(self.marked) != len(self.rows):
            raise ValueError(f"table {self.id} marks {len(self.marked)} of {len(self.rows)} rows")

    def is_marked(self, row: int) -> bool:
        return bool(self.marked) and self.marked[row]


def number(value: float | None, form: str = ".3f") -> Cell:
    """A number as text and as the value to sort by, with a minus sign instead of a hyphen."""
    return Cell(MISSING, None) if value is None else Cell(format(value, form).replace("-", "−"), value)


def words(text: str) -> Cell:
    return Cell(text, text.casefold())


def interval(estimate: Mapping[str, float] | None, sign: str = "") -> Cell:
    """mean [low, high], sorted by the mean."""
    if estimate is None:
        return Cell(MISSING, None)
    mean, low, high = (number(estimate[key], f"{sign}.3f").text for key in ("mean", "low", "high"))
    return Cell(f"{mean} [{low}, {high}]", estimate["mean"])


def significant(values: Sequence[float], digits: int = 5) -> list[float | None]:
    """Numbers for a chart, rounded to `digits` significant digits; None (a gap) where not finite."""
    return [_short(value, digits) for value in values]


def _short(value: float, digits: int) -> float | None:
    if value != value or value in (float("inf"), float("-inf")):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short == int(short) else short


def rows_of(items: Sequence[Any], *cells: Callable[[Any], Cell]) -> list[list[Cell]]:
    """One row per item, one cell per function."""
    return [[cell(item) for cell in cells] for item in items]


def score_on_page(score: Score) -> dict[str, Any]:
    """A score as the page's drawings take it."""
    estimate: dict[str, Any] = msgspec.to_builtins(score.score)
    return estimate | {"seats": score.seats, "truncated": score.truncated_mean}
