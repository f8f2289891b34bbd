"""What tables there are: which column points into which table, and how each is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

OF_LOG = (
    "n_steps", "n_lines", "initial_balance", "horizon", "production_cost", "my_input_product", "my_output_product",
    "n_products",
)  # fmt: skip
OF_DAY = (
    "current_step", "balance", "inventory_input", "inventory_output", "spot_price_in", "spot_price_out",
    "needed_supplies", "needed_sales",
)  # fmt: skip
"""Fields of a `DayBatch` that are stored once per log, and once per day."""


def dtype_of(name: str) -> type[np.generic]:
    """The type in which a column is read."""
    return np.float32 if name in _FLOAT32 else np.float64 if name in _FLOAT64 else np.int64
