"""`LitaAgentHRL`: HRL-XF as an SCML Standard agent.

It works without arguments, with the weights that come with the package; each layer can be another one:

    LitaAgentHRL(l2="heuristic")                      rules instead of a network
    LitaAgentHRL(l3="l1", l2="heuristic", l4="heuristic")   L1 alone
    LitaAgentHRL(l3_model_path="runs/x/l3_awr.safetensors")  weights of one's own

Nothing that a layer does wrong reaches the simulator: when a layer fails or gives nonsense, the rules play the rest of
the day. That is counted (`fallbacks`), logged the first time and again, with the count, when the world ends.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from negmas import ResponseType
from negmas.sao import SAOResponse
from scml.std import StdSyncAgent

from echelon.hrl_xf.competitors.fallbacks import CountsFallbacks
from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.play.choice import L2Choice, L3Choice, L4Choice, choose_layers, plain_layers, rule_layers
from echelon.hrl_xf.play.day import AnsweredCall, DayPlay, Question
from echelon.hrl_xf.play.memory import PartnerMemory
from echelon.hrl_xf.state.day_state import ACCEPT, REJECT, Offer, Role
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.live import OffersMemory, day_state
from echelon.hrl_xf.state.reservation import Wish
from echelon.runtime import seeding

_log = logging.getLogger(__name__)
_END = SAOResponse(ResponseType.END_NEGOTIATION, None)

T = TypeVar("T")


class LitaAgentHRL(CountsFallbacks, StdSyncAgent):  # type: ignore[misc]
    """Four layers: L1 safety, L2 the day's goal, L3 the round's action, L4 all threads together."""

    def __init__(
        self,
        *args: Any,
        l2: L2Choice = "bundled",
        l3: L3Choice = "bundled",
        l4: L4Choice = "bundled",
        l2_model_path: str | None = None,
        l3_model_path: str | None = None,
        l4_model_path: str | None = None,
        mode: Literal["greedy", "sample"] = "greedy",
        seed: int = 0,
        residual_modulation: float = 0.0,
        min_confidence: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """`l2`, `l3`, `l4` are "bundled", "heuristic", for L3 also "l1", or a layer; a path overrides them.

        `mode` says whether L3 takes its most probable action or draws one. What is drawn follows from `seed`, the
        world (what the agent sees on its first day) and the seat.

        `residual_modulation` (c, 0 to 1): L4 multiplies L3's residuals by 1 + c·(K·α − 1) before L1 clips them.
        `min_confidence` (0 to 1), for an L3 of mode "direct": the rules answer where the probability of L3's answer is
        smaller.
        """
        super().__init__(*args, **kwargs)
        if mode not in ("greedy", "sample"):
            raise ValueError(f"mode={mode!r} must be greedy or sample")
        self.layers: Layers = choose_layers(
            l2_model_path or l2, l3_model_path or l3, l4_model_path or l4, residual_modulation, min_confidence
        )
        self.mode = mode
        self.on_decided: Callable[[DayPlay, AnsweredCall], None] | None = None
        """an observer, called after each call that was answered"""
        self._seed = seed
        self._generator = seeding.rng(seed, "draws")  # raises if it is not a seed
        self._l1 = L1SafetyLayer()
        self._offers, self._memory = OffersMemory(), PartnerMemory()
        self._initial_balance: float | None = None
        self._play: DayPlay | None = None
        self._moment = (0, 0.0)
        self._opened: set[str] = set()

    def reseed(self, seed: int) -> None:
        """Draw by another seed; before the first day."""
        self._seed = seed

    # -- the day --

    def before_step(self) -> None:
        super().before_step()
        self._safely(self._dawn, None)

    def _dawn(self) -> DayPlay:
        awi = self.awi
        begins = self._initial_balance is None
        if self._initial_balance is None:
            self._initial_balance = float(awi.current_balance)
        state = day_state(awi, self._initial_balance, self._offers.take())
        if begins:
            seen = hashlib.sha256(repr(state).encode()).hexdigest()
            self._generator = seeding.rng(self._seed, "draws", seen, self.id)
        partners: dict[str, Role] = {}
        if state.buy_issues is not None:
            partners |= dict.fromkeys(awi.my_suppliers, "buyer")
        if state.sell_issues is not None:
            partners |= dict.fromkeys(awi.my_consumers, "seller")
        self._opened = set()
        cache = None if self._play is None else self._play.cache
        try:
            self._play = DayPlay(state, self.layers, self._l1, partners, cache, self._memory)
        except Exception as error:  # noqa: BLE001 - whatever a layer does wrong, the agent plays on
            self._fall_back(error)
            self._play = DayPlay(state, rule_layers(), self._l1, partners, memory=self._memory)
        return self._play

    def step(self) -> None:
        super().step()
        last = self.awi.current_step == self.awi.n_steps - 1
        if last and (self.fallbacks or self.errors):
            _log.warning(
                "%s: its layers failed %d times in this world, and the rules played instead; %d times there was no "
                "answer",
                self.id,
                self.fallbacks,
                self.errors,
            )

    def _today(self) -> DayPlay:
        """The state of the day's play; created if the simulator asks before it has announced the day."""
        play = self._play
        return self._dawn() if play is None or play.step != self.awi.current_step else play

    # -- negotiations --

    def first_proposals(self) -> dict[str, Offer | None]:
        """Openings of all threads; what was promised already is said again."""
        return self._safely(self._first_proposals, {})

    def counter_all(self, offers: dict[str, Any], states: dict[str, Any]) -> dict[str, SAOResponse]:
        """Answers to all threads. A thread that has nothing new keeps what was promised in it."""
        none: dict[str, SAOResponse] = {}
        answers = self._safely(lambda: self._counter_all(offers, states), none)
        return answers or dict.fromkeys(offers, _END)

    def first_offer(self, negotiator_id: str) -> Offer | None:
        """Where negmas misses a proposal it asks for this: what is promised, and nothing else."""
        return self._safely(lambda: self._today().promised.get(negotiator_id), None)

    def propose(self, negotiator_id: str, state: Any, *args: Any, **kwargs: Any) -> Any:
        self._moment = (state.step, state.relative_time)
        offer = super().propose(negotiator_id, state, *args, **kwargs)
        if offer is not None:
            self._safely(lambda: self._today().said(negotiator_id, offer), None)
        return offer

    def respond(self, negotiator_id: str, state: Any, *args: Any, **kwargs: Any) -> Any:
        self._moment = (state.step, state.relative_time)
        return super().respond(negotiator_id, state, *args, **kwargs)

    def on_negotiation_success(self, contract: Any, mechanism: Any) -> None:
        super().on_negotiation_success(contract, mechanism)
        self._safely(lambda: self._signed(contract), None)

    def on_negotiation_failure(self, partners: list[str], annotation: Any, mechanism: Any, state: Any) -> None:
        super().on_negotiation_failure(partners, annotation, mechanism, state)
        self._safely(lambda: self._today().failed(_partner(annotation, self.id)), None)

    def _signed(self, contract: Any) -> None:
        a = contract.agreement
        partner = _partner(contract.annotation, self.id)
        self._today().signed(partner, (int(a["quantity"]), int(a["time"]), int(a["unit_price"])))

    def _first_proposals(self) -> dict[str, Offer | None]:
        play = self._today()
        names = [name for name in self.negotiators if play.is_open(name)]
        new = [Question(name, None, *self._moment) for name in names if name not in self._opened]
        self._opened.update(question.partner for question in new)
        self._answer(play, new)
        return {name: play.promised.get(name) for name in names}

    def _counter_all(self, offers: dict[str, Any], states: dict[str, Any]) -> dict[str, SAOResponse]:
        play = self._today()
        asked, promised = [], {}
        for name in {**dict.fromkeys(self.negotiators), **offers}:
            if not play.is_open(name):
                continue  # `negotiators` holds those that have ended too
            offer = offers.get(name)
            if name not in offers and name in play.promised:
                promised[name] = Wish(REJECT, play.promised[name])
            elif offer is None:
                asked.append(Question(name, None, *self._moment))
            else:
                state, offer = states[name], (int(offer[0]), int(offer[1]), int(offer[2]))
                asked.append(Question(name, offer, state.step, state.relative_time))
                self._offers.saw(play.threads[name].role, offer, state.step, self._rounds(name))
        self._opened.update(question.partner for question in asked)
        return {name: _response(wish) for name, wish in {**promised, **self._answer(play, asked)}.items()}

    def _rounds(self, name: str) -> int:
        """How many rounds a negotiation has; 0 if it has vanished."""
        negotiator, _ = self.negotiators.get(name, (None, None))
        nmi = None if negotiator is None else negotiator.nmi
        return 0 if nmi is None else int(nmi.n_steps)

    # -- when something fails --

    def _answer(self, play: DayPlay, questions: list[Question]) -> dict[str, Wish]:
        """The layers' answers; if a layer fails, the rules' for the rest of the day; if these fail too, L1's."""
        try:
            answers = play.answer(questions, greedy=self.mode == "greedy", generator=self._generator)
        except Exception as error:  # noqa: BLE001 - whatever a layer does wrong, the agent plays on
            self._fall_back(error)
            answers = self._answer_without(play, questions)
        if self.on_decided is not None and answers and play.last_call is not None:
            self._show(self.on_decided, play, play.last_call)
        return answers

    def _answer_without(self, play: DayPlay, questions: list[Question]) -> dict[str, Wish]:
        """The answers of nothing learnt."""
        try:
            play.continue_with(rule_layers())
            return play.answer(questions)
        except Exception as error:  # noqa: BLE001 - as above
            self._fall_back(error)
            play.continue_with(plain_layers())
            return play.answer(questions)

    def _show(self, look: Callable[[DayPlay, AnsweredCall], None], play: DayPlay, decided: AnsweredCall) -> None:
        """Call the observer; one that fails is not called again, and the answer is not affected."""
        try:
            look(play, decided)
        except Exception as error:  # noqa: BLE001 - the answer is made; nothing that only looks may spoil it
            _log.warning("%s: the observer failed on day %s", self.id, play.step, exc_info=error)
            self.on_decided = None

    def _fall_back(self, error: Exception) -> None:
        if not self.fallbacks:
            _log.warning(
                "%s: a layer failed, the rules play the rest of day %s", self.id, self.awi.current_step, exc_info=error
            )
        self.fallbacks += 1

    def _safely(self, action: Callable[[], T], default: T) -> T:
        """No exception of ours reaches the simulator; what cannot be answered ends."""
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - see above
            if not self.errors:
                _log.error("%s: no answer on day %s", self.id, self.awi.current_step, exc_info=error)
            self.errors += 1
            return default


class LitaAgentRules(LitaAgentHRL):
    """The same agent with nothing learnt: L1 and the heuristics of the other layers. An expert to learn from."""

    def __init__(
        self,
        *args: Any,
        l2: L2Choice = "heuristic",
        l3: L3Choice = "heuristic",
        l4: L4Choice = "heuristic",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, l2=l2, l3=l3, l4=l4, **kwargs)


def _partner(annotation: Any, me: str) -> str:
    return str(annotation["seller"] if annotation["buyer"] == me else annotation["buyer"])


def _response(wish: Wish) -> SAOResponse:
    if wish.op == ACCEPT:
        return SAOResponse(ResponseType.ACCEPT_OFFER, wish.offer)
    return _END if wish.offer is None else SAOResponse(ResponseType.REJECT_OFFER, wish.offer)
