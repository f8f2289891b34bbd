"""L3's heads at N decisions, and the inputs they look at. `l3_inference` has the same in numpy, for play.

A quantity or price is scored by what it is relative to the baseline, but also by what it is in itself (pieces; place in
the issue's price range) and by whether it repeats an offer: experts name round quantities, best prices and what was
said before, none of which is one Δ. A quantity also by what it is of the thread's share, of the open goal (exactly) and
of what may be traded (on a scale).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from echelon.hrl_xf.l1_safety import REJECT
from echelon.hrl_xf.l3_situation import SEEN, Legal, Mode, Situation, context_of, legal_of, needed, share_of
from echelon.hrl_xf.thread_tables import DELTA_P, DELTA_Q
from echelon.onpolicy.distributions import Gated, MaskedCategorical, Product

if TYPE_CHECKING:
    from echelon.hrl_xf.l3_executor import TemporalDecisionTransformer

Q_SIZE, P_SIZE = 2 * DELTA_Q + 1, 2 * DELTA_P + 1
PRIOR = 1.0
"""How far L1's choice stands above the others before anything is learnt, as logits: enough to be chosen, and no more
to unlearn than must be (4 gave 1.64 where 1 gave 1.60)."""
PRIOR_SCALE = 20.0
"""Priors are stored divided by it: an optimiser's step then moves them as far as a layer of weights moves a logit."""
PIECES = 32
"""Quantities with a number of their own; larger ones share the last."""
RATIOS = 11
SHARES = 9
"""Places on the scale of a quantity against the thread's share: 1/4 to 4 times, in steps of √2."""


@dataclass(frozen=True)
class L3Inputs:
    """N decisions as tensors: context, masks and what the candidates are compared with."""

    context: Tensor  # (N, CONTEXT)
    l1_op: Tensor  # (N,)
    base: Tensor  # (N, 3) legal baseline: quantity, unit price, days ahead; quantity 0 where there is none
    seen: Tensor  # (N, 3)
    own: Tensor  # (N, 3)
    need: Tensor  # (N,) pieces of the goal still open on this side, rounded
    share: Tensor  # (N,) what α gives the thread of them, at least one piece
    price_range: Tensor  # (N, 2)
    alpha: Tensor  # (N,) L4's share
    legal: Legal

    @classmethod
    def of(cls, s: Situation, mode: Mode) -> L3Inputs:
        to = torch.as_tensor
        return cls(
            to(context_of(s)), to(s.l1_op), to(s.offer_base), to(s.seen), to(s.own), to(needed(s)), to(share_of(s)),
            to(s.issues[:, 4:]), to(s.alpha), legal_of(s, mode, Q_SIZE, P_SIZE),
        )  # fmt: skip


class Heads:
    """The heads at N decisions: fused once, then a chain op → day → quantity → price."""

    def __init__(self, layer: TemporalDecisionTransformer, state: Tensor, x: L3Inputs) -> None:
        self.net, self.x = layer, x
        context = x.context
        if layer.view == "last_token":
            context = torch.zeros_like(context)
            context[:, SEEN] = x.context[:, SEEN]
        h = functional.relu(layer.fuse(torch.cat([state, context], -1)))
        self.h: Tensor = h + functional.relu(layer.mix(h))
        self.based = layer.mode == "residual"

    def product(self) -> Product:
        return Product({"op": self.op(), "day": self.day, "dq": self.quantity, "dp": self.price})

    def op(self) -> MaskedCategorical:
        logits = self.net.op(self.h)
        if self.net.view != "last_token":
            logits = logits + PRIOR_SCALE * self.net.op_prior[self.x.l1_op]
        return MaskedCategorical(logits, self.x.legal.ops())

    def day(self, earlier: Mapping[str, Tensor]) -> Gated:
        days = torch.arange(self.net.horizon + 1, device=self.h.device)
        logits = self.net.day(self.h)
        match = self.net.day_match(self.h)
        for i, offer in enumerate((self.x.seen, self.x.own)):
            repeats = (days == offer[:, 2:]) & (offer[:, :1] > 0)
            logits = logits + match[:, i : i + 1] * repeats
        if self.based:
            logits = logits + PRIOR_SCALE * self.net.prior[0] * (days == self.x.base[:, 2:])
        return Gated(MaskedCategorical(logits, self.x.legal.day), earlier["op"] == REJECT)

    def quantity(self, earlier: Mapping[str, Tensor]) -> Gated:
        day, x = earlier["day"], self.x
        q, allowed = x.legal.quantities(day, Q_SIZE)  # (N, 61) each
        out = self.net.q_head(functional.relu(self.net.q_hidden(self.h) + self.net.q_day(day)))
        logits = out[:, :Q_SIZE] + out[:, Q_SIZE : Q_SIZE + PIECES].gather(1, q.clamp(0, PIECES - 1))
        most = x.legal.most.gather(1, day[:, None])
        named = [x.seen[:, :1], x.own[:, :1], most, x.need[:, None].clamp(min=1)]
        shares = self.net.shares and self.net.view != "last_token"  # α tells how many threads there are
        if shares:
            named.append(x.share[:, None].minimum(most))
            logits = logits + against_share(q, most, x.alpha, out[:, -SHARES:])
        for i, quantity in enumerate(named):
            logits = logits + out[:, Q_SIZE + PIECES + i, None] * (q == quantity)
        if self.based:
            logits = logits + PRIOR_SCALE * self.net.prior[1] * (q == x.base[:, :1])
        return Gated(MaskedCategorical(logits, allowed), earlier["op"] == REJECT)

    def price(self, earlier: Mapping[str, Tensor]) -> Gated:
        day, x = earlier["day"], self.x
        quantity = x.legal.first_q + earlier["dq"]
        p, allowed = x.legal.prices(quantity, P_SIZE)  # (N, 41) each
        size = torch.log1p(quantity.clamp(min=0).to(self.h.dtype))[:, None] / 3.0
        hidden = self.net.p_hidden(self.h) + self.net.p_day(day) + self.net.p_quantity(size)
        out = self.net.p_head(functional.relu(hidden))
        low, high = x.price_range[:, :1], x.price_range[:, 1:]
        ratio = ((p - low) / (high - low).clamp(min=1)).clamp(0.0, 1.0) * (RATIOS - 1)  # (N, 41)
        below = ratio.floor().clamp(max=RATIOS - 2)
        places = out[:, P_SIZE : P_SIZE + RATIOS]
        part = ratio - below
        at = below.long()
        logits = out[:, :P_SIZE] + (1 - part) * places.gather(1, at) + part * places.gather(1, at + 1)
        for i, offer in enumerate((x.seen, x.own)):
            logits = logits + out[:, P_SIZE + RATIOS + i, None] * ((p == offer[:, 1:2]) & (offer[:, :1] > 0))
        if self.based:
            logits = logits + PRIOR_SCALE * self.net.prior[2] * (p == x.base[:, 1:2])
        return Gated(MaskedCategorical(logits, allowed), earlier["op"] == REJECT)


def against_share(q: Tensor, most: Tensor, alpha: Tensor, places: Tensor) -> Tensor:
    """Logits of quantities by q / (α · most), what it is of a fair part.  # (N, K), (N, 1), (N,), (N, 9) -> (N, K)

    Ten pieces to one of two partners and three to one of six are the same habit: a scale that says so carries over to
    worlds with another number of partners, where pieces do not.
    """
    part = (most * alpha[:, None]).clamp(min=0.5)
    at = (2.0 * torch.log2(q.clamp(min=1) / part) + (SHARES - 1) / 2).clamp(0.0, SHARES - 1.0)
    below = at.floor().clamp(max=SHARES - 2)
    rest, place = at - below, below.long()
    return (1.0 - rest) * places.gather(1, place) + rest * places.gather(1, place + 1)
