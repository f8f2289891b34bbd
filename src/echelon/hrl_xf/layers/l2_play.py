"""L2 at play, in numpy: `HorizonManagerPPO.forward` for one dawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from echelon.hrl_xf.layers.play_arrays import Weights, relu
from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.hrl_xf.state.features import P_MAX, DayFeatures, StateBuilder
from echelon.hrl_xf.state.goals import GOAL_SIZE, goal_mask
from echelon.runtime.arrays import Bools, Float32

STATIC, CHANNELS, ROLES = 12, 10, 2
PIECES = 5.0
"""One unit of the quantity head: goals of tens of pieces are then a few units."""
RATIO_STEP = 0.1
"""One unit of the price head is 10 % of spot: the width of the issues' price range."""
RATIO_UNITS = 20.0
"""At most this many of them up or down."""
STATIC_PIECES, NEAR_PIECES = [1, 2, 8, 9], [0, 1, 3]
"""Inputs that count pieces: stock and commitments of the day; Q_in, Q_out and material of a day ahead."""


@runtime_checkable
class LearntManager(Protocol):
    """A learnt L2, in torch or numpy: it sees days as features."""

    horizon: int

    def goals_of_features(self, days: DayBatch, x: DayFeatures) -> Float32:
        """Goals of days whose features are known already.  # (N, 16)"""

    def goals_of_days(self, days: DayBatch) -> Float32:
        """Goals of days as they come at dawn: features, spot prices and mask are made here.  # (N, 16)"""
        return self.goals_of_features(days, StateBuilder(self.horizon).build(days))


def predicted(predict: Callable[..., Float32], horizon: int, days: DayBatch, x: DayFeatures) -> Float32:
    """The goals that an L2's `predict_goals` gives for days, at their spot prices and within their mask.  # (N, 16)"""
    if horizon != days.H:
        raise ValueError(f"days of horizon {days.H} in an L2 of horizon={horizon}; use one horizon")
    spot = np.stack([days.spot_price_in, days.spot_price_out], axis=-1).astype(np.float32)
    return predict(x.x_static, x.X_temporal, x.x_role, spot=spot, goal_mask=goal_mask(days))


class PlayManager(LearntManager):
    """A `HorizonManagerPPO` of these options, in numpy."""

    network: ClassVar[str] = "HorizonManagerPPO"

    def __init__(
        self,
        weights: Weights,
        *,
        horizon: int,
        channels: Sequence[int],
        hidden: int,
        stride: int,
        in_days: bool = False,
    ) -> None:
        self.horizon, self.stride, self.in_days, self.near_days = horizon, stride, in_days, min(4, horizon + 1)
        first, second = channels
        half = hidden // 2
        self.conv1, self.conv2 = (
            weights.linear("conv1", 3 * CHANNELS, first),
            weights.linear("conv2", 3 * first, second),
        )
        self.static, self.role = weights.linear("static", STATIC, half), weights.linear("role", ROLES, 16)
        self.near = weights.linear("near", CHANNELS * self.near_days, half)
        self.trunk = weights.linear("trunk", second + 2 * half + 16, hidden)
        self.trunk2 = weights.linear("trunk2", hidden, hidden)
        self.mean, self.log_std = (
            weights.linear("mean", hidden, GOAL_SIZE),
            weights.linear("log_std", hidden, GOAL_SIZE),
        )
        weights.linear("value", hidden, 1)  # in the file, and nothing that play needs

    def goals_of_features(self, days: DayBatch, x: DayFeatures) -> Float32:
        """Goals of days whose features are known already.  # (N, 16)"""
        return predicted(self.predict_goals, self.horizon, days, x)

    def predict_goals(
        self,
        x_static: Float32,  # (N, 12)
        X_temporal: Float32,  # (N, H+1, 10)
        x_role: Float32,  # (N, 2)
        *,
        spot: Float32 | None = None,  # (N, 2)
        goal_mask: Bools | None = None,  # (N, 16)
    ) -> Float32:
        """Goals in pieces and currency, 0 where nothing can be wanted.  # (N, 16)"""
        arrays = (x_static, X_temporal, x_role, spot_of(x_static) if spot is None else spot)
        days = zip(*(np.asarray(a, np.float32) for a in arrays), strict=True)
        goals = [self.goal(*day) for day in days]
        return masked(np.array(goals, np.float32).reshape(-1, GOAL_SIZE), x_role, goal_mask)

    def goal(self, static: Float32, temporal: Float32, role: Float32, spot: Float32) -> Float32:
        """The goal of one day, not masked.  # (12,), (H+1, 10), (2,), (2,) -> (16,)"""
        return goal_of(self.mean(self._read(static, temporal, role)), spot)

    def inner(self, static: Float32, temporal: Float32, role: Float32) -> tuple[Float32, Float32]:
        """The goal before `goal_of`, and the log-deviations for exploring around it.  # (16,) each"""
        x = self._read(static, temporal, role)
        return self.mean(x), self.log_std(x)

    def _read(self, static: Float32, temporal: Float32, role: Float32) -> Float32:
        """What the heads look at.  # (hidden,)"""
        days = relu(self.conv1(self._windows(temporal)))
        days = relu(self.conv2(self._windows(days)))  # (days, C)
        near = temporal[: self.near_days]
        if self.in_days:
            static, near = self._in_days(static, near)
        parts = [days.max(axis=0), relu(self.static(static)), relu(self.near(near.ravel())), relu(self.role(role))]
        return relu(self.trunk2(relu(self.trunk(np.concatenate(parts)))))

    @staticmethod
    def _in_days(static: Float32, near: Float32) -> tuple[Float32, Float32]:
        """`in_days` of one day.  # (12,), (days, 10)"""
        static, near, a_day = static.copy(), near.copy(), max(near[0, 2], np.float32(1e-4))
        for x, pieces in ((static, STATIC_PIECES), (near, NEAR_PIECES)):
            x[..., pieces] = np.minimum(np.maximum(x[..., pieces] / a_day, -5.0), 5.0)
        return static, near

    def _windows(self, x: Float32) -> Float32:
        """Three neighbouring days side by side.  # (L, C) -> (ceil(L / stride), 3C)"""
        count, padded = (len(x) - 1) // self.stride + 1, np.zeros((len(x) + 2, x.shape[1]), np.float32)
        padded[1:-1] = x
        last = (count - 1) * self.stride + 1
        return np.concatenate([padded[j : j + last : self.stride] for j in range(3)], axis=1)


def goal_of(raw: Float32, spot: Float32) -> Float32:
    """The output of the mean head for one day, in pieces and currency.  # (16,), (2,) -> (16,)"""
    quantity, price = np.moveaxis(raw.reshape(4, 2, 2), -1, 0)  # bucket, side
    ratio = np.exp(np.float32(RATIO_STEP) * np.minimum(np.maximum(price, -RATIO_UNITS), RATIO_UNITS))
    return np.stack([np.float32(PIECES) * np.logaddexp(quantity, np.float32(0.0)), ratio * spot], axis=-1).ravel()


def spot_of(x_static: Float32) -> Float32:
    """Spot prices in and out.  # (N, 12) -> (N, 2)"""
    return x_static[:, 6:8] * np.float32(P_MAX)


def masked(goal: Float32, x_role: Float32, goal_mask: Bools | None) -> Float32:
    """Goals, 0 where nothing can be wanted.  # (N, 16)"""
    sides = np.tile(np.repeat(np.asarray(x_role) > 0.5, 2, axis=1), 4)  # numbers of a side that the agent negotiates
    return np.where(sides if goal_mask is None else goal_mask & sides, goal, np.float32(0))
