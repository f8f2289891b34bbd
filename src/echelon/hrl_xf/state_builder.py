"""One state: `DayState` from a live agent-world interface, and the features the networks see of it.

The interface is read name by name, so that a missing one fails loudly. Features are functions of the `DayState` alone,
whether it was read live or from a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.day_batch import Bools, DayBatch, Floats, day_batch
from echelon.hrl_xf.schema import Commitments, DayState, Issues, OffersSnapshot, Role, SeenOffer


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


P_MAX = 50.0


@dataclass(frozen=True)
class DayFeatures:
    """What the networks see of a day at dawn; with the leading axis for a batch, without for a single day."""

    x_static: NDArray[np.float32]  # (N, 12)
    X_temporal: NDArray[np.float32]  # (N, H+1, 10)
    x_role: NDArray[np.float32]  # (N, 2) can buy, can sell


STATIC_RANGES = np.array(
    [(-5, 5), (0, 2), (0, 2), (0, 1), (0, 5), (0, 4), (0, 4), (0, 4), (0, 2), (0, 2), (0, 5), (0, 5)], np.float64
)
"""Money −5..5 initial balances, stock 0..2 capacities of the game, prices up to 200: a bound against outliers."""
TEMPORAL_RANGES = np.array(
    [(0, 2), (0, 2), (0, 1), (-2, 2), (-2, 2), (-5, 5), (-1, 1), (-1, 1), (0, 1), (0, 1)], np.float64
)
PRICE_RATIO_RANGE = (0.5, 2.0)


def role_one_hot(seller: Bools) -> NDArray[np.float32]:
    """`x_role` of L3 and L4: [buyer, seller].  # (N, 2)"""
    return np.stack([~seller, seller], axis=-1).astype(np.float32)


def _ratio(a: Floats, b: Floats, otherwise: Floats | float) -> Floats:
    """a / b, and `otherwise` where b is not positive."""
    out = np.empty(a.shape)
    out[...] = otherwise
    return np.divide(a, b, out=out, where=b > 0)


class StateBuilder:
    """`x_static`, `X_temporal` and `x_role` of days (spec §5)."""

    def __init__(self, horizon: int = 40) -> None:
        self.horizon = horizon

    def build(self, day: DayBatch | DayState) -> DayFeatures:
        """Features at dawn. A `DayState` gives (12,), (H+1, 10), (2,); a batch has the days in front."""
        if isinstance(day, DayState):
            one = self.build(day_batch([day], self.horizon))
            return DayFeatures(one.x_static[0], one.X_temporal[0], one.x_role[0])
        if self.horizon != day.H:
            raise ValueError(f"days of horizon {day.H} in a StateBuilder(horizon={self.horizon}); use one horizon")
        role = np.stack([day.can_buy, day.can_sell], axis=-1).astype(np.float32)
        return DayFeatures(_static(day), _temporal(day), role)


def _clipped(x: Floats, ranges: Floats) -> NDArray[np.float32]:
    return np.minimum(np.maximum(x, ranges[:, 0]), ranges[:, 1]).astype(np.float32)


def _initial_balance(day: DayBatch) -> Floats:
    return np.maximum(day.initial_balance, 1.0)  # a broke agent still has features


def _static(day: DayBatch) -> NDArray[np.float32]:
    I_max, B0 = day.n_lines * day.n_steps, _initial_balance(day)
    q_in, q_out, payables, receivables = (
        np.cumsum(x, axis=1)[:, -1] for x in (day.Q_in, day.Q_out, day.Payables, day.Receivables)
    )
    columns = [
        day.balance / B0, day.inventory_input / I_max, day.inventory_output / I_max, day.current_step / day.n_steps,
        day.n_lines / 10.0, day.production_cost / P_MAX, day.spot_price_in / P_MAX, day.spot_price_out / P_MAX,
        q_in / I_max, q_out / I_max, payables / B0, receivables / B0,
    ]  # fmt: skip
    return _clipped(np.stack(columns, axis=-1), STATIC_RANGES)


def _temporal(day: DayBatch) -> NDArray[np.float32]:
    L, C = day.n_lines[:, None], day.capacity
    I_max, B0 = (day.n_lines * day.n_steps)[:, None], _initial_balance(day)[:, None]
    material = day.inventory_input[:, None] + np.cumsum(day.Q_in - L, axis=1)  # at the end of day k, not floored
    spent = np.cumsum(day.Receivables - day.Payables - L * day.production_cost[:, None], axis=1)
    dear_in, supply = _market(day, seller=False)
    dear_out, demand = _market(day, seller=True)
    channels = [
        day.Q_in / I_max, day.Q_out / I_max, L / I_max, material / I_max,
        (C - material) / I_max, (day.balance[:, None] + spent) / B0, dear_in / P_MAX, dear_out / P_MAX,
        (day.Q_out + demand) / np.maximum(C, 1.0), (day.Q_in + supply) / np.maximum(C, 1.0),
    ]  # fmt: skip
    found = np.empty((*C.shape, len(channels)))
    for i, channel in enumerate(channels):
        found[..., i] = channel
    return _clipped(found, TEMPORAL_RANGES)


def _market(day: DayBatch, seller: bool) -> tuple[Floats, Floats]:
    """P_fut − spot and the weighted quantity on offer, by days ahead.  # (N, H+1) each

    P_fut mixes V = VWAP of commitments, A = weighted mean of yesterday's offers, S = spot.
    A piece on offer counts more the better its price is for me: price/spot where I sell, spot/price where I buy.
    """
    spot = day.spot_price_out if seller else day.spot_price_in
    Q, money = (day.Q_out, day.Receivables) if seller else (day.Q_in, day.Payables)
    offers = day.offers
    offers = offers.where((offers.seller == seller) & (offers.ahead >= 0) & (offers.ahead <= day.H))
    weight, price, at_spot = offers.weight, offers.price.astype(np.float64), spot[offers.row]
    better = _ratio(price, at_spot, 1.0) if seller else _ratio(at_spot, price, PRICE_RATIO_RANGE[1])
    cell = offers.row * (day.H + 1) + offers.ahead

    def total(x: Floats) -> Floats:
        return np.bincount(cell, x, Q.size).astype(np.float64).reshape(Q.shape)  # adds in the order of the offers

    total_weight = total(weight)
    S = spot[:, None]
    V, A = _ratio(money, Q, 0.0), _ratio(total(weight * price), total_weight, 0.0)
    has_V, has_A = Q > 0, total_weight > 0
    with_V = np.where(has_A, 0.6 * V + 0.3 * A + 0.1 * S, 0.75 * V + 0.25 * S)
    future = np.where(has_V, with_V, np.where(has_A, 0.6 * A + 0.4 * S, S))
    return future - S, total(weight * offers.quantity * np.clip(better, *PRICE_RATIO_RANGE))
