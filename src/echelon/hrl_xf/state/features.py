"""The features that the networks see of a day: functions of the `DayState` alone, read live or from a log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from echelon.hrl_xf.state.day_batch import DayBatch, day_batch
from echelon.hrl_xf.state.day_state import DayState
from echelon.runtime.arrays import Bools, Float32, Floats

P_MAX = 50.0


@dataclass(frozen=True)
class DayFeatures:
    """What the networks see of a day at dawn; with the leading axis for a batch, without for a single day."""

    x_static: Float32  # (N, 12)
    X_temporal: Float32  # (N, H+1, 10)
    x_role: Float32  # (N, 2) can buy, can sell


STATIC_RANGES = np.array(
    [(-5, 5), (0, 2), (0, 2), (0, 1), (0, 5), (0, 4), (0, 4), (0, 4), (0, 2), (0, 2), (0, 5), (0, 5)], np.float64
)
"""Money −5..5 initial balances, stock 0..2 capacities of the game, prices up to 200: a bound against outliers."""
TEMPORAL_RANGES = np.array(
    [(0, 2), (0, 2), (0, 1), (-2, 2), (-2, 2), (-5, 5), (-1, 1), (-1, 1), (0, 1), (0, 1)], np.float64
)
PRICE_RATIO_RANGE = (0.5, 2.0)


def role_one_hot(seller: Bools) -> Float32:
    """`x_role` of L3 and L4: [buyer, seller].  # (N, 2)"""
    return np.stack([~seller, seller], axis=-1).astype(np.float32)


def _ratio(a: Floats, b: Floats, default: Floats | float) -> Floats:
    """a / b, and `default` where b is not positive."""
    out = np.empty(a.shape)
    out[...] = default
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


def _clipped(x: Floats, ranges: Floats) -> Float32:
    return np.minimum(np.maximum(x, ranges[:, 0]), ranges[:, 1]).astype(np.float32)


def _initial_balance(day: DayBatch) -> Floats:
    return np.maximum(day.initial_balance, 1.0)  # a broke agent still has features


def _static(day: DayBatch) -> Float32:
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


def _temporal(day: DayBatch) -> Float32:
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
