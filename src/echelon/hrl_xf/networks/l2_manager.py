"""L2: the day's goal, 16 numbers = 4 buckets of days ahead × [Q_buy, P_buy, Q_sell, P_sell] (spec §6).

Inside, a price is a ratio to spot; outside it is currency. Quantities go through softplus: never negative, and the
gradient never dies. What cannot be wanted (the side the agent does not negotiate, buckets beyond the game) is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.hrl_xf.layers.l2_play import (
    CHANNELS,
    NEAR_PIECES,
    PIECES,
    RATIO_STEP,
    RATIO_UNITS,
    ROLES,
    STATIC,
    STATIC_PIECES,
    LearntManager,
    PlayManager,
    masked,
    predicted,
    spot_of,
)
from echelon.hrl_xf.networks.files import Layer, load_layer
from echelon.hrl_xf.networks.player_cache import PlayerCache, weights_of
from echelon.hrl_xf.options.train import QTransform
from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.hrl_xf.state.features import P_MAX, DayFeatures
from echelon.hrl_xf.state.goals import GOAL_SIZE
from echelon.runtime.arrays import Bools, Float32
from echelon.runtime.devices import device_of_layer, on_device

SQRT_FROM = 1e-6
"""The slope of sqrt is unbounded at 0."""


@dataclass(frozen=True)
class GoalOutput:
    """L2's outputs for N days."""

    goal: Tensor  # (N, 16) pieces and currency, not masked
    log_std: Tensor  # (N, 16) of the numbers inside: pieces and ratios; for exploring
    value: Tensor  # (N,)


class HorizonManagerPPO(Layer, LearntManager):
    """Convolutions over the days ahead, an MLP for the day, one trunk; heads for mean, log_std and value.

    The default size is where validation stops improving (`experiments/size_curve.py`, docs/results.md): 2,200 / 5,800 /
    17,000 / 58,000 / 211,000 parameters gave 2.36 / 1.88 / 1.84 / 1.88 / 1.86. (32, 64) and 128 are the guides' sizes.
    """

    def __init__(
        self,
        horizon: int = 40,
        channels: Sequence[int] = (16, 32),
        hidden: int = 64,
        stride: int = 2,
        in_days: bool = False,
    ) -> None:
        """`in_days`: pieces are seen in days of work instead of the game's whole capacity (see `_in_days`)."""
        super().__init__()
        if horizon < 1 or hidden < 1 or len(channels) != 2 or min(channels) < 1 or stride < 1:
            raise ValueError(f"{horizon=}, {hidden=}, {stride=} must be positive and {channels=} two positive numbers")
        self.options = {"horizon": horizon, "channels": list(channels), "hidden": hidden, "stride": stride}
        if in_days:
            self.options["in_days"] = True
        self.horizon, self.in_days = horizon, in_days
        first, second = channels
        self.stride = stride
        self.conv1, self.conv2 = nn.Linear(3 * CHANNELS, first), nn.Linear(3 * first, second)
        self.static = nn.Linear(STATIC, hidden // 2)
        self.role = nn.Linear(ROLES, 16)
        self.near = nn.Linear(CHANNELS * min(4, horizon + 1), hidden // 2)  # pooling forgets which day it was
        self.trunk = nn.Linear(second + 2 * (hidden // 2) + 16, hidden)
        self.trunk2 = nn.Linear(hidden, hidden)
        self.mean = nn.Linear(hidden, GOAL_SIZE)
        self.log_std = nn.Linear(hidden, GOAL_SIZE)
        self.value = nn.Linear(hidden, 1)
        with torch.no_grad():
            for head in (self.mean, self.log_std, self.value):
                head.weight.mul_(0.1)
                head.bias.zero_()
            self.log_std.bias.fill_(-1.0)
            self.mean.bias[::2] = -1.5  # about one piece

    def forward(self, x_static: Tensor, X_temporal: Tensor, x_role: Tensor, spot: Tensor | None = None) -> GoalOutput:
        """(N, 12), (N, H+1, 10), (N, 2), spot prices in and out (N, 2; read from x_static if not given)."""
        x = self._read(x_static, X_temporal, x_role)
        spot = x_static[:, 6:8] * P_MAX if spot is None else spot
        return GoalOutput(goal_of(self.mean(x), spot), self.log_std(x), self.value(x).squeeze(-1))

    def inner(self, x_static: Tensor, X_temporal: Tensor, x_role: Tensor) -> tuple[Tensor, Tensor]:
        """The goal before `goal_of`, and the log-deviations for exploring around it.  # (N, 16) each"""
        x = self._read(x_static, X_temporal, x_role)
        return self.mean(x), self.log_std(x)

    def _read(self, x_static: Tensor, X_temporal: Tensor, x_role: Tensor) -> Tensor:
        """What the heads look at.  # (N, hidden)"""
        days = functional.relu(self.conv1(_windows(X_temporal, self.stride)))
        days = functional.relu(self.conv2(_windows(days, self.stride)))  # (N, days, C)
        today, near = x_static, X_temporal[:, : min(4, self.horizon + 1)]
        if self.in_days:
            today, near = _in_days(today, near)
        parts = [days.amax(1), functional.relu(self.static(today)), functional.relu(self.near(near.flatten(1)))]
        x = functional.relu(self.trunk(torch.cat([*parts, functional.relu(self.role(x_role))], -1)))
        return functional.relu(self.trunk2(x))

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
        if len(x_static) == 1 and self.mean.weight.device.type == "cpu":
            goal = _PLAY.of(self, self.mean.weight).goal(*(np.asarray(a[0], np.float32) for a in arrays))[None]
        else:
            tensors = tuple(torch.as_tensor(np.ascontiguousarray(a), dtype=torch.float32) for a in arrays)
            with torch.inference_mode():
                goal = self(*on_device(tensors, device_of_layer(self))).goal.cpu().numpy()
        return masked(goal, x_role, goal_mask)


_PLAY: PlayerCache[HorizonManagerPPO, PlayManager] = PlayerCache(
    lambda layer: PlayManager(weights_of(layer), **layer.options)
)


def goal_of(raw: Tensor, spot: Tensor) -> Tensor:
    """The output of the mean head, in pieces and currency.  # (N, 16), (N, 2) -> (N, 16)"""
    quantity, price = raw.view(-1, 4, 2, 2).unbind(-1)  # bucket, side
    ratio = torch.exp(RATIO_STEP * price.clamp(-RATIO_UNITS, RATIO_UNITS))
    return torch.stack([PIECES * functional.softplus(quantity), ratio * spot[:, None, :]], -1).flatten(1)


def _in_days(static: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Pieces in days of work, −5..5, instead of shares of the game's capacity L·T.  # (N, 12), (N, days, 10)

    A factory's stock of some pieces is hundredths of L·T, and how much it is in days does not depend on T. The third
    channel is L / (L·T).
    """
    a_day = near[:, :1, 2].clamp(min=1e-4)  # (N, 1)
    static, near = static.clone(), near.clone()
    static[:, STATIC_PIECES] = (static[:, STATIC_PIECES] / a_day).clamp(-5.0, 5.0)
    near[..., NEAR_PIECES] = (near[..., NEAR_PIECES] / a_day[:, None]).clamp(-5.0, 5.0)
    return static, near


_TRANSFORMS: dict[QTransform, Callable[[Tensor], Tensor]] = {
    "none": lambda q: q,
    "log1p": torch.log1p,
    "sqrt": lambda q: torch.sqrt(q + SQRT_FROM),
}


def _windows(x: Tensor, stride: int) -> Tensor:
    """Three neighbouring days side by side: a Linear on it is a Conv1d of kernel 3 with padding 1, faster on a CPU.

    (N, L, C) -> (N, ceil(L / stride), 3C)
    """
    count = (x.shape[1] - 1) // stride + 1
    padded = functional.pad(x, (0, 0, 1, 1))
    return torch.cat([padded[:, j : j + (count - 1) * stride + 1 : stride] for j in range(3)], -1)


@dataclass(frozen=True)
class GoalLoss:
    """Mean squares over the masked numbers: `total` is what is minimised."""

    total: Tensor
    quantity: Tensor
    """of transformed quantities"""
    price: Tensor
    """currency²"""


def goal_loss(
    goal: Tensor, target: Tensor, mask: Tensor, q_transform: QTransform = "none", q_weight: float = 1.0
) -> GoalLoss:
    """Behaviour cloning: (w·Σ m (T(Q̂)−T(Q))² + Σ m (P̂−P)²) / Σ m over the numbers that mean something.

    Prices are compared in currency, as the public goal has them.  # (N, 16) each
    """
    if not (math.isfinite(q_weight) and q_weight > 0):
        raise ValueError(f"q_weight={q_weight} must be positive")
    transform = _TRANSFORMS[q_transform]
    m, g, t = (x.view(-1, 4, 2, 2) for x in (mask.to(goal.dtype), goal, target))
    each = m.sum().clamp(min=1.0) / 2.0  # as many quantities as prices
    quantity = (m[..., 0] * (transform(g[..., 0]) - transform(t[..., 0].clamp(min=0.0))) ** 2).sum() / each
    price = (m[..., 1] * (g[..., 1] - t[..., 1]) ** 2).sum() / each
    return GoalLoss((q_weight * quantity + price) / 2.0, quantity, price)


def load_l2(path: str | Path, device: torch.device | str = "cpu") -> HorizonManagerPPO:
    """The L2 in a file."""
    return load_layer(HorizonManagerPPO, path, device)
