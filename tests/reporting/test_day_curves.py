"""Means and quartiles over seats, by hand."""

from __future__ import annotations

import msgspec
import pytest

from echelon.reporting.day_curves import POINTS, curves
from tests.hrl_xf.arena.examples import result, seat


def test_means_and_quartiles_of_seats_by_day() -> None:
    seats = [seat(1.0, number=i, balance=[100.0, 100.0 + 100 * i]) for i in range(5)]  # at the end 1, 2, 3, 4, 5
    found = curves({"A": [result("A", 0, *seats)]}, ["all", "first", "last"])
    assert found["x"] == [1, 2]
    assert found["x_label"] == "day"
    assert set(found["scopes"]) == {"all", "first"}  # nobody sits on the last level
    assert found["scopes"]["all"]["A"]["seats"] == 5
    assert found["scopes"]["all"]["A"]["balance"] == {"mean": [1, 3], "low": [1, 2], "high": [1, 4]}


def test_a_bankrupt_seat_keeps_its_last_value() -> None:
    broke = seat(0.0, balance=[40.0], inventory_input=[3], inventory_output=[0])
    found = curves({"A": [result("A", 0, broke)]}, ["all"])
    assert found["scopes"]["all"]["A"]["balance"]["mean"] == [0.4, 0.4]
    assert found["scopes"]["all"]["A"]["input"]["mean"] == [3, 3]


def test_worlds_of_different_length_are_laid_over_one_another() -> None:
    short = result("A", 0, seat(1.0, balance=[100.0, 200.0]))
    long = msgspec.structs.replace(result("A", 1, seat(1.0, balance=[100.0, 150.0, 200.0])), days=3)
    found = curves({"A": [short, long]}, ["all"])
    assert found["x_label"].startswith("share of the world's days")
    assert len(found["x"]) == POINTS
    line = found["scopes"]["all"]["A"]["balance"]["mean"]
    assert (line[0], line[50], line[100]) == (1, 1.5, 2)


def test_long_worlds_are_thinned_but_keep_their_ends() -> None:
    days = 400
    played = msgspec.structs.replace(result("A", 0, seat(1.0, balance=[float(i) for i in range(days)])), days=days)
    found = curves({"A": [played]}, ["all"])
    assert found["thinned"]
    assert len(found["x"]) <= POINTS
    assert (found["x"][0], found["x"][-1]) == (1, days)
    line = found["scopes"]["all"]["A"]["balance"]["mean"]
    assert line == pytest.approx([(x - 1) / 100 for x in found["x"]])
