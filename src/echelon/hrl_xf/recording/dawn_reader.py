"""`DawnReader`: the recorder's way to a `DayState`, from the simulator's own tables.

`state.live.day_state` is how an agent reads its day: through its interface, name by name. The recorder sits on the
simulator's side and reads the tables behind that interface, at a third of the time; the values are the same, which
test_parity demands of every field of every day of a world.

Reading has two steps: `look` takes down what is new, at dawn, and `state` makes a `DayState` of it, any time later.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from echelon.hrl_xf.state.day_state import Commitments, DayState, Issues, OffersSnapshot
from echelon.hrl_xf.state.live import issues_of
from echelon.hrl_xf.state.schema import DayClosed

_NONE_AHEAD: dict[int, Any] = {}


class Dawn(Struct, frozen=True, gc=False):
    """What is new at an agent's dawn, as the simulator's tables have it: today's figures, and how yesterday ended."""

    step: int
    balance: float
    inputs: int
    outputs: int
    prices: list[float]
    issues: list[Issues | None]
    exogenous_qin: Any
    exogenous_pin: Any
    exogenous_qout: Any
    exogenous_pout: Any
    bankrupt: Any
    perishable: bool
    supplies: dict[int, Any]
    """what is agreed for today and later, by day"""
    sales: dict[int, Any]
    supplies_cost: dict[int, Any]
    sales_cost: dict[int, Any]
    productivity: Any
    """this and what follows is yesterday's"""
    shortfall_penalty: Any
    shortfall_quantity: Any
    storage_spent: Any
    disposal_spent: Any
    n_profits: int
    """how many days have been closed"""
    profit: Any

    def closing(self, day: int, executed_input: int, executed_output: int) -> DayClosed:
        """The balance sheet of `day`, the one before this dawn."""
        return DayClosed(
            self.balance,
            self.inputs,
            self.outputs,
            executed_input,
            executed_output,
            float(self.productivity),
            float(self.shortfall_penalty),
            int(self.shortfall_quantity),
            float(self.storage_spent),
            float(self.disposal_spent),
            float(self.profit) if self.n_profits > day else 0.0,
        )


class Market:
    """What is the same for all agents of a world at dawn, read for the first of them."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._step = -1
        self._prices: list[float] = []
        self._issues: list[Issues | None] = []

    def today(self) -> tuple[list[float], list[Issues | None]]:
        """The trading prices and the issues of negotiations, by product."""
        world = self._world
        if self._step != world._current_step:
            self._step = world._current_step
            prices = world.trading_prices if world.publish_trading_prices else world.catalog_prices
            self._prices = np.asarray(prices, np.float64).tolist()
            self._issues = [issues_of(issues) for issues in world._current_issues]
        return self._prices, self._issues


class DawnReader:
    """Reads the days of one agent; what stays as it is in a world is read once."""

    def __init__(self, awi: Any, market: Market) -> None:
        self._world, self._me, self._market = awi._world, awi.agent.id, market
        world, me, profile = self._world, self._me, awi.profile
        self.initial_balance = float(awi.current_balance)
        self._profits, self._first_balance = world._profits[me], world.initial_balances[me]
        self._earned: Any = 0
        self._n_earned = 0
        self._profit: Any = 0.0
        self._tables: tuple[dict[int, dict[str, Any]], ...] = (
            awi._future_supplies,
            awi._future_sales,
            awi._future_supplies_cost,
            awi._future_sales_cost,
        )  # in the order of `Commitments`
        self._n_steps, self._horizon = awi.n_steps, awi.horizon
        self._n_lines, self._cost = int(profile.n_lines), float(profile.cost)
        self._input, self._output = profile.input_product, profile.output_product
        self._level, self._n_products = awi.level, awi.n_products
        self._buys, self._sells = not awi.is_first_level, not awi.is_last_level
        self._n_suppliers = len(awi.my_suppliers) if self._buys else 0
        self._n_consumers = len(awi.my_consumers) if self._sells else 0
        self._shortfall_penalty = [float(x) for x in world.agent_shortfall_penalty[me]]  # (n_steps,)
        self._storage_cost = [float(x) for x in world.agent_storage_cost[me]]  # (n_steps,)
        self._disposal_cost = [float(x) for x in world.agent_disposal_cost[me]]  # (n_steps,)

    def look(self) -> Dawn:
        """What is new today; everything in it stays as it is."""
        world, me = self._world, self._me
        step = world._current_step
        prices, issues = self._market.today()
        for profit in self._profits[self._n_earned :]:  # all in their order, as the simulator adds them every time
            self._earned += profit
            self._n_earned += 1
            self._profit = profit
        supplies, sales, supplies_cost, sales_cost = self._tables
        return Dawn(
            step,
            float(self._earned + self._first_balance),
            int(world._inventory_input[me]),
            int(world._inventory_output[me]),
            prices,
            issues,
            world.exogenous_qin[me],
            world.exogenous_pin[me],
            world.exogenous_qout[me],
            world.exogenous_pout[me],
            world.is_bankrupt[me],
            world.perishable,
            _ahead(supplies, step) if supplies else _NONE_AHEAD,
            _ahead(sales, step) if sales else _NONE_AHEAD,
            _ahead(supplies_cost, step) if supplies_cost else _NONE_AHEAD,
            _ahead(sales_cost, step) if sales_cost else _NONE_AHEAD,
            world._productivity[me],
            world._shortfall_penalty[me],
            world._shortfall_quantity[me],
            world._storage_cost[me],
            world._disposal_cost[me],
            self._n_earned,
            self._profit,
        )

    def state(self, dawn: Dawn, offers: OffersSnapshot) -> DayState:
        """What the agent knew at a dawn."""
        step, balance, initial_balance = dawn.step, dawn.balance, self.initial_balance
        inputs, outputs, prices, issues = dawn.inputs, dawn.outputs, dawn.prices, dawn.issues
        q_in, p_in = int(dawn.exogenous_qin), float(dawn.exogenous_pin)
        q_out, p_out = int(dawn.exogenous_qout), float(dawn.exogenous_pout)
        later = min(self._horizon, self._n_steps - 1 - step)
        no_pieces, no_money = [0] * later, [0.0] * later
        rows: tuple[list[Any], ...] = ([q_in, *no_pieces], [q_out, *no_pieces], [p_in, *no_money], [p_out, *no_money])
        for row, ahead in zip(rows, (dawn.supplies, dawn.sales, dawn.supplies_cost, dawn.sales_cost), strict=True):
            for day, total in ahead.items():
                row[day - step] += total
        surplus = inputs + rows[0][0] - outputs - rows[1][0]
        supplies, sales = -surplus if self._buys else 0, surplus if self._sells else 0
        if dawn.perishable:
            supplies, sales = min(self._n_lines, supplies), min(self._n_lines, sales)
        return DayState(  # by position, in the schema's order: 33 names cost as much as all the rest
            step,
            self._n_steps,
            balance,
            initial_balance,
            balance / initial_balance if initial_balance else 0.0,
            inputs,
            outputs,
            prices[self._input],
            prices[self._output],
            prices,
            self._n_lines,
            self._horizon,
            self._cost,
            Commitments(*rows),
            self._level,
            self._input,
            self._output,
            self._n_products,
            self._n_suppliers,
            self._n_consumers,
            supplies,
            sales,
            q_in,
            p_in,
            q_out,
            p_out,
            self._shortfall_penalty[step],
            self._storage_cost[step],
            self._disposal_cost[step],
            bool(dawn.bankrupt),
            issues[self._input] if self._buys else None,
            issues[self._output] if self._sells else None,
            offers,
        )


def _ahead(table: dict[int, dict[str, Any]], step: int) -> dict[int, Any]:
    """All partners' together, by day, from today on."""
    return {day: sum(partners.values()) for day, partners in table.items() if day >= step}
