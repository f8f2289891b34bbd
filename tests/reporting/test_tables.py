"""Tables: what is read and what is sorted by."""

from __future__ import annotations

import pytest

from echelon.reporting.tables import Cell, Column, Table, interval, number, significant


def test_numbers_are_read_with_a_minus_sign_and_sorted_by_their_value() -> None:
    assert number(-0.5) == Cell("−0.500", -0.5)
    assert number(None) == Cell("–", None)
    assert interval({"mean": 0.1, "low": -0.25, "high": 0.4}, "+") == Cell("+0.100 [−0.250, +0.400]", 0.1)


def test_numbers_of_charts_are_short_and_gaps_are_gaps() -> None:
    shown = significant([1 / 3, 2.0, float("nan"), float("-inf"), 1234567.0])
    assert shown == [0.33333, 2, None, None, 1234600]
    assert isinstance(shown[1], int)


def test_a_table_with_a_wrong_row_is_refused() -> None:
    with pytest.raises(ValueError, match=r"table t has 2 columns but rows of \[1\] cells"):
        Table("t", "", [Column("a"), Column("b")], [[Cell("1", 1)]])
    with pytest.raises(ValueError, match="table t marks 2 of 1 rows"):
        Table("t", "", [Column("a")], [[Cell("1", 1)]], [True, False])
