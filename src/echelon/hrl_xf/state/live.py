"""The game as it is: `DayState` from a live agent-world interface.

The interface is read name by name, so that a missing one fails loudly.
"""

from __future__ import annotations

from typing import Any

from echelon.hrl_xf.state.day_state import Commitments, DayState, Issues, OffersSnapshot, Role, SeenOffer


class OffersMemory:
    """Remembers the offers partners make in a day; at dawn it hands over yesterday's."""

    def __init__(self) -> None:
        self._buy: list[SeenOffer] = []
        self._sell: list[SeenOffer] = []

    def saw(self, role: Role, offer: tuple[int, int, int], round_: int, rounds: int) -> None:
        """Note an offer that a partner made to this agent in its role."""
        seen = SeenOffer(int(offer[1]), int(offer[0]), int(offer[2]), round_, rounds)
        (self._buy if role == "buyer" else self._sell).append(seen)

    def take(self) -> OffersSnapshot:
        """What was seen since the last call; the memory is empty afterwards."""
        snapshot = OffersSnapshot(self._buy, self._sell)
        self._buy, self._sell = [], []
        return snapshot


def issues_of(issues: Any) -> Issues | None:
    """Bounds of a negotiation's (quantity, time, unit price) issues; None where there is nothing to negotiate."""
    if not issues:
        return None
    q, t, p = issues
    return Issues((q.min_value, q.max_value), (t.min_value, t.max_value), (p.min_value, p.max_value))


def _by_days_ahead(today: dict[str, Any], future: dict[int, dict[str, Any]], step: int, row: list[Any]) -> list[Any]:
    row[0] += sum(today.values())
    for day, partners in future.items():
        row[day - step] += sum(partners.values())
    return row


def commitments_of(awi: Any) -> Commitments:
    """Signed and open contracts by days ahead, today's exogenous contract included."""
    step = awi.current_step
    later = min(awi.horizon, awi.n_steps - 1 - step)
    no_pieces, no_money = [0] * later, [0.0] * later
    q_in = [int(awi.current_exogenous_input_quantity), *no_pieces]
    q_out = [int(awi.current_exogenous_output_quantity), *no_pieces]
    payables = [float(awi.current_exogenous_input_price), *no_money]
    receivables = [float(awi.current_exogenous_output_price), *no_money]
    return Commitments(
        _by_days_ahead(awi.supplies, awi.future_supplies, step, q_in),
        _by_days_ahead(awi.sales, awi.future_sales, step, q_out),
        _by_days_ahead(awi.supplies_cost, awi.future_supplies_cost, step, payables),
        _by_days_ahead(awi.sales_cost, awi.future_sales_cost, step, receivables),
    )


def day_state(awi: Any, initial_balance: float, offers: OffersSnapshot) -> DayState:
    """Everything the agent knows now; call it at dawn, in `before_step`."""
    profile = awi.profile
    prices = [float(p) for p in awi.trading_prices]
    input_product, output_product = profile.input_product, profile.output_product
    balance = float(awi.current_balance)
    first, last = awi.is_first_level, awi.is_last_level
    return DayState(
        current_step=awi.current_step,
        n_steps=awi.n_steps,
        balance=balance,
        initial_balance=initial_balance,
        score=balance / initial_balance if initial_balance else 0.0,
        inventory_input=int(awi.current_inventory_input),
        inventory_output=int(awi.current_inventory_output),
        spot_price_in=prices[input_product],
        spot_price_out=prices[output_product],
        trading_prices=prices,
        n_lines=int(profile.n_lines),
        horizon=awi.horizon,
        production_cost=float(profile.cost),
        commitments=commitments_of(awi),
        level=awi.level,
        my_input_product=input_product,
        my_output_product=output_product,
        n_products=awi.n_products,
        n_suppliers=0 if first else len(awi.my_suppliers),
        n_consumers=0 if last else len(awi.my_consumers),
        needed_supplies=int(awi.needed_supplies),
        needed_sales=int(awi.needed_sales),
        exogenous_input_quantity=int(awi.current_exogenous_input_quantity),
        exogenous_input_price=float(awi.current_exogenous_input_price),
        exogenous_output_quantity=int(awi.current_exogenous_output_quantity),
        exogenous_output_price=float(awi.current_exogenous_output_price),
        shortfall_penalty=float(awi.current_shortfall_penalty),
        storage_cost=float(awi.current_storage_cost),
        disposal_cost=float(awi.current_disposal_cost),
        is_bankrupt=bool(awi.is_bankrupt()),
        buy_issues=None if first else issues_of(awi.current_input_issues),
        sell_issues=None if last else issues_of(awi.current_output_issues),
        offers_snapshot=offers,
    )
