"""What L3's network is given at N decisions, as tensors: `l3_situation` for training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.layers.l3_habits import BUYERS, HabitInputs, kinds_of
from echelon.hrl_xf.layers.l3_situation import (
    P_SIZE,
    Q_SIZE,
    Mode,
    Situation,
    better_offers,
    context_of,
    legal_arrays,
    needed,
    share_of,
)


@dataclass(frozen=True)
class Legal:
    """`LegalArrays` as tensors."""

    accept: Tensor  # (N,) bool
    day: Tensor  # (N, H+1) bool
    least: Tensor  # (N,) smallest quantity
    most: Tensor  # (N, H+1) largest quantity of each day
    first_q: Tensor  # (N,) quantity that index 0 of the quantity head represents
    first_p: Tensor  # (N,) price that index 0 of the price head represents
    low_p: Tensor  # (N,)
    high_p: Tensor  # (N,)
    money: Tensor  # (N,) whole currency: what buys an integer number at an integer price is an integer

    @property
    def reject(self) -> Tensor:
        return self.day.any(-1)

    def ops(self) -> Tensor:
        """ACCEPT, REJECT, END; END is always possible.  # (N, 3)"""
        return torch.stack([self.accept, self.reject, torch.ones_like(self.accept)], -1)

    def quantities(self, day: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Quantities the head's indices represent, and which are legal on `day`.  # (N, size) each"""
        q = self.first_q[:, None] + torch.arange(size, device=day.device)
        most = self.most.gather(1, day[:, None])
        return q, (q >= self.least[:, None]) & (q <= most)

    def prices(self, quantity: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Prices the head's indices represent, and which are legal for `quantity`.  # (N, size) each"""
        p = self.first_p[:, None] + torch.arange(size, device=quantity.device)
        inside = (p >= self.low_p[:, None]) & (p <= self.high_p[:, None])
        return p, inside & (quantity[:, None] * p <= self.money[:, None])


def legal_of(s: Situation, mode: Mode, q_size: int, p_size: int) -> Legal:
    """The masks of N decisions for heads of these sizes."""
    return Legal(*(torch.as_tensor(np.ascontiguousarray(a)) for a in legal_arrays(s, mode, q_size, p_size)))


@dataclass(frozen=True)
class L3Inputs:
    """N decisions as tensors: context, masks and what the candidates are compared with."""

    context: Tensor  # (N, CONTEXT)
    l1_op: Tensor  # (N,)
    base: Tensor  # (N, 3) legal baseline: quantity, days ahead, unit price; quantity 0 where there is none
    seen: Tensor  # (N, 3)
    own: Tensor  # (N, 3)
    need: Tensor  # (N,) pieces of the goal still open on this side, rounded
    share: Tensor  # (N,) what α gives the thread of them, at least one piece
    price_range: Tensor  # (N, 2)
    alpha: Tensor  # (N,) L4's share
    kind: Tensor  # (N,) which kind of thread, of `l3_habits.KINDS`
    time: Tensor  # (N,)
    asked: Tensor  # (N,) the most pieces the partner asked for at once in the last days
    better: Tensor  # (N,) pieces that other threads offer at better prices, about
    legal: Legal

    @classmethod
    def of(cls, s: Situation, mode: Mode) -> L3Inputs:
        to = torch.as_tensor
        return cls(
            to(context_of(s)), to(s.l1_op), to(s.legal_baseline), to(s.seen), to(s.own), to(needed(s)), to(share_of(s)),
            to(s.issues[:, 4:]), to(s.alpha), to(kinds_of(s)), to(s.relative_time), to(s.asked),
            to(better_offers(s)), legal_of(s, mode, Q_SIZE, P_SIZE),
        )  # fmt: skip

    def for_habits(self, habits: Tensor) -> HabitInputs:
        """What the terms of L3's habits look at."""
        legal = self.legal
        most = torch.where(legal.day, legal.most, 0)
        prices = self.price_range.float()
        return HabitInputs(
            habits[self.kind], (self.kind >= BUYERS).float(), self.time.float(), self.asked.float(),
            self.seen.float(), prices[:, :1], prices[:, 1:], most.float(), legal.first_q[:, None].float(),
            legal.first_p[:, None].float(), self.need.float(), self.share.float(), self.better.float(),
        )  # fmt: skip
