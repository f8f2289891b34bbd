"""The guide's functions of a state's dictionary: the same numbers as from the state itself."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from echelon.hrl_xf.data_pipeline import compute_l1_baseline_offline, extract_macro_state
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.day_state import DayState
from echelon.hrl_xf.state.features import StateBuilder
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.schema import DailyStatusEntry
from tests.hrl_xf.log_examples import PENGUIN_FIRST, log_of
from tests.hrl_xf.state.examples import a_day, commitments

GUIDE = (
    "balance", "initial_balance", "inventory_input", "inventory_output", "spot_price_in", "spot_price_out",
    "trading_prices", "n_lines", "n_steps", "current_step", "commitments", "my_input_product", "my_output_product",
    "n_products", "needed_supplies", "needed_sales", "offers_snapshot",
)  # fmt: skip
"""The fields of the guide's table (§4.1)."""
DAY = a_day(inventory_input=4, commitments=commitments([0, 15, 3], [0, 6, 0, 10]))


def dict_of(day: DayState) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(day)
    return found


def test_a_logged_day_gives_what_it_gives_in_play() -> None:
    entry = next(e for e in log_of(PENGUIN_FIRST).entries if isinstance(e, DailyStatusEntry) and e.day == 2)
    logged, out = dict_of(entry.data), L1SafetyLayer().compute(entry.data, None, "seller")
    assert compute_l1_baseline_offline(logged, role="seller").tolist() == out.baseline[0].tolist()
    assert compute_l1_baseline_offline(entry.data, role="seller").tolist() == out.baseline[0].tolist()
    ours, theirs = extract_macro_state(logged), StateBuilder(40).build(entry.data)
    for name, shape in (("x_static", (12,)), ("X_temporal", (41, 10)), ("x_role", (2,))):
        assert getattr(ours, name).shape == shape
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_the_guide_s_fields_are_enough_for_the_baseline() -> None:
    state = {name: value for name, value in dict_of(DAY).items() if name in GUIDE}
    assert compute_l1_baseline_offline(state).shape == (3,)
    for role in ("buyer", "seller"):
        wanted = L1SafetyLayer().compute(day_batch([DAY]), None, role).baseline[0]
        assert compute_l1_baseline_offline(state, role=role).tolist() == wanted.tolist()


def test_a_missing_field_is_refused() -> None:
    state = dict_of(DAY)
    with pytest.raises(ValueError, match="lacks balance, commitments"):
        compute_l1_baseline_offline({k: v for k, v in state.items() if k not in ("balance", "commitments")})
    with pytest.raises(ValueError, match="lacks production_cost"):
        extract_macro_state({k: v for k, v in state.items() if k != "production_cost"})
    with pytest.raises(ValueError, match="not a day's state"):
        compute_l1_baseline_offline(state | {"commitments": {"Q_in": "none"}})
    assert (extract_macro_state(state | {"l2_goal": 3}).x_static == extract_macro_state(DAY).x_static).all()
