"""A day in play: what the agent knows since dawn, and its answers to all threads of a call at once.

At dawn: `DayState` → features → L2's goal. At each call: L1's view of the threads → L4's α → L3, one forward for all →
reservation in the order of α. Threads are in the order of their names, so the order in which a simulator lists them
changes nothing.

What L3 and L4 see is made by the same functions as their training data, from the same things: the state at dawn, the
deals signed since, and the offers that were really exchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from echelon.hrl_xf.layers.l2_play import LearntManager
from echelon.hrl_xf.layers.l3_adjust import guarded, modulated
from echelon.hrl_xf.layers.l3_history import HistoryCache
from echelon.hrl_xf.layers.l3_play import LearntExecutor
from echelon.hrl_xf.layers.l3_situation import Situation
from echelon.hrl_xf.layers.l4_features import ThreadStates, global_features, thread_features
from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.play.memory import PartnerMemory
from echelon.hrl_xf.state.day_batch import Ledger, day_batch, outcome_of
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT, DayState, Offer, Role
from echelon.hrl_xf.state.features import StateBuilder, role_one_hot
from echelon.hrl_xf.state.goals import GOAL_SIZE, open_goal
from echelon.hrl_xf.state.l1_safety import L1Output, L1SafetyLayer, LegalOffers
from echelon.hrl_xf.state.reservation import NOTHING, Reservations, Wish, settle_call
from echelon.hrl_xf.state.threads import others_in_sight, tokens_of
from echelon.runtime.arrays import Bools, Float32, Ints


class BadLayerError(RuntimeError):
    """A layer returned something that is not a goal, an α or an action."""


class Spoken(NamedTuple):
    """An offer that was exchanged in a thread of today."""

    quantity: int
    days_ahead: int
    unit_price: int
    mine: bool


_NOTHING_YET = Spoken(0, 0, 0, False)


@dataclass
class Thread:
    """One negotiation of the day."""

    partner: str
    seller: bool
    row: int
    """in the history's cache"""
    seen: Spoken = _NOTHING_YET
    """the partner's last offer"""
    own: Spoken = _NOTHING_YET
    """the agent's last offer that was sent"""
    last_mine: bool = False
    offers: list[Spoken] = field(default_factory=list)
    """all offers of the day in their order"""
    told: int = 0
    """how many of them the cache knows"""
    ended: bool = False

    @property
    def role(self) -> Role:
        return "seller" if self.seller else "buyer"

    @property
    def spoken(self) -> bool:
        return self.seen.quantity > 0 or self.own.quantity > 0


@dataclass(frozen=True)
class Question:
    """A thread that is to be answered: the offer on the table if there is one, and the moment."""

    partner: str
    offer: Offer | None
    round: int
    relative_time: float


@dataclass(frozen=True)
class AnsweredCall:
    """A call after it was answered, for observers."""

    questions: list[Question]
    l1: L1Output
    situation: Situation
    alpha: Float32  # (K,)
    actions: L3Actions
    wishes: list[Wish]
    """what L3 chose, after guard and modulation (`l3_adjust`)"""
    answers: list[Wish]
    """what is left of it after the reservation"""

    @property
    def partners(self) -> list[str]:
        return [question.partner for question in self.questions]


@dataclass(frozen=True)
class _View:
    """What is the same for all threads until the next deal; L1's rows are those of a buyer and of a seller."""

    ledger: Ledger
    l1: L1Output
    baseline: LegalOffers
    open_goal: Float32  # (1, 4, 2)


class DayPlay:
    """The agent's state from the start of a day to its end."""

    def __init__(
        self,
        state: DayState,
        layers: Layers,
        layer: L1SafetyLayer,
        partners: Mapping[str, Role],
        cache: HistoryCache | None = None,
        memory: PartnerMemory | None = None,
    ) -> None:
        """`cache` is one of an earlier day, to be used again; `memory` is kept from day to day."""
        self.memory = PartnerMemory() if memory is None else memory
        self.step, self.layers, self.layer = state.current_step, layers, layer
        days = day_batch([state], layer.horizon)
        self.features = StateBuilder(layer.horizon).build(days)
        self.day = days.without_offers()
        self._at_dawn = days
        self.goal = self._goal()
        self.ledger = Ledger.empty(self.day)
        self._both_sides = self.day.take(np.zeros(2, np.int64))
        self._view: _View | None = None
        self.threads = {
            name: Thread(name, partners[name] == "seller", row) for row, name in enumerate(sorted(partners))
        }
        self.promised: dict[str, Offer] = {}
        """by partner: offers the agent has sent or accepted and whose outcome is open"""
        learnt = layers.l3
        self.cache: HistoryCache | None = None
        if isinstance(learnt, LearntExecutor) and learnt.view == "all":
            if cache is None or len(cache) < len(self.threads):
                cache = learnt.new_cache(len(self.threads))
            cache.restart()
            self.cache = cache
        self.last_call: AnsweredCall | None = None

    def continue_with(self, layers: Layers) -> None:
        """Play the rest of the day with layers that need no history; the goal is theirs too."""
        self.layers, self.cache = layers, None
        self.goal, self._view = self._goal(), None

    def _goal(self) -> Float32:
        l2, days = self.layers.l2, self._at_dawn
        if isinstance(l2, LearntManager):  # it need not build the features once more
            goal = np.asarray(l2.goals_of_features(days, self.features), np.float32)
        else:
            goal = np.asarray(l2.goals_of_days(days), np.float32)
        if goal.shape != (1, GOAL_SIZE) or not np.isfinite(goal).all():
            raise BadLayerError(f"L2 gave a goal of shape {goal.shape}; it must be (1, {GOAL_SIZE}) and finite")
        return goal

    # -- what happens --

    def is_open(self, partner: str) -> bool:
        """Whether there is a negotiation with the partner that has not ended."""
        thread = self.threads.get(partner)
        return thread is not None and not thread.ended

    def heard(self, partner: str, offer: Offer) -> None:
        """The partner made an offer; a repeated one is ignored."""
        thread, seen = self.threads[partner], self._spoken(offer, mine=False)
        if thread.seen != seen or thread.last_mine or not thread.spoken:
            thread.offers.append(seen)
        thread.seen, thread.last_mine = seen, False
        self.memory.tell(partner, self.step, seen.quantity)

    def said(self, partner: str, offer: Offer) -> None:
        """An offer of the agent has left for the partner."""
        thread = self.threads[partner]
        thread.own, thread.last_mine = self._spoken(offer, mine=True), True
        thread.offers.append(thread.own)

    def signed(self, partner: str, offer: Offer) -> None:
        """A negotiation ended in a deal."""
        self.failed(partner)
        self.ledger = self.ledger.with_deal(0, self.threads[partner].role, offer)
        self.memory.tell(partner, self.step, int(offer[0]))

    def failed(self, partner: str) -> None:
        """A negotiation ended in nothing: nothing is promised in it any more, nor ever again."""
        self.promised.pop(partner, None)
        if partner in self.threads:
            self.threads[partner].ended = True

    def _spoken(self, offer: Offer, *, mine: bool) -> Spoken:
        q, t, p = offer
        return Spoken(int(q), int(t) - self.step, int(p), mine)

    # -- answers --

    def answer(
        self, questions: Sequence[Question], *, greedy: bool = True, generator: np.random.Generator | None = None
    ) -> dict[str, Wish]:
        """All threads of a call: L1 → L4 → L3 → reservation. What is promised in other threads stays promised."""
        asked = sorted((q for q in questions if self.is_open(q.partner)), key=lambda q: q.partner)
        if not asked:
            return {}
        threads = [self.threads[q.partner] for q in asked]
        for question in asked:
            self.promised.pop(question.partner, None)
            if question.offer is not None:
                self.heard(question.partner, question.offer)
        out = self._since_the_last_deal().l1.take(np.array([t.seller for t in threads], np.int64))
        alpha = self._alpha(asked, threads, out)
        situation = self._situation(asked, threads, out, alpha)
        actions = self.layers.l3.act(self._states(threads), situation, generator=generator, greedy=greedy)
        adjusted = guarded(actions, situation, self.layers.min_confidence)
        adjusted = modulated(adjusted, situation, self.layer, out, alpha, self.layers.residual_modulation)
        wishes = self._wishes(asked, adjusted)
        answers = settle_call(wishes, out.seller, alpha, self.book)
        for question, answer in zip(asked, answers, strict=True):
            if answer.offer is not None:
                self.promised[question.partner] = answer.offer
        self.last_call = AnsweredCall(asked, out, situation, alpha, actions, wishes, answers)
        return {question.partner: answer for question, answer in zip(asked, answers, strict=True)}

    def _since_the_last_deal(self) -> _View:
        view = self._view
        if view is None or view.ledger is not self.ledger:
            limits = self.layer.limits(self.day, self.ledger).take(np.zeros(2, np.int64))
            l1 = self.layer.compute(self._both_sides, None, np.array([False, True]), limits=limits)
            view = _View(self.ledger, l1, self.layer.legal_baseline(l1), open_goal(self.goal, self.ledger))
            self._view = view
        return view

    def _alpha(self, asked: Sequence[Question], threads: Sequence[Thread], out: L1Output) -> Float32:
        K = len(threads)
        last = [t.own if t.last_mine else t.seen for t in threads]
        I_max, goal = np.repeat(self.day.n_lines * self.day.n_steps, K), self.goal.astype(np.float64)
        states = ThreadStates(
            seller=out.seller,
            last=_rows(last).astype(np.float64),
            spoken=np.array([t.spoken for t in threads]),
            baseline=out.baseline,
            safe=out.safe,
            mask_open=out.open,
            round=np.array([q.round for q in asked], np.float64),
            relative_time=np.array([q.relative_time for q in asked], np.float32).astype(np.float64),
            goal=np.repeat(goal, K, axis=0),
            X_temporal=np.repeat(self.features.X_temporal, K, axis=0),
            I_max=I_max,
        )
        n_sell = np.array([int(out.seller.sum())])
        common = global_features(goal, self.features.x_static, K - n_sell, n_sell, I_max[:1])
        alpha = np.asarray(
            self.layers.l4.alpha(
                thread_features(states)[None], common, states.d_star[None], role_one_hot(out.seller)[None],
                np.ones((1, K), np.bool_),
            )
        )  # fmt: skip
        if alpha.shape != (1, K) or not np.isfinite(alpha).all():
            raise BadLayerError(f"L4 gave α of shape {alpha.shape} for {K} threads; it must be (1, {K}) and finite")
        found: Float32 = alpha[0].astype(np.float32)
        return found

    def _situation(
        self, asked: Sequence[Question], threads: Sequence[Thread], out: L1Output, alpha: Float32
    ) -> Situation:
        K = len(threads)
        on_table = np.array([q.offer is not None for q in asked])
        seen = _rows([t.seen for t in threads])
        side, view = out.seller.astype(np.int64), self._since_the_last_deal()
        spot = np.stack([self.day.spot_price_in, self.day.spot_price_out], axis=-1).astype(np.float32)
        return Situation.of_l1(
            self.layer,
            out,
            base=view.baseline.take(side),
            goal=np.repeat(self.goal, K, axis=0),
            open_goal=np.repeat(view.open_goal, K, axis=0),
            relative_time=np.array([q.relative_time for q in asked], np.float32),
            others=others_in_sight(side, out.seller, on_table, seen[:, 0], seen[:, 2]),
            on_table=on_table,
            seen=seen,
            own=_rows([t.own for t in threads]),
            last_mine=np.array([t.last_mine for t in threads]),
            alpha=alpha,
            spot=np.repeat(spot, K, axis=0),
            asked=np.array([self.memory.asked(t.partner, self.step) for t in threads], np.int64),
            both_sides=np.repeat(self.day.can_buy & self.day.can_sell, K),
        )

    def _states(self, threads: Sequence[Thread]) -> Float32:
        """The history's state of each thread, after telling the cache what is new."""
        if self.cache is None:
            learnt = self.layers.l3
            width = learnt.width if isinstance(learnt, LearntExecutor) else 0
            return np.zeros((len(threads), width), np.float32)
        news = [t for t in threads if len(t.offers) > t.told]
        if news:
            fresh = [t.offers[t.told :] for t in news]
            count = list(map(len, fresh))
            longest = max(count)
            offers = np.array([new + new[-1:] * (longest - len(new)) for new in fresh], np.int64)  # (n, L, 4)
            tokens = self._tokens(offers.reshape(-1, 4), np.repeat([t.seller for t in news], longest))
            self.cache.tell(np.array([t.row for t in news]), tokens.reshape(offers.shape), np.array(count))
            for thread in news:
                thread.told = len(thread.offers)
        return self.cache.states(np.array([t.row for t in threads]))

    def _tokens(self, offers: Ints, seller: Bools) -> Float32:  # (n, 4) rows of Spoken
        issues = np.where(seller[:, None], self.day.sell_issues, self.day.buy_issues)
        return tokens_of(offers[:, :3], offers[:, 3] == 1, issues[:, 4], issues[:, 5])

    def _wishes(self, asked: Sequence[Question], actions: L3Actions) -> list[Wish]:
        """L3's choices as answers. Whatever can be clipped is left to L1; anything that is not an answer is an
        error."""
        K = len(asked)
        finite = np.isfinite(actions.log_prob).all()
        if actions.op.shape != (K,) or actions.offer.shape != (K, 3) or not finite:
            raise BadLayerError(f"L3 gave {actions.op.shape} answers to {K} threads, or none that is finite")
        wishes = []
        for question, op, offer in zip(asked, actions.op.tolist(), actions.offer, strict=True):
            if op == ACCEPT and question.offer is not None:
                wishes.append(Wish(ACCEPT, question.offer))
            elif op in (END, ACCEPT):
                wishes.append(NOTHING)
            elif op == REJECT and offer[0] >= 1 and np.issubdtype(actions.offer.dtype, np.integer):
                wishes.append(Wish(REJECT, outcome_of(offer, self.step)))
            else:
                raise BadLayerError(
                    f"L3 answered {op} with {offer[0]} pieces; REJECT (1) needs a whole number of at least 1"
                )
        return wishes

    def book(self, seller: bool) -> Reservations:
        """One side's account with everything signed and promised so far."""
        issues = self.day.sell_issues if seller else self.day.buy_issues
        book = Reservations(self.layer, self.day, self.ledger, seller, issues)
        book.hold(offer for name, offer in self.promised.items() if self.threads[name].seller == seller)
        return book


def _rows(offers: Sequence[Spoken]) -> Ints:
    """Quantity, days ahead, unit price.  # (K, 3)"""
    return np.array([offer[:3] for offer in offers], np.int64)
