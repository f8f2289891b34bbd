"""The critic of moments: what a seat will still earn, in initial balances, at dawn or at a call.

    V = profit of what is signed (`potential`) + what the network says

It sees the day with all that was signed since dawn among its commitments, the moment within the day, and, since it is
only used in training, what the agent cannot see: who sits on the levels around it. One that was trained offline
(`hrl train --l3-awr`) can be its start; that one values all that is to come, so `potential` is then left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from echelon.hrl_xf.layers.l2_play import ROLES, STATIC
from echelon.hrl_xf.networks.day_critic import GAME, DayCritic
from echelon.hrl_xf.online.wishes import MOMENT, Table
from echelon.hrl_xf.online.worlds import CENTRAL
from echelon.onpolicy.optimizer import JointAdam
from echelon.onpolicy.ppo import part_of_state
from echelon.runtime.arrays import Floats

INPUTS = ("x_static", "X_temporal", "x_role", "x_game", "x_moment", "x_central", "potential")
CHUNK = 8192


class MomentCritic(nn.Module):
    """A `DayCritic` of the day as it stands, and an MLP for what it does not see."""

    def __init__(self, day: DayCritic | None = None, hidden: int = 64) -> None:
        """`day`: an offline critic to start from."""
        super().__init__()
        fresh = day is None
        self.day = DayCritic() if day is None else day
        width = STATIC + ROLES + GAME + MOMENT + CENTRAL
        self.more = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.out = nn.Linear(hidden, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.with_potential: Tensor
        self.register_buffer("with_potential", torch.tensor(float(fresh)))

    def forward(self, x: Mapping[str, Tensor]) -> Tensor:
        """V of N moments.  # (N,)"""
        temporal = x["X_temporal"].float()
        day = self.day.scores(x["x_static"], temporal, x["x_role"], x["x_game"])
        parts = [x[name] for name in ("x_static", "x_role", "x_game", "x_moment", "x_central")]
        rest = day + self.out(self.more(torch.cat(parts, -1))).squeeze(-1)
        value: Tensor = self.with_potential * x["potential"] + self.day.mean + self.day.std * rest
        return value

    @torch.no_grad()
    def values(self, moments: Table) -> Floats:
        """V of moments as arrays.  # (N,)"""
        found = [self(piece).double().numpy() for piece in _pieces(moments)]
        return np.concatenate(found) if found else np.zeros(0)


@dataclass(frozen=True)
class CriticStats:
    """What the critic learnt in a round."""

    loss: float
    """mean square of the error of the last epoch, in units of the targets' deviation"""
    explained_variance: float
    """1 − Var(target − V) / Var(target), before it learnt from these moments"""


class CriticLearner:
    """Fits the critic to the targets of a round."""

    def __init__(self, critic: MomentCritic, lr: float, epochs: int, minibatch: int, seed: int) -> None:
        self.critic, self.epochs, self.minibatch = critic, epochs, minibatch
        self.optimizer = JointAdam(critic.parameters(), lr)
        self.generator = torch.Generator().manual_seed(seed)

    def fit(self, moments: Table, target: Floats, before: Floats, epochs: int | None = None) -> CriticStats:
        """Some epochs over the moments; `before` are the values it gave them."""
        critic, goal = self.critic, torch.from_numpy(target.astype(np.float32))
        if critic.day.is_new:
            rest = target - float(critic.with_potential) * moments["potential"]
            critic.day.scale_to(float(rest.mean()), float(rest.std()))
        spread = float(np.var(target))
        tensors, losses = _tensors(moments), [0.0]
        for _ in range(self.epochs if epochs is None else epochs):
            losses = []
            order = torch.randperm(len(goal), generator=self.generator)
            for at in torch.split(order, self.minibatch):
                self.optimizer.zero_grad()
                error = (critic({name: t[at] for name, t in tensors.items()}) - goal[at]) / critic.day.std
                loss = functional.huber_loss(error, torch.zeros_like(error), delta=2.0)
                loss.backward()  # type: ignore[no-untyped-call]
                self.optimizer.step()
                losses.append(float(loss.detach()))
        explained = 1.0 - float(np.var(target - before)) / spread if spread > 0 else float("nan")
        return CriticStats(float(np.mean(losses)), explained)

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes; flat."""
        state = {f"critic.{name}": t.detach().clone() for name, t in self.critic.state_dict().items()}
        state |= {f"optimizer.{name}": t for name, t in self.optimizer.state_dict().items()}
        return state | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.critic.load_state_dict(part_of_state(state, "critic."))
        self.optimizer.load_state_dict(part_of_state(state, "optimizer."))
        self.generator.set_state(state["generator"])


def _tensors(moments: Mapping[str, NDArray[np.generic]]) -> dict[str, Tensor]:
    found = {}
    for name in INPUTS:
        array = moments[name].astype(np.float32) if name == "potential" else moments[name]
        found[name] = torch.from_numpy(np.ascontiguousarray(array))
    return found


def _pieces(moments: Table) -> Iterator[dict[str, Tensor]]:
    tensors = _tensors(moments)
    for i in range(0, len(moments["potential"]), CHUNK):
        yield {name: t[i : i + CHUNK] for name, t in tensors.items()}
