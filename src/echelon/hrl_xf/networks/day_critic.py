"""The offline critic: V(day), what a factory will still earn, as a share of its initial balance (spec §7).

    reward(day)  = profit of the day / initial balance          their sum over a game is score − 1
    V(dawn)     ≈ Σ rewards from this day to the last            γ = 1: a stock bought today pays on all days left

It sees what the agent sees at dawn (L2's inputs) and, of its own, `game_inputs`: how many days are left, how long the
game is, and what a day's work and a day's storage are worth compared with the initial balance. L2's inputs leave these
out: its prices are not relative to the money there is. The layers' files do not change for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from echelon.hrl_xf.layers.l2_play import CHANNELS, ROLES, STATIC
from echelon.hrl_xf.networks.files import Layer, load_layer
from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.hrl_xf.state.features import DayFeatures
from echelon.runtime.arrays import Float32
from echelon.runtime.devices import device_of_layer, on_device

GAME = 11
_DAYS, _MOST = 100.0, 5.0
_NEAR = 4


def game_inputs(days: DayBatch, costs: NDArray[np.floating]) -> Float32:
    """What the critic sees in addition to L2's inputs; `costs` (N, 3): shortfall penalty, storage, disposal, of the
    day.

    days left/100 · T/100 · days left · L · (spot in, spot out, production cost)/B0 · stock/L · arrivals/L · sales/L ·
    days left · storage of the stock/B0 · shortfall penalty · place in the chain            each within −5..5  # (N, 11)
    """
    left, start = days.n_steps - days.current_step, np.maximum(days.initial_balance, 1e-6)
    work = left * days.n_lines / start  # pieces that can still be made, for each unit of the initial balance
    shortfall, storage, disposal = np.asarray(costs, np.float64).T
    holding = left * (storage + disposal) * days.spot_price_in * days.inventory_input / start
    columns = (
        left / _DAYS, days.n_steps / _DAYS, work * days.spot_price_in, work * days.spot_price_out,
        work * days.production_cost, days.inventory_input / days.n_lines, days.Q_in[:, 0] / days.n_lines,
        days.Q_out[:, 0] / days.n_lines, holding, shortfall,
        days.my_input_product / np.maximum(days.n_products - 1.0, 1.0),
    )  # fmt: skip
    seen: Float32 = np.clip(np.stack(columns, axis=-1), -_MOST, _MOST).astype(np.float32)
    return seen


class DayCritic(Layer):
    """Convolutions over the days ahead and an MLP for the day, as L2; one head. It starts silent: V = `mean`."""

    def __init__(self, horizon: int = 40, channels: Sequence[int] = (16, 32), hidden: int = 64) -> None:
        super().__init__()
        if horizon < 1 or hidden < 1 or len(channels) != 2 or min(channels) < 1:
            raise ValueError(f"{horizon=} and {hidden=} must be positive and {channels=} two positive numbers")
        self.options = {"horizon": horizon, "channels": list(channels), "hidden": hidden}
        self.horizon = horizon
        first, second = channels
        self.conv1 = nn.Conv1d(CHANNELS, first, 3, stride=2, padding=1)
        self.conv2 = nn.Conv1d(first, second, 3, stride=2, padding=1)
        self.today = nn.Linear(STATIC + ROLES + GAME + CHANNELS * min(_NEAR, horizon + 1), hidden)
        self.trunk = nn.Linear(second + hidden, hidden)
        self.value = nn.Linear(hidden, 1)
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))
        nn.init.zeros_(self.value.weight)
        nn.init.zeros_(self.value.bias)

    @property
    def is_new(self) -> bool:
        """Whether it has learnt nothing yet."""
        return not bool(self.value.weight.any())

    def scale_to(self, mean: float, std: float) -> None:
        """The mean and deviation of the returns it will learn: the head then learns numbers around 0 and 1."""
        if not (np.isfinite(mean) and np.isfinite(std) and std >= 0):
            raise ValueError(f"mean={mean} and std={std} of returns must be finite, std not negative")
        self.mean.fill_(mean)
        self.std.fill_(std if std > 0 else 1.0)

    def scores(self, x_static: Tensor, X_temporal: Tensor, x_role: Tensor, x_game: Tensor) -> Tensor:
        """(V − mean) / std.  (N, 12), (N, H+1, 10), (N, 2), (N, 11) -> (N,)"""
        ahead = functional.relu(self.conv2(functional.relu(self.conv1(X_temporal.transpose(1, 2))))).amax(-1)
        near = X_temporal[:, : min(_NEAR, self.horizon + 1)].flatten(1)
        today = functional.relu(self.today(torch.cat([x_static, x_role, x_game, near], -1)))
        x = functional.relu(self.trunk(torch.cat([ahead, today], -1)))
        score: Tensor = self.value(x).squeeze(-1)
        return score

    def forward(self, x_static: Tensor, X_temporal: Tensor, x_role: Tensor, x_game: Tensor) -> Tensor:
        """V, in initial balances.  # (N,)"""
        return self.mean + self.std * self.scores(x_static, X_temporal, x_role, x_game)

    @torch.no_grad()
    def values(self, x: DayFeatures, x_game: Float32) -> NDArray[np.float64]:
        """V of days whose features are known.  # (N,)"""
        arrays = (x.x_static, x.X_temporal, x.x_role, x_game)
        tensors = tuple(torch.as_tensor(np.ascontiguousarray(a), dtype=torch.float32) for a in arrays)
        return self(*on_device(tensors, device_of_layer(self))).cpu().numpy().astype(np.float64)  # type: ignore[no-any-return]


def load_critic(path: str | Path, device: torch.device | str = "cpu") -> DayCritic:
    """The critic in a file."""
    return load_layer(DayCritic, path, device)
