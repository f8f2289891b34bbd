"""L3's choice at play, in numpy: the distributions of `l3_heads.Heads` for the few threads of a call.

Only threads whose answer is REJECT are asked for day, quantity and price. Draws take the same random numbers as
`Product.sample` does, whoever is asked: one for each thread and head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from echelon.hrl_xf.layers.l3_situation import (
    P_SIZE,
    PIECES,
    PRIOR_SCALE,
    Q_SIZE,
    RATIOS,
    SEEN,
    SHARES,
    LegalArrays,
    Situation,
    context_of,
    legal_arrays,
    needed,
    share_of,
)
from echelon.hrl_xf.layers.play_arrays import Array, Linear, array_of, log_softmax, relu
from echelon.hrl_xf.state.schema import REJECT
from echelon.runtime.arrays import Bools, Ints

if TYPE_CHECKING:
    from echelon.hrl_xf.layers.l3_executor import TemporalDecisionTransformer


@dataclass(frozen=True)
class Chosen:
    """What was chosen at N decisions, and how probable it was."""

    op: Ints  # (N,)
    day: Ints  # (N,) 0 unless REJECT, as the next two
    dq: Ints  # (N,)
    dp: Ints  # (N,)
    offer: Ints  # (N, 3) quantity, unit price, days ahead; zeros unless REJECT
    log_prob: Array  # (N,)
    op_log_probs: Array  # (N, 3)


class PlayHeads:
    """The heads of one layer."""

    def __init__(self, layer: TemporalDecisionTransformer) -> None:
        self.mode, self.view = layer.mode, layer.view
        self.shares = layer.shares and layer.view != "last_token"
        self.fuse, self.mix = Linear(layer.fuse), Linear(layer.mix)
        self.op, self.day, self.day_match = Linear(layer.op), Linear(layer.day), Linear(layer.day_match)
        self.q_hidden, self.p_hidden = Linear(layer.q_hidden), Linear(layer.p_hidden)
        self.q_head, self.p_head, self.p_quantity = Linear(layer.q_head), Linear(layer.p_head), Linear(layer.p_quantity)
        self.q_day, self.p_day = array_of(layer.q_day.weight), array_of(layer.p_day.weight)
        self.op_prior, self.prior = array_of(layer.op_prior), array_of(layer.prior)
        self.days = np.arange(layer.horizon + 1)
        self.quantities, self.prices = np.arange(Q_SIZE), np.arange(P_SIZE)

    def choose(self, state: Array, s: Situation, generator: torch.Generator | None, greedy: bool) -> Chosen:
        """The most probable choice at each decision, or a draw."""
        pick = _Pick(len(s), generator, greedy)
        legal = legal_arrays(s, self.mode, Q_SIZE, P_SIZE)
        h = self._fused(state, s)
        ops = np.empty((len(s), 3), np.bool_)
        ops[:, 0], ops[:, 1], ops[:, 2] = legal.accept, legal.day.any(axis=1), True
        logits = self.op(h)
        if self.view != "last_token":
            logits += PRIOR_SCALE * self.op_prior[s.l1_op]
        op, log_prob, op_log_probs = pick(logits, ops, None)
        day, dq, dp = np.zeros((3, len(s)), np.int64)
        offer = np.zeros((len(s), 3), np.int64)
        asked = np.flatnonzero(op == REJECT)
        if len(asked):
            r = _Rows(s, legal, h, asked)
            chosen_day, of_day, _ = pick(*self._day(r), asked)
            chosen_q, of_q, _ = pick(*self._quantity(r, chosen_day), asked)
            chosen_p, of_p, _ = pick(*self._price(r, chosen_day, chosen_q), asked)
            day[asked], dq[asked], dp[asked] = chosen_day, chosen_q, chosen_p
            offer[asked] = np.stack([r.legal.first_q + chosen_q, r.legal.first_p + chosen_p, chosen_day], axis=-1)
            log_prob[asked] += of_day + of_q + of_p
        else:
            pick.skip(3)
        return Chosen(op, day, dq, dp, offer, log_prob, op_log_probs)

    def _fused(self, state: Array, s: Situation) -> Array:
        context = context_of(s)
        if self.view == "last_token":
            seen, context = context[:, SEEN], np.zeros_like(context)
            context[:, SEEN] = seen
        h = relu(self.fuse(np.concatenate([state, context], axis=1)))
        return h + relu(self.mix(h))

    def _prior(self, i: int) -> float:
        return PRIOR_SCALE * self.prior[i] if self.mode == "residual" else 0.0

    def _day(self, r: _Rows) -> tuple[Array, Bools]:
        logits, match = self.day(r.h), self.day_match(r.h)
        for i, offer in enumerate((r.seen, r.own)):
            logits += match[:, i : i + 1] * ((self.days == offer[:, 2:]) & (offer[:, :1] > 0))
        logits += self._prior(0) * (self.days == r.base[:, 2:])
        return logits, r.legal.day

    def _quantity(self, r: _Rows, day: Ints) -> tuple[Array, Bools]:
        q = r.legal.first_q[:, None] + self.quantities
        most = r.legal.most[r.n, day][:, None]
        out = self.q_head(relu(self.q_hidden(r.h) + self.q_day[day]))
        own_number = np.minimum(np.maximum(q, 0), PIECES - 1)
        logits = out[:, :Q_SIZE] + out[r.n[:, None], Q_SIZE + own_number]
        named = [r.seen[:, :1], r.own[:, :1], most, np.maximum(r.need, 1)[:, None]]
        if self.shares:
            named.append(np.minimum(r.share[:, None], most))
            logits += self._against_share(r, q, most, out)
        for i, other in enumerate(named, Q_SIZE + PIECES):
            logits += out[:, i : i + 1] * (q == other)
        logits += self._prior(1) * (q == r.base[:, :1])
        return logits, (q >= r.legal.least[:, None]) & (q <= most)

    def _against_share(self, r: _Rows, q: Ints, most: NDArray[np.integer], out: Array) -> Array:
        part = np.maximum(most.astype(np.float32) * r.alpha[:, None], np.float32(0.5))
        at = np.float32(2.0) * np.log2(np.maximum(q, 1).astype(np.float32) / part) + np.float32((SHARES - 1) / 2)
        at = np.minimum(np.maximum(at, 0), np.float32(SHARES - 1))
        below = np.minimum(np.floor(at), np.float32(SHARES - 2))
        rest, place, n = at - below, out.shape[1] - SHARES + below.astype(np.int64), r.n[:, None]
        found: Array = (1 - rest) * out[n, place] + rest * out[n, place + 1]
        return found

    def _price(self, r: _Rows, day: Ints, dq: Ints) -> tuple[Array, Bools]:
        size, ratios = P_SIZE, RATIOS
        quantity, legal = r.legal.first_q + dq, r.legal
        p = legal.first_p[:, None] + self.prices
        amount = np.log1p(np.maximum(quantity, 0).astype(np.float32))[:, None] / np.float32(3.0)
        out = self.p_head(relu(self.p_hidden(r.h) + self.p_day[day] + self.p_quantity(amount)))
        spread = np.maximum(r.high - r.low, 1).astype(np.float32)
        ratio = (p - r.low).astype(np.float32) / spread
        ratio = np.minimum(np.maximum(ratio, 0), 1) * np.float32(ratios - 1)
        below = np.minimum(np.floor(ratio), np.float32(ratios - 2))
        part, at = ratio - below, size + below.astype(np.int64)
        n = r.n[:, None]
        logits = out[:, :size] + (1 - part) * out[n, at] + part * out[n, at + 1]
        for i, offer in enumerate((r.seen, r.own), size + ratios):
            logits += out[:, i : i + 1] * ((p == offer[:, 1:2]) & (offer[:, :1] > 0))
        logits += self._prior(2) * (p == r.base[:, 1:2])
        inside = (p >= legal.low_p[:, None]) & (p <= legal.high_p[:, None])
        return logits, inside & (quantity[:, None] * p <= legal.money[:, None])


class _Rows:
    """The decisions that are asked for an offer."""

    def __init__(self, s: Situation, legal: LegalArrays, h: Array, asked: Ints) -> None:
        self.n = np.arange(len(asked))
        self.h, self.legal = h[asked], legal.take(asked)
        self.seen, self.own, self.base = s.seen[asked], s.own[asked], s.offer_base[asked]
        self.need, self.share, self.alpha = needed(s)[asked], share_of(s)[asked], s.alpha[asked]
        self.low, self.high = s.issues[asked, 4:5], s.issues[asked, 5:6]


class _Pick:
    """Chooses from masked logits, head by head."""

    def __init__(self, n: int, generator: torch.Generator | None, greedy: bool) -> None:
        self.n, self.generator, self.greedy = n, generator, greedy

    def __call__(self, logits: Array, allowed: Bools, rows: Ints | None) -> tuple[Ints, Array, Array]:
        """The choices, their log-probabilities, and those of all choices. `rows` says whose the logits are."""
        log_probs = log_softmax(np.where(allowed, logits, np.float32(-np.inf)))
        if self.greedy:
            chosen = log_probs.argmax(axis=1)
        else:
            uniform = self._uniform() if rows is None else self._uniform()[rows]
            cumulative = np.exp(log_probs).cumsum(axis=1)
            chosen = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(axis=1)
        return chosen, log_probs[np.arange(len(chosen)), chosen], log_probs

    def skip(self, heads: int) -> None:
        """Heads that nobody is asked; their random numbers are used up."""
        for _ in range(0 if self.greedy else heads):
            self._uniform()

    def _uniform(self) -> Array:
        found: Array = torch.rand(self.n, generator=self.generator).numpy()
        return found
