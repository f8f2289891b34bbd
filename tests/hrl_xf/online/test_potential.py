"""What signed contracts earn: by hand, and by the books of real worlds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from echelon.hrl_xf.online.potential import signed_profit
from echelon.hrl_xf.online.wishes import profits_of_days
from echelon.hrl_xf.state.day_batch import DayBatch, day_batch
from tests.hrl_xf.online.examples import seats
from tests.hrl_xf.state.examples import a_day, commitments


def day(Q_in: list[int], Q_out: list[int], paid: list[float], earned: list[float], stock: int, left: int) -> DayBatch:
    """A factory of 10 lines with 1,000 at the start, prices 10 and 20, and `left` days to go."""
    state = a_day(
        current_step=20 - left, n_steps=20, balance=1000.0, initial_balance=1000.0, inventory_input=stock,
        spot_price_in=10.0, spot_price_out=20.0, production_cost=2.0,
        commitments=commitments(Q_in, Q_out, paid, earned),
    )  # fmt: skip
    return day_batch([state])


COSTS = np.array([[0.5, 0.1, 0.0]])  # a missing piece costs 10, a stored one 1


def test_by_hand() -> None:
    # Day 0: 4 in stock and 8 arrive for 80; 10 lines make 10 of the 11 promised at 25, 1 is short, 2 stay.
    #   10 · 25 − 80 − 10 · 2 − 10 − 2 = 138, and the stock stays 4: 8 arrived, 10 were made.
    # Day 1: nothing arrives, 3 promised at 30 are made of the stock, 1 stays: 90 − 6 − 1 = 83.
    # Days 2 and 3: 4 stay, 4 each.
    days = day([8, 0], [11, 3], [80.0, 0.0], [275.0, 90.0], stock=4, left=4)
    assert signed_profit(days, COSTS)[0] == pytest.approx((138 + 83 - 4 - 4) / 1000)


def test_days_after_the_game_count_nothing() -> None:
    assert signed_profit(day([0, 5], [0, 5], [0.0, 50.0], [0.0, 100.0], stock=0, left=1), COSTS)[0] == 0


def test_stock_is_stored_to_the_end_of_a_long_game() -> None:
    state = day([0], [0], [0.0], [0.0], stock=3, left=15)
    long = replace(state, n_steps=np.array([105.0]))  # 100 days left, 41 of them within the horizon
    assert signed_profit(long, COSTS)[0] == pytest.approx(-3 * 100 / 1000)


def test_on_the_last_day_it_is_what_the_worlds_books_then_show() -> None:
    """Where nothing is signed after the seat's last call, which is most often so on the last day."""
    shown = [(profits_of_days(seat)[-1], seat.moments["potential"][-1]) for seat in seats()]
    exact = [abs(profit - signed) < 1e-6 and abs(profit) > 1e-3 for profit, signed in shown]
    assert any(exact), shown
