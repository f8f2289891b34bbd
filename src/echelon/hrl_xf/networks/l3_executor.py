"""L3: the round's action, as distributions over residuals to L1's baseline (spec §7).

    op          logits of a head + a prior given by L1's own answer
    days ahead  masked by what is legal, a prior on the baseline's day
    quantity    given the day: baseline + Δq, −30..30 pieces
    price       given day and quantity: baseline + Δp, −20..20 of currency

All heads begin at zero, so an untrained L3 answers exactly as L1 does. The masks of `l3_situation` leave only legal
choices: the action that was drawn is the action that is played, and its log-probability is right.

Mode "direct" (scheme F) has no baseline and no prior: pieces from 1, prices from the bottom of the issue.

A quantity or price is scored by what it is relative to the baseline, but also by what it is in itself (pieces; place in
the issue's price range) and by whether it repeats an offer: experts name round quantities, best prices and what was
said before, none of which is one Δ. A quantity also by what it is of the thread's share, of the open goal (exactly) and
of what may be traded (on a scale). `l3_play` has the same in numpy, for play.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.hrl_xf.layers.l3_habits import KINDS, TERMS, answer_terms, day_terms, price_terms, quantity_terms
from echelon.hrl_xf.layers.l3_history import HistoryCache
from echelon.hrl_xf.layers.l3_play import PlayExecutor, View
from echelon.hrl_xf.layers.l3_situation import (
    CONTEXT,
    P_SIZE,
    PIECES,
    PRIOR,
    PRIOR_SCALE,
    Q_SIZE,
    RATIOS,
    SEEN,
    SHARES,
    Mode,
    Situation,
)
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.networks.files import Layer, load_layer
from echelon.hrl_xf.networks.l3_inputs import L3Inputs
from echelon.hrl_xf.networks.l3_trunk import HistoryTrunk
from echelon.hrl_xf.networks.player_cache import PlayerCache, weights_of
from echelon.hrl_xf.state.day_state import REJECT
from echelon.onpolicy.distributions import Gated, MaskedCategorical, Parts, Product
from echelon.runtime.arrays import Float32


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
        self.habits = None if layer.habits is None else x.for_habits(layer.habits)

    def _places(self, count: int) -> Tensor:
        return torch.arange(count, dtype=torch.float32, device=self.h.device)

    def product(self) -> Product:
        return Product({"op": self.op(), "day": self.day, "dq": self.quantity, "dp": self.price})

    def op(self) -> MaskedCategorical:
        logits = self.net.op(self.h)
        if self.net.view != "last_token":
            logits = logits + PRIOR_SCALE * self.net.op_prior[self.x.l1_op]
        if self.habits is not None:
            logits = logits + answer_terms(torch, self.habits, self._places(self.net.horizon + 1))
        return MaskedCategorical(logits, self.x.legal.ops())

    def day(self, earlier: Mapping[str, Tensor]) -> Gated:
        days = torch.arange(self.net.horizon + 1, device=self.h.device)
        logits = self.net.day(self.h)
        match = self.net.day_match(self.h)
        for i, offer in enumerate((self.x.seen, self.x.own)):
            repeats = (days == offer[:, 1:2]) & (offer[:, :1] > 0)
            logits = logits + match[:, i : i + 1] * repeats
        if self.based:
            logits = logits + PRIOR_SCALE * self.net.prior[0] * (days == self.x.base[:, 1:2])
        if self.habits is not None:
            logits = logits + day_terms(torch, self.habits, self._places(self.net.horizon + 1))
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
        if self.habits is not None:
            logits = logits + quantity_terms(torch, self.habits, self._places(Q_SIZE))
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
            logits = logits + out[:, P_SIZE + RATIOS + i, None] * ((p == offer[:, 2:]) & (offer[:, :1] > 0))
        if self.based:
            logits = logits + PRIOR_SCALE * self.net.prior[2] * (p == x.base[:, 2:])
        if self.habits is not None:
            logits = logits + price_terms(torch, self.habits, self._places(P_SIZE))
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


class TemporalDecisionTransformer(Layer):
    """History trunk, context fused at the read-out, four heads.

    Validation stops improving at 46,000 to 112,000 parameters (`experiments/size_curve.py`, docs/results.md): 6,000 /
    14,000 / 46,000 / 112,000 / 284,000 gave a loss of 2.10 / 2.08 / 1.96 / 1.95 / 2.00.
    """

    unnamed: ClassVar[Mapping[str, Any]] = {"shares": False, "habits": False}

    def __init__(
        self,
        horizon: int = 40,
        mode: Mode = "residual",
        width: int = 48,
        heads: int = 4,
        layers: int = 2,
        hidden: int = 128,
        max_tokens: int = 48,
        view: View = "all",
        shares: bool = True,
        habits: bool = False,
    ) -> None:
        """`shares`: a quantity is also scored by how it compares with the thread's share of what may be traded.

        `habits`: the terms of `l3_habits` are added to the logits. They need a memory of partners, which logs do not
        hold, so layers that learn from logs do without; evolution adds them (`with_habits`).
        """
        super().__init__()
        if min(horizon, width, heads, layers, hidden, max_tokens) < 1 or width % heads:
            raise ValueError(f"sizes must be positive and {width=} a multiple of {heads=}")
        if mode not in ("residual", "direct") or view not in ("all", "context", "last_token"):
            raise ValueError(f"{mode=} must be residual or direct, {view=} all, context or last_token")
        self.options = {
            "horizon": horizon, "mode": mode, "width": width, "heads": heads, "layers": layers, "hidden": hidden,
            "max_tokens": max_tokens, "view": view, "shares": shares, "habits": habits,
        }  # fmt: skip
        self.horizon, self.mode, self.width, self.view, self.shares = horizon, mode, width, view, shares
        self.trunk = HistoryTrunk(width, heads, layers, max_tokens)
        self.fuse = nn.Linear(width + CONTEXT, hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.op, self.day, self.day_match = nn.Linear(hidden, 3), nn.Linear(hidden, horizon + 1), nn.Linear(hidden, 2)
        self.q_hidden, self.p_hidden = nn.Linear(hidden, hidden // 2), nn.Linear(hidden, hidden // 2)
        self.q_day, self.p_day = nn.Embedding(horizon + 1, hidden // 2), nn.Embedding(horizon + 1, hidden // 2)
        self.p_quantity = nn.Linear(1, hidden // 2)
        self.q_head = nn.Linear(hidden // 2, Q_SIZE + PIECES + 4 + shares * (1 + SHARES))
        self.p_head = nn.Linear(hidden // 2, P_SIZE + RATIOS + 2)
        prior = PRIOR if mode == "residual" else 0.0
        self.op_prior = nn.Parameter(prior / PRIOR_SCALE * torch.eye(3))  # row: L1's answer
        self.prior = nn.Parameter(torch.full((3,), prior / PRIOR_SCALE))  # the baseline's day, quantity, price
        self.habits = nn.Parameter(torch.zeros(len(KINDS), len(TERMS))) if habits else None
        for head in (self.op, self.day, self.day_match, self.q_head, self.p_head):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)
        for table in (self.q_day, self.p_day):
            nn.init.normal_(table.weight, std=0.1)

    def with_habits(self) -> TemporalDecisionTransformer:
        """The same layer with habits; it plays as before until they are learnt."""
        if self.habits is not None:
            return self
        layer = TemporalDecisionTransformer(**{**self.options, "habits": True})
        layer.load_state_dict(self.state_dict(), strict=False)
        return layer

    def new_cache(self, threads: int) -> HistoryCache:
        """Caches for the histories of `threads` threads, all empty."""
        return _PLAY.of(self, self.fuse.weight).new_cache(threads)

    def states(self, tokens: Tensor, mask: Tensor, thread: Tensor, history: Tensor) -> Tensor:
        """The history's state at each decision.  # (B, L, 4), (B, L), (N,), (N,) -> (N, w)"""
        if self.view != "all":
            return self.trunk.begin.new_zeros(len(thread), self.trunk.width)
        found: Tensor = self.trunk(tokens, mask)[thread, history]
        return found

    def policy(self, state: Tensor, x: L3Inputs) -> Product:
        """The distribution over (op, day, dq, dp) at each decision."""
        return Heads(self, state, x).product()

    def forward(self, tokens: Tensor, mask: Tensor, thread: Tensor, history: Tensor, x: L3Inputs) -> Product:
        """One causal pass over B threads serves their N decisions."""
        return self.policy(self.states(tokens, mask, thread, history), x)

    def act(
        self,
        state: Float32 | Tensor,
        situation: Situation,
        *,
        generator: np.random.Generator | None = None,
        greedy: bool = True,
    ) -> L3Actions:
        """Choose at N decisions, as in play: in numpy, wherever the layer is."""
        return _PLAY.of(self, self.fuse.weight).act(np.asarray(state), situation, generator=generator, greedy=greedy)

    def offers(self, parts: Parts, x: L3Inputs) -> Tensor:
        """The offers that stored choices represent; zeros unless REJECT.  # (N, 3) quantity, days ahead, unit price"""
        offer = torch.stack([x.legal.first_q + parts["dq"], parts["day"], x.legal.first_p + parts["dp"]], -1)
        return offer.masked_fill((parts["op"] != REJECT)[:, None], 0)


_PLAY: PlayerCache[TemporalDecisionTransformer, PlayExecutor] = PlayerCache(
    lambda layer: PlayExecutor(weights_of(layer), **{**layer.unnamed, **layer.options})
)


def load_l3(path: str | Path, device: torch.device | str = "cpu") -> TemporalDecisionTransformer:
    """The L3 in a file."""
    return load_layer(TemporalDecisionTransformer, path, device)
