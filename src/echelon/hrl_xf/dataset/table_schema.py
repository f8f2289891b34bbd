"""What tables there are: which column points into which table, and how each is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.runtime.arrays import Ints

_FLOAT32 = {"day.goal", "day.costs", "day.outcome", "time.relative", "ledger.baseline_quantity"}
_FLOAT64 = {
    "log.initial_balance", "log.production_cost", "day.balance", "day.spot_price_in", "day.spot_price_out",
    "commitment.quantity", "commitment.money", "ledger.Q_safe", "ledger.Q_safe_sell", "ledger.B_free", "ledger.signed",
}  # fmt: skip

REFERENCES: Mapping[str, str] = {
    "log.first_day": "day", "day.log": "log", "day.first_commitment": "commitment", "day.first_offer": "offer",
    "day.first_ledger": "ledger", "ledger.day": "day", "thread.day": "day", "thread.first_token": "token",
    "thread.first_decision": "decision", "decision.thread": "thread", "decision.time": "time",
    "set.first_member": "member", "member.decision": "decision",
}  # fmt: skip
"""Columns that hold row numbers, and the table they point into."""

Tables = dict[str, NDArray[Any]]


def relative_issues(issues: NDArray[Any], step: NDArray[Any], sign: int) -> Ints:
    """Issue bounds with days counted from today (sign −1), or back (sign 1); zeros stay zeros.  # (N, 6)"""
    shifted = issues.astype(np.int64)
    negotiates = shifted[:, 1] > 0
    shifted[:, 2:4] += sign * np.where(negotiates, step.astype(np.int64), 0)[:, None]
    return shifted


def relative_offers(outcome: Ints, step: Ints) -> Ints:
    """(quantity, day, price) with days counted from today.  # (N, 3)"""
    return outcome - np.stack([np.zeros_like(step), step, np.zeros_like(step)], axis=-1)


def dtype_of(name: str) -> type[np.generic]:
    """The type in which a column is read."""
    return np.float32 if name in _FLOAT32 else np.float64 if name in _FLOAT64 else np.int64
