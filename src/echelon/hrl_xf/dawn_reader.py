"""`DawnReader`: the recorder's way to a `DayState`, from the simulator's own tables.

`state_builder.day_state` is how an agent reads its day: through its interface, name by name. The recorder sits on the
simulator's side and reads the tables behind that interface, at a third of the time; the values are the same, which
test_parity demands of every field of every day of a world.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.hrl_xf.schema import Commitments, DayState, Issues, OffersSnapshot
from echelon.hrl_xf.state_builder import issues_of


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

    def read(self, offers: OffersSnapshot) -> DayState:
        """Everything the agent knows at dawn."""
        world, me = self._world, self._me
        step = world._current_step
        balance, initial_balance = float(sum(self._profits) + self._first_balance), self.initial_balance
        inputs, outputs = int(world._inventory_input[me]), int(world._inventory_output[me])
        prices, issues = self._market.today()
        q_in, p_in = int(world.exogenous_qin[me]), float(world.exogenous_pin[me])
        q_out, p_out = int(world.exogenous_qout[me]), float(world.exogenous_pout[me])
        later = min(self._horizon, self._n_steps - 1 - step)
        no_pieces, no_money = [0] * later, [0.0] * later
        rows: tuple[list[Any], ...] = ([q_in, *no_pieces], [q_out, *no_pieces], [p_in, *no_money], [p_out, *no_money])
        for row, table in zip(rows, self._tables, strict=True):
            for day, partners in table.items():
                if day >= step:
                    row[day - step] += sum(partners.values())
        surplus = inputs + rows[0][0] - outputs - rows[1][0]
        supplies, sales = -surplus if self._buys else 0, surplus if self._sells else 0
        if world.perishable:
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
            bool(world.is_bankrupt[me]),
            issues[self._input] if self._buys else None,
            issues[self._output] if self._sells else None,
            offers,
        )
