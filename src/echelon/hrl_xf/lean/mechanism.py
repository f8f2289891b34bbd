"""A bilateral alternating-offers negotiation without bookkeeping that is never read.

`LeanMechanism` is negmas' SAOMechanism with a second, short way through a round. The short way is taken when both
sides are `LeanNegotiator`s, i.e. when neither agent listens to the round callbacks; else the stock code runs.

Kept from the stock mechanism: who is asked when, what each answer does, WAIT and its limit, checks and casts of offers,
the second call after an exception, every draw from `random`, the values of all states handed out (each a fresh copy).
Left out: the thread hop and with it all wall-clock limits, the deep copy of each round (the history is kept as bare
tuples and built when asked for), events without a listener, round times. Negotiation time is steps: `time` is always
0.0 and `relative_time` never looks at a clock, so a slow machine plays the same world as a fast one.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from time import perf_counter
from typing import Any

import attrs
from negmas.common import NegotiatorDescriptor
from negmas.gb.common import ResponseType
from negmas.outcomes import make_os
from negmas.outcomes.common import ExtendedOutcome
from negmas.outcomes.outcome_ops import cast_value_types, outcome_types_are_ok
from negmas.sao import SAOMechanism
from negmas.sao.common import SAONMI, SAOResponse, SAOState

from echelon.hrl_xf.lean.negotiator import LeanNegotiator

ACCEPT, REJECT, END = ResponseType.ACCEPT_OFFER, ResponseType.REJECT_OFFER, ResponseType.END_NEGOTIATION
WAIT, LEAVE = ResponseType.WAIT, ResponseType.LEAVE

_state_values = attrgetter(*(field.name for field in attrs.fields(SAOState)))


def copy_state(state: SAOState) -> SAOState:
    """A shallow copy, as `copy.copy` makes it, ten times faster."""
    return SAOState(*_state_values(state))


@dataclass(frozen=True)
class Agenda:
    """What one day's negotiations about a product share."""

    issues: Any
    space: Any
    n_outcomes: int
    limits: tuple[int, ...]
    """Least and greatest quantity, day and price, in this order."""

    @classmethod
    def about(cls, issues: Any) -> Agenda:
        space = make_os(issues)
        return cls(issues, space, space.cardinality, tuple(limit for issue in issues for limit in issue.values))


class ClocklessMechanism(SAOMechanism):  # type: ignore[misc]
    """A stock negotiation whose time is steps: it never looks at a clock to end, or to draw a random number."""

    time = property(lambda self: 0.0)
    remaining_time = property(lambda self: None)


class LeanMechanism(ClocklessMechanism):
    """An SAOMechanism that takes a short way through a round between two plain agents.

    `serial` numbers the negotiations of a world; it takes the place of random ids, so that equal seeds give equal logs.
    """

    _frozen_neg_list: list[int] | None
    _last_checked_negotiator: int
    _limits: tuple[int, ...]

    def __init__(self, *, serial: Iterator[int], **kwargs: Any) -> None:
        self._serial = serial
        self._rounds: list[tuple[Any, ...]] = []
        self._short = False
        self.spent = [0.0, 0.0]
        super().__init__(**(kwargs | {"sync_calls": True}))

    def set_id(self, id: str) -> None:
        super().set_id(f"negotiation-{next(self._serial):06d}")

    def between(
        self,
        serial: Iterator[int],
        sides: list[tuple[LeanNegotiator, Any]],
        name: str,
        agenda: Agenda,
        annotation: dict[str, Any],
    ) -> LeanMechanism:
        """A new negotiation with this one's settings between two plain agents: what `__init__` and `add` would make."""
        new = object.__new__(LeanMechanism)
        new.__dict__.update(self.__dict__)
        new._serial = serial
        new.set_id("")
        new.name = name
        new._short, new._rounds, new.spent = True, [], [0.0, 0.0]
        new._negotiator_logs = defaultdict(list)
        params = self._nmi_params | {
            "id": new.id,
            "outcome_space": agenda.space,
            "n_outcomes": agenda.n_outcomes,
            "annotation": annotation,
            "_mechanism": new,
        }
        new._nmi_params = params
        new._internal_nmi = new._shared_nmi = SAONMI(**params)
        new.params = self.params | {"annotation": annotation}
        new._current_state = SAOState(n_negotiators=2)
        new._negotiators = [negotiator for negotiator, _ in sides]
        new._negotiator_map = {negotiator.id: negotiator for negotiator in new._negotiators}
        new._negotiator_index = {negotiator.id: i for i, negotiator in enumerate(new._negotiators)}
        new._nmis = {}
        for negotiator, owner in sides:
            params["annotation"] = dict(annotation)
            new._nmis[negotiator.id] = nmi = SAONMI(**params)
            negotiator.enter(nmi, owner)
        new._limits = agenda.limits
        return new

    @property
    def participants(self) -> list[NegotiatorDescriptor]:
        """Who takes part, by the stock type where it is ours that stands in for it."""
        return [attrs.evolve(p, type=p.type.replace("lean_", "controlled_sao_")) for p in super().participants]

    @property
    def _history(self) -> list[SAOState]:
        return [SAOState(*values) for values in self._rounds]

    @_history.setter
    def _history(self, value: list[SAOState]) -> None:
        self._rounds = [_state_values(state) for state in value]

    def _add_to_history(self, state4history: SAOState) -> None:
        self._rounds.append(_state_values(state4history))

    def state_for(self, negotiator: LeanNegotiator) -> SAOState:
        if not self._short:
            return super().state_for(negotiator)
        state = copy_state(self._current_state)
        state.relative_time = min(1.0, (state.step + 1) / (self._internal_nmi.n_steps + 1))
        return state

    def step(self, action: Any = None) -> SAOState:
        if not self._short or action is not None:
            return super().step(action)
        state = self._current_state
        random.random()  # the stock step draws for its probability to end, which is 0 here
        if state.step >= self._internal_nmi.n_steps:
            state.running, state.broken, state.timedout = False, False, True
            self.on_negotiation_end()
            return state
        if state.broken or state.timedout or state.agreement is not None:
            state.running = False
            self.on_negotiation_end()
            return state
        if not state.running:
            self._start(state)
        state.waiting = False
        try:
            self._round(state)
        except TypeError:  # the stock step takes any TypeError for a round without the parameter `action`
            self._round(state)
        if state.agreement is not None or state.broken or state.timedout:
            state.running = False
        if not state.waiting:
            self._rounds.append(_state_values(state))
            state.step += 1
            state.relative_time = min(1.0, (state.step + 1) / (self._internal_nmi.n_steps + 1))
        if not state.running:
            self.on_negotiation_end()
        return state

    def _start(self, state: SAOState) -> None:
        state.running = state.started = True
        state.step = 0
        state.relative_time = min(1.0, 1 / (self._internal_nmi.n_steps + 1))
        self._start_time = 0
        for negotiator in self._negotiators:
            if negotiator.hears_start:
                self._call(negotiator, negotiator._on_negotiation_start, state=copy_state(state))

    def on_negotiation_end(self) -> None:
        if not self._short:
            super().on_negotiation_end()
            return
        for negotiator in self._negotiators:
            self._call(negotiator, negotiator._on_negotiation_end, state=self.state_for(negotiator))
        random.shuffle([0, 1])  # the stock event goes to both partners in random order, and they ignore it

    def _round(self, state: SAOState) -> None:
        """Both sides, or those who made the other wait, answer once."""
        order = self._frozen_neg_list
        if order is None:
            state.new_offers, state.new_data = [], []
            first = (self._last_checked_negotiator + 1) % 2
            order = [first, 1 - first]
        for index in order:
            self._last_checked_negotiator = index
            negotiator = self._negotiators[index]
            if negotiator.id in state.left_negotiators:
                continue
            response = self._ask(index, state, self._negotiators[order[(index + 1) % len(order)]].id)
            if response is None:
                state.timedout = True
                return
            kind = response.response
            if kind == WAIT:
                self._wait(index, state)
                return
            self._n_waits, self._frozen_neg_list = 0, None
            if kind == REJECT:
                if self._counter(negotiator, response, state):
                    return
            elif kind == ACCEPT:
                if state.current_offer is None:
                    state.broken = True
                    return
                state.n_acceptances += 1
                if state.n_acceptances == 2 - len(state.left_negotiators):
                    state.agreement = state.current_offer
                    return
            elif kind == END:
                state.broken = True
                return
            elif kind == LEAVE:
                self._leave(negotiator, state)

    def _leave(self, negotiator: LeanNegotiator, state: SAOState) -> None:
        """Mark a negotiator as gone and fail as the stock mechanism does, so that the step tries the round again."""
        left = state.left_negotiators
        self._rounds = [tuple(set(left) if value is left else value for value in values) for values in self._rounds]
        left.add(negotiator.id)
        raise TypeError("on_leave() got multiple values for argument 'negotiator_id'")

    def _wait(self, index: int, state: SAOState) -> None:
        """Stop the round here; the next step continues with this negotiator."""
        self._last_checked_negotiator = 1 - index
        offered = {self._negotiator_index[id] for id, _ in state.new_offers}
        self._frozen_neg_list = [i for i in (index, 1 - index) if i not in offered]
        self._n_waits += 1
        if self._n_waits > self._n_max_waits:
            self._n_waits, self._frozen_neg_list = 0, None
            state.timedout = True
        else:
            state.waiting = True

    def _ask(self, index: int, state: SAOState, dest: str) -> SAOResponse | None:
        """The answer of one side: asked again without `dest` after an exception, as the stock mechanism does."""
        negotiator = self._negotiators[index]
        seen = copy_state(state)
        if negotiator is self._current_proposer:
            state.n_acceptances = 0
        start = perf_counter()
        try:
            try:
                return negotiator(state=seen, dest=dest)
            except TimeoutError:
                return None
            except Exception:  # noqa: BLE001  # an agent may raise anything; what it raises twice goes up
                return negotiator(state=seen)
        except TimeoutError:
            return None
        finally:
            self.spent[index] += perf_counter() - start

    def _counter(self, negotiator: LeanNegotiator, response: SAOResponse, state: SAOState) -> bool:
        """Put a counter offer on the table; True if there is none and the negotiation ends."""
        response = self._valid(response)
        if response.outcome is None:
            if not response.data:
                state.broken = True
                return True
            state.n_acceptances = 0
        else:
            state.n_acceptances = 1
        state.current_offer, state.current_data = response.outcome, response.data
        self._current_proposer = negotiator
        state.current_proposer = negotiator.id
        state.new_offers.append((negotiator.id, response.outcome))
        state.new_data.append((negotiator.id, response.data))
        state.last_negotiator = negotiator.name
        self._current_proposer_agent, state.new_offerer_agents = self._agent_info()
        return False

    def _valid(self, response: SAOResponse) -> SAOResponse:
        """The response with its offer checked and cast; an offer outside the issues becomes None."""
        outcome = response.outcome
        if type(outcome) is tuple and len(outcome) == 3:
            q, t, p = outcome
            if type(q) is int and type(t) is int and type(p) is int:
                q0, q1, t0, t1, p0, p1 = self._limits
                inside = q0 <= q <= q1 and t0 <= t <= t1 and p0 <= p <= p1
                return response if inside else SAOResponse(response.response, None, response.data)
        if isinstance(outcome, ExtendedOutcome):
            response = SAOResponse(response.response, outcome.outcome, outcome.data)
            outcome = response.outcome
        if outcome is None:
            return response
        if not self.outcome_space.is_valid(outcome):
            return SAOResponse(response.response, None, response.data)
        if outcome_types_are_ok(outcome, self.issues):
            return response
        return SAOResponse(response.response, cast_value_types(outcome, self.issues), response.data)
