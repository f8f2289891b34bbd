"""A day's state as the guide writes it: the dictionary of a `daily_status` event, or one with the guide's fields only.

What a caller reads must be there; what it does not read may be missing, and unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

import msgspec

from echelon.hrl_xf.state.day_state import DayState

OF_L1 = (
    "balance", "initial_balance", "inventory_input", "spot_price_in", "spot_price_out", "n_lines", "n_steps",
    "current_step", "commitments",
)  # fmt: skip
"""What L1's baseline is made of."""
OF_FEATURES = (
    *OF_L1, "inventory_output", "production_cost", "my_input_product", "my_output_product", "n_products",
)  # fmt: skip
"""What L2's features are computed from, except yesterday's offers, which may be absent."""
_ZEROS = (
    "inventory_output", "production_cost", "n_suppliers", "n_consumers", "needed_supplies", "needed_sales",
    "exogenous_input_quantity", "exogenous_input_price", "exogenous_output_quantity", "exogenous_output_price",
    "shortfall_penalty", "storage_cost", "disposal_cost",
)  # fmt: skip
_FIELDS = {f.name for f in fields(DayState)}
_HORIZON = 10
_ANY_PRICE = 10**6


def state_of(state: DayState | Mapping[str, Any], needed: Collection[str]) -> DayState:
    """The state of a dictionary in which `needed` fields must be there."""
    if isinstance(state, DayState):
        return state
    missing = [name for name in needed if name not in state]
    if missing:
        raise ValueError(f"the state lacks {', '.join(missing)}; give the `data` of a log's daily_status entry")
    known = {name: value for name, value in state.items() if name in _FIELDS}
    try:
        return msgspec.convert(_neutral(known) | known, DayState, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"this is not a day's state: {error}") from error


def _neutral(known: Mapping[str, Any]) -> dict[str, Any]:
    """Values for fields that are missing: nothing happened, and the sides negotiate within the game's bounds."""
    step, lines, horizon = int(known["current_step"]), int(known["n_lines"]), int(known.get("horizon", _HORIZON))
    issues = ((1, 3 * lines), (step, step + horizon), (1, _ANY_PRICE))
    first, n_products = int(known.get("my_input_product", 1)), int(known.get("n_products", 4))
    output = int(known.get("my_output_product", first + 1))
    return dict.fromkeys(_ZEROS, 0) | {
        "score": float(known["balance"]) / (float(known["initial_balance"]) or 1.0),
        "trading_prices": [],
        "horizon": horizon,
        "level": first,
        "my_input_product": first,
        "my_output_product": output,
        "n_products": n_products,
        "is_bankrupt": False,
        "buy_issues": issues if first > 0 else None,
        "sell_issues": issues if output < n_products - 1 else None,
        "offers_snapshot": {"buy": [], "sell": []},
    }
