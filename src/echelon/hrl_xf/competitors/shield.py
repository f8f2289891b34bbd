"""`shielded(cls)`: the same agent, with L1 around it.

What the agent wants to send is held against L1's limits, less what was signed today and less its own offers that may
still be accepted. What fits leaves as it is. An offer beyond the limits is clipped, an acceptance beyond them becomes a
rejection with the clipped offer as a counter, and where nothing is left the thread ends.

A sync agent's answers are looked at together when it makes them, acceptances first, since these are sure; what it sends
otherwise, and all that a plain agent sends, is looked at when it leaves. The shield draws no random number: an agent
that never leaves the limits plays the same world with it and without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from negmas import ResponseType
from negmas.gb.common import ExtendedResponseType
from negmas.outcomes.common import ExtendedOutcome
from negmas.sao import SAOResponse, SAOSyncController

from echelon.hrl_xf.competitors.roster import base_of, derived_name
from echelon.hrl_xf.state.day_batch import Ledger, day_batch, in_days_ahead
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT, DayState, Offer, OffersSnapshot, Role
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.live import day_state
from echelon.hrl_xf.state.reservation import NOTHING, Reservations, Wish
from echelon.runtime.arrays import Ints

_PREFIX = "Shielded"


@dataclass(frozen=True)
class Promise:
    """What is reserved for a thread: decided, and perhaps already sent."""

    wish: Wish
    sent: bool


class Shield:
    """What one agent has signed and promised since dawn, and what of its wishes may leave."""

    def __init__(self) -> None:
        self.changed = 0
        """wishes that L1 did not let pass"""
        self.busy = False
        """an answer is being made: what the agent asks of itself meanwhile does not leave"""
        self.instead: dict[str, Offer] = {}
        """by partner: the counter of an acceptance that was refused, until it is asked for"""
        self._layer = L1SafetyLayer()
        self._initial_balance: float | None = None
        self._roles: dict[str, Role] = {}
        self._promises: dict[str, Promise] = {}
        self._ended: set[str] = set()

    def wake(self, awi: Any) -> None:
        """A day begins."""
        if self._initial_balance is None:
            self._initial_balance = float(awi.current_balance)
        state = day_state(awi, self._initial_balance, OffersSnapshot([], []))  # limits do not look at offers
        roles: dict[str, Role] = {}
        if state.buy_issues is not None:
            roles |= dict.fromkeys(awi.my_suppliers, "buyer")
        if state.sell_issues is not None:
            roles |= dict.fromkeys(awi.my_consumers, "seller")
        self.begin(state, roles)

    def begin(self, state: DayState, roles: Mapping[str, Role]) -> None:
        """A day begins with this state; `roles` are the agent's own, by partner."""
        self._day = day_batch([state], self._layer.horizon)
        self._ledger = Ledger.empty(self._day)
        self._roles = dict(roles)
        self._promises, self._ended, self.instead = {}, set(), {}

    def decide(self, wishes: Mapping[str, Wish]) -> dict[str, Wish]:
        """Wishes of one call, made safe all together and reserved.

        A thread whose last offer is with the partner keeps that one reserved, and its wish is looked at when it leaves.
        """
        now = {}
        for partner, wish in wishes.items():
            promise = self._promises.get(partner)
            if partner not in self._roles or partner in self._ended or (promise is not None and promise.sent):
                continue
            self._promises.pop(partner, None)
            now[partner] = wish
        return {**wishes, **self._settle(now, sent=False)}

    def deliver(self, partner: str, wish: Wish) -> Wish:
        """What leaves for the partner instead of the wish: the wish itself if it was reserved, or still fits."""
        promise = self._promises.get(partner)
        if promise is not None and promise.wish == wish:
            self._promises[partner] = replace(promise, sent=True)
            return wish
        if wish.op == END:
            return wish
        self._promises.pop(partner, None)
        return self._settle({partner: wish}, sent=True)[partner]

    def countered(self, partner: str) -> None:
        """The partner did not take the offer it has: it put another one on the table."""
        promise = self._promises.get(partner)
        if promise is not None and promise.sent:
            del self._promises[partner]

    def ended(self, partner: str, deal: Offer | None) -> None:
        """A negotiation ended, with a deal or without."""
        self._promises.pop(partner, None)
        self._ended.add(partner)
        if deal is not None:
            self._ledger = self._ledger.with_deal(0, self._roles[partner], deal)

    def _settle(self, wishes: Mapping[str, Wish], sent: bool) -> dict[str, Wish]:
        settled = dict(wishes)
        for role in ("buyer", "seller"):
            side = [
                partner for partner, wish in wishes.items() if self._roles[partner] == role and self._binds(wish, role)
            ]
            side.sort(key=lambda partner: wishes[partner].op != ACCEPT)
            if not side:
                continue
            found = self._book(role).settle([wishes[partner] for partner in side], only_cut=True)
            for partner, wish in zip(side, found, strict=True):
                self.changed += wish != wishes[partner]
                settled[partner] = wish
                if wish.op != END:
                    self._promises[partner] = Promise(wish, sent)
        return settled

    def _issues(self, role: Role) -> Ints:  # (1, 6)
        return self._day.sell_issues if role == "seller" else self._day.buy_issues

    def _binds(self, wish: Wish, role: Role) -> bool:
        """Whether the wish is an offer that can become a deal; one outside the issues only ends the negotiation."""
        if wish.offer is None:
            return False
        offer, bounds = in_days_ahead([wish.offer], int(self._day.current_step[0])), self._issues(role)
        return bool(((offer >= bounds[:, ::2]) & (offer <= bounds[:, 1::2])).all())

    def _book(self, role: Role) -> Reservations:
        """One side's account with everything signed and promised so far."""
        book = Reservations(self._layer, self._day, self._ledger, role == "seller", self._issues(role))
        held = (promise.wish.offer for partner, promise in self._promises.items() if self._roles[partner] == role)
        book.hold(offer for offer in held if offer is not None)
        return book


class ShieldedAgent:
    """Mixed in before an agent class; `echelon_shield` holds what was promised."""

    echelon_shield: Shield

    def before_step(self) -> None:
        self.echelon_shield.wake(self.awi)  # type: ignore[attr-defined]
        super().before_step()  # type: ignore[misc]

    def propose(self, negotiator_id: str, state: Any, *args: Any, **kwargs: Any) -> Any:
        shield = self.echelon_shield
        if shield.busy:
            return super().propose(negotiator_id, state, *args, **kwargs)  # type: ignore[misc]
        if negotiator_id in shield.instead:
            return shield.instead.pop(negotiator_id)
        shield.busy = True
        try:
            given = super().propose(negotiator_id, state, *args, **kwargs)  # type: ignore[misc]
        finally:
            shield.busy = False
        wish = _proposal(given)
        allowed = shield.deliver(negotiator_id, wish)
        return given if allowed == wish else allowed.offer

    def respond(self, negotiator_id: str, state: Any, *args: Any, **kwargs: Any) -> Any:
        shield = self.echelon_shield
        if shield.busy:
            return super().respond(negotiator_id, state, *args, **kwargs)  # type: ignore[misc]
        if state.current_offer is not None:
            shield.countered(negotiator_id)
        shield.busy = True
        try:
            given = super().respond(negotiator_id, state, *args, **kwargs)  # type: ignore[misc]
        finally:
            shield.busy = False
        plain = given.response if isinstance(given, ExtendedResponseType) else given
        if plain != ResponseType.ACCEPT_OFFER or state.current_offer is None:
            return given
        wish = Wish(ACCEPT, _offer(state.current_offer))
        allowed = shield.deliver(negotiator_id, wish)
        if allowed == wish:
            return given
        if allowed.offer is None:
            return ResponseType.END_NEGOTIATION
        shield.instead[negotiator_id] = allowed.offer
        return ResponseType.REJECT_OFFER

    def on_negotiation_success(self, contract: Any, mechanism: Any) -> None:
        agreement = contract.agreement
        deal = (int(agreement["quantity"]), int(agreement["time"]), int(agreement["unit_price"]))
        self.echelon_shield.ended(self._echelon_partner(contract.annotation), deal)
        super().on_negotiation_success(contract, mechanism)  # type: ignore[misc]

    def on_negotiation_failure(self, partners: Any, annotation: Any, mechanism: Any, state: Any) -> None:
        self.echelon_shield.ended(self._echelon_partner(annotation), None)
        super().on_negotiation_failure(partners, annotation, mechanism, state)  # type: ignore[misc]

    def _echelon_partner(self, annotation: Any) -> str:
        me = self.awi.agent.id  # type: ignore[attr-defined]
        return str(annotation["seller"] if annotation["buyer"] == me else annotation["buyer"])


class ShieldedSyncAgent(ShieldedAgent):
    """The same for agents that answer all threads in one call."""

    _echelon_deciding = False

    def first_proposals(self) -> Any:
        if self._echelon_deciding:
            return super().first_proposals()  # type: ignore[misc]
        self._echelon_deciding = True
        try:
            given = super().first_proposals()  # type: ignore[misc]
        finally:
            self._echelon_deciding = False
        wishes = {partner: _proposal(offer) for partner, offer in (given or {}).items()}
        allowed = self.echelon_shield.decide(wishes)
        changed = {partner: wish.offer for partner, wish in allowed.items() if wish != wishes[partner]}
        return {**given, **changed} if changed else given

    def counter_all(self, offers: Any, states: Any) -> Any:
        if self._echelon_deciding:
            return super().counter_all(offers, states)  # type: ignore[misc]
        self._echelon_deciding = True
        try:
            given = super().counter_all(offers, states)  # type: ignore[misc]
        finally:
            self._echelon_deciding = False
        everyone = dict.fromkeys((*self.negotiators, *given))  # type: ignore[attr-defined]
        wishes = {partner: _answer(given.get(partner), offers.get(partner)) for partner in everyone}
        allowed = self.echelon_shield.decide(wishes)
        changed = {partner: _response(wish) for partner, wish in allowed.items() if wish != wishes[partner]}
        return {**given, **changed} if changed else given


def _offer(outcome: Any) -> Offer:
    q, t, p = outcome
    return int(q), int(t), int(p)


def _proposal(outcome: Any) -> Wish:
    """What an outgoing offer commits the agent to; some agents leave parts of it None, which ends the negotiation."""
    plain = outcome.outcome if isinstance(outcome, ExtendedOutcome) else outcome
    return NOTHING if plain is None or None in plain else Wish(REJECT, _offer(plain))


def _answer(response: Any, on_table: Any) -> Wish:
    """What a sync agent's response means; whatever is neither an acceptance nor an offer commits it to nothing."""
    if response is None:
        return NOTHING
    if response.response == ResponseType.ACCEPT_OFFER and on_table is not None:
        return Wish(ACCEPT, _offer(on_table))
    return _proposal(response.outcome) if response.response == ResponseType.REJECT_OFFER else NOTHING


def _response(wish: Wish) -> SAOResponse:
    if wish.offer is None:
        return SAOResponse(ResponseType.END_NEGOTIATION, None)
    return SAOResponse(ResponseType.REJECT_OFFER, wish.offer)


_shielded: dict[type[Any], type[Any]] = {}


def shielded(cls: type[Any]) -> type[Any]:
    """A subclass of `cls` that never leaves L1's limits; importable by name in any process."""
    if issubclass(cls, ShieldedAgent):
        return cls
    if cls in _shielded:
        return _shielded[cls]
    mixin = ShieldedSyncAgent if issubclass(cls, SAOSyncController) else ShieldedAgent
    name = derived_name(_PREFIX, cls)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        self.echelon_shield = Shield()
        cls.__init__(self, *args, **kwargs)

    body = {"__init__": __init__, "__module__": __name__, "__qualname__": name, "__doc__": cls.__doc__}
    _shielded[cls] = type(name, (mixin, cls), body)
    return _shielded[cls]


def base_class(cls: type[Any]) -> type[Any]:
    """The agent class behind a shielded one; any other class is its own base."""
    return cls.__bases__[1] if issubclass(cls, ShieldedAgent) else cls


def __getattr__(name: str) -> Any:
    """Rebuild a shielded class from its name, as unpickling and negmas' imports by name need in a new process."""
    return shielded(base_of(_PREFIX, name, __name__))
