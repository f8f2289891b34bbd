"""Balance and stock over the days: the mean over seats and the middle half of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from echelon.hrl_xf.arena.seat import SeatRecord
from echelon.hrl_xf.arena.world import ArenaResult
from echelon.reporting.tables import significant
from echelon.runtime.arrays import Floats

POINTS = 101
"""Most points of a curve; of longer worlds some days are left out."""

MEASURES = {
    "balance": "balance / initial balance",
    "input": "input stock (pieces)",
    "output": "output stock (pieces)",
}


def curves(by_name: Mapping[str, Sequence[ArenaResult]], scopes: Sequence[str]) -> dict[str, Any]:
    """What the chart shows: x, and for each scope, competitor and measure the mean and the quartiles."""
    lengths = {result.days for results in by_name.values() for result in results}
    same = len(lengths) == 1
    days = max(lengths)
    at = np.unique(np.linspace(0, days - 1, min(days, POINTS)).round()) if same else np.linspace(0, 1, POINTS)
    tables: dict[str, dict[str, Any]] = {}
    for scope in scopes:
        tables[scope] = {}
        for name, results in by_name.items():
            seats = [(s, r.days) for r in results for s in r.seats if scope in ("all", s.place) and s.balance]
            if seats:
                found = {measure: _bands(seats, measure, at, same) for measure in MEASURES}
                tables[scope][name] = {"seats": len(seats), **found}
    x = at + 1 if same else at * 100
    return {
        "x": significant(x.tolist()),
        "x_label": "day" if same else "share of the world's days (%)",
        "measures": MEASURES,
        "scopes": {scope: table for scope, table in tables.items() if table},
        "thinned": same and days > POINTS,
    }


def _bands(seats: Sequence[tuple[SeatRecord, int]], measure: str, at: Floats, same: bool) -> dict[str, Any]:
    lines = np.stack([_line(seat, days, measure, at, same) for seat, days in seats])  # (S, points)
    low, high = np.quantile(lines, (0.25, 0.75), axis=0)
    return {
        "mean": significant(lines.mean(axis=0).tolist()),
        "low": significant(low.tolist()),
        "high": significant(high.tolist()),
    }


def _line(seat: SeatRecord, days: int, measure: str, at: Floats, same: bool) -> Floats:
    """One seat's series at the points; a seat that went bankrupt keeps its last value."""
    if measure == "balance":
        values = np.asarray(seat.balance, np.float64) / (seat.initial_balance or 1.0)
    else:
        stock = seat.inventory_input if measure == "input" else seat.inventory_output
        values = np.asarray(stock, np.float64)
    where = at if same else at * (days - 1)
    line: Floats = np.interp(where, np.arange(len(values)), values)
    return line
