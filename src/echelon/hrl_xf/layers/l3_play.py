"""L3 at play, in numpy: the distributions of `l3_executor.Heads` for the few threads of a call.

Only threads whose answer is REJECT are asked for day, quantity and price. Draws take one random number for each thread
and head, also where none is asked, as `Product.sample` does.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.layers.l3_habits import (
    KINDS,
    TERMS,
    HabitInputs,
    answer_terms,
    day_terms,
    habit_inputs,
    price_terms,
    quantity_terms,
)
from echelon.hrl_xf.layers.l3_history import HistoryCache, PlayTrunk
from echelon.hrl_xf.layers.l3_situation import (
    CONTEXT,
    P_SIZE,
    PIECES,
    PRIOR_SCALE,
    Q_SIZE,
    RATIOS,
    SEEN,
    SHARES,
    LegalArrays,
    Mode,
    Situation,
    context_of,
    legal_arrays,
    needed,
    share_of,
)
from echelon.hrl_xf.layers.play_arrays import Weights, log_softmax, relu
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.state.day_state import REJECT
from echelon.runtime.arrays import Bools, Float32, Ints

View = Literal["all", "context", "last_token"]
"""What the network looks at; the second and third are controls."""


@runtime_checkable
class LearntExecutor(Protocol):
    """A learnt L3, in torch or numpy. It reads histories where `view` is "all"."""

    mode: Mode
    view: View
    width: int
    """of a history's state"""

    def new_cache(self, threads: int) -> HistoryCache:
        """Caches for the histories of `threads` threads, all empty."""

    def act(
        self,
        state: Float32,  # (N, width)
        situation: Situation,
        *,
        generator: np.random.Generator | None = None,
        greedy: bool = True,
    ) -> L3Actions:
        """Choose at N decisions: the most probable, or a draw."""


class PlayExecutor:
    """A `TemporalDecisionTransformer` of these options, in numpy."""

    network: ClassVar[str] = "TemporalDecisionTransformer"

    def __init__(
        self,
        weights: Weights,
        *,
        horizon: int,
        mode: Mode,
        width: int,
        heads: int,
        layers: int,
        hidden: int,
        max_tokens: int,
        view: View,
        shares: bool = False,  # files that do not name it are older than it
        habits: bool = False,
    ) -> None:
        self.mode, self.view, self.width, half = mode, view, width, hidden // 2
        self.shares = shares and view != "last_token"
        self.trunk = PlayTrunk(weights.below("trunk"), width, heads, layers, max_tokens)
        self.fuse, self.mix = weights.linear("fuse", width + CONTEXT, hidden), weights.linear("mix", hidden, hidden)
        self.op, self.day = weights.linear("op", hidden, 3), weights.linear("day", hidden, horizon + 1)
        self.day_match, self.p_quantity = weights.linear("day_match", hidden, 2), weights.linear("p_quantity", 1, half)
        self.q_hidden, self.p_hidden = (
            weights.linear("q_hidden", hidden, half),
            weights.linear("p_hidden", hidden, half),
        )
        self.q_head = weights.linear("q_head", half, Q_SIZE + PIECES + 4 + shares * (1 + SHARES))
        self.p_head = weights.linear("p_head", half, P_SIZE + RATIOS + 2)
        self.q_day, self.p_day = (weights.take(f"{name}.weight", horizon + 1, half) for name in ("q_day", "p_day"))
        self.op_prior, self.prior = weights.take("op_prior", 3, 3), weights.take("prior", 3)
        self.habits = weights.take("habits", len(KINDS), len(TERMS)) if habits else None
        self.days = np.arange(horizon + 1)
        self.quantities, self.prices = np.arange(Q_SIZE), np.arange(P_SIZE)
        self._places = [x.astype(np.float32) for x in (self.days, self.quantities, self.prices)]

    def new_cache(self, threads: int) -> HistoryCache:
        """Caches for the histories of `threads` threads, all empty."""
        return HistoryCache(self.trunk, threads)

    def act(
        self,
        state: Float32,
        situation: Situation,
        *,
        generator: np.random.Generator | None = None,
        greedy: bool = True,
    ) -> L3Actions:
        """The most probable choice at each decision, or a draw."""
        s = situation
        pick = _Pick(len(s), generator, greedy)
        legal = legal_arrays(s, self.mode, Q_SIZE, P_SIZE)
        h = self._fused(state, s)
        ops = np.empty((len(s), 3), np.bool_)
        ops[:, 0], ops[:, 1], ops[:, 2] = legal.accept, legal.day.any(axis=1), True
        logits = self.op(h)
        if self.view != "last_token":
            logits += PRIOR_SCALE * self.op_prior[s.l1_op]
        habits = None if self.habits is None else habit_inputs(self.habits, s, legal)
        if habits is not None:
            logits = logits + answer_terms(np, habits, self._places[0])
        op, log_prob, op_log_probs = pick(logits, ops, None)
        day, dq, dp = np.zeros((3, len(s)), np.int64)
        offer = np.zeros((len(s), 3), np.int64)
        asked = np.flatnonzero(op == REJECT)
        if len(asked):
            r = _Rows(s, legal, h, asked, habits)
            chosen_day, of_day, _ = pick(*self._day(r), asked)
            chosen_q, of_q, _ = pick(*self._quantity(r, chosen_day), asked)
            chosen_p, of_p, _ = pick(*self._price(r, chosen_day, chosen_q), asked)
            day[asked], dq[asked], dp[asked] = chosen_day, chosen_q, chosen_p
            offer[asked] = np.stack([r.legal.first_q + chosen_q, chosen_day, r.legal.first_p + chosen_p], axis=-1)
            log_prob[asked] += of_day + of_q + of_p
        else:
            pick.skip(3)
        return L3Actions(op, offer, {"op": op, "day": day, "dq": dq, "dp": dp}, log_prob, op_log_probs)

    def _fused(self, state: Float32, s: Situation) -> Float32:
        context = context_of(s)
        if self.view == "last_token":
            seen, context = context[:, SEEN], np.zeros_like(context)
            context[:, SEEN] = seen
        h = relu(self.fuse(np.concatenate([state, context], axis=1)))
        return h + relu(self.mix(h))

    def _prior(self, i: int) -> float:
        return PRIOR_SCALE * self.prior[i] if self.mode == "residual" else 0.0

    def _day(self, r: _Rows) -> tuple[Float32, Bools]:
        logits, match = self.day(r.h), self.day_match(r.h)
        for i, offer in enumerate((r.seen, r.own)):
            logits += match[:, i : i + 1] * ((self.days == offer[:, 1:2]) & (offer[:, :1] > 0))
        logits += self._prior(0) * (self.days == r.base[:, 1:2])
        if r.habits is not None:
            logits = logits + day_terms(np, r.habits, self._places[0])
        return logits, r.legal.day

    def _quantity(self, r: _Rows, day: Ints) -> tuple[Float32, Bools]:
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
        if r.habits is not None:
            logits = logits + quantity_terms(np, r.habits, self._places[1])
        return logits, (q >= r.legal.least[:, None]) & (q <= most)

    def _against_share(self, r: _Rows, q: Ints, most: NDArray[np.integer], out: Float32) -> Float32:
        part = np.maximum(most.astype(np.float32) * r.alpha[:, None], np.float32(0.5))
        at = np.float32(2.0) * np.log2(np.maximum(q, 1).astype(np.float32) / part) + np.float32((SHARES - 1) / 2)
        at = np.minimum(np.maximum(at, 0), np.float32(SHARES - 1))
        below = np.minimum(np.floor(at), np.float32(SHARES - 2))
        rest, place, n = at - below, out.shape[1] - SHARES + below.astype(np.int64), r.n[:, None]
        found: Float32 = (1 - rest) * out[n, place] + rest * out[n, place + 1]
        return found

    def _price(self, r: _Rows, day: Ints, dq: Ints) -> tuple[Float32, Bools]:
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
            logits += out[:, i : i + 1] * ((p == offer[:, 2:]) & (offer[:, :1] > 0))
        logits += self._prior(2) * (p == r.base[:, 2:])
        if r.habits is not None:
            logits = logits + price_terms(np, r.habits, self._places[2])
        inside = (p >= legal.low_p[:, None]) & (p <= legal.high_p[:, None])
        return logits, inside & (quantity[:, None] * p <= legal.money[:, None])


class _Rows:
    """The decisions that are asked for an offer."""

    def __init__(self, s: Situation, legal: LegalArrays, h: Float32, asked: Ints, habits: HabitInputs | None) -> None:
        self.n = np.arange(len(asked))
        self.habits = None if habits is None else habits.take(asked)
        self.h, self.legal = h[asked], legal.take(asked)
        self.seen, self.own, self.base = s.seen[asked], s.own[asked], s.legal_baseline[asked]
        self.need, self.share, self.alpha = needed(s)[asked], share_of(s)[asked], s.alpha[asked]
        self.low, self.high = s.issues[asked, 4:5], s.issues[asked, 5:6]


class _Pick:
    """Chooses from masked logits, head by head."""

    def __init__(self, n: int, generator: np.random.Generator | None, greedy: bool) -> None:
        if generator is None and not greedy:
            raise ValueError("to draw, L3 needs a generator; give one, or choose greedily")
        self.n, self.generator, self.greedy = n, generator, greedy

    def __call__(self, logits: Float32, allowed: Bools, rows: Ints | None) -> tuple[Ints, Float32, Float32]:
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
        """Heads that are not needed; their random numbers are consumed."""
        for _ in range(0 if self.greedy else heads):
            self._uniform()

    def _uniform(self) -> Float32:
        assert self.generator is not None
        return self.generator.random(self.n, np.float32)
