"""Opening and stepping the negotiations of a world, the short way where both agents are plain.

`NegotiatingWorld`, which `LeanStdWorld` inherits from, opens a negotiation in one go instead of by a request, an
invitation, two answers and two notices, and steps it without logs, edges and records. Where an agent has hooks of its
own (see `lean.negotiator.is_plain`), or the world's settings are unusual, the stock code runs.
"""

from __future__ import annotations

import itertools
import random
import string
from collections.abc import Iterator
from typing import Any

from negmas.situated import Contract, NegotiationInfo, RunningNegotiationInfo
from scml.oneshot.common import NegotiationDetails, is_system_agent
from scml.oneshot.sysagents import DefaultOneShotAdapter
from scml.std.world import SCML2024StdWorld

from echelon.hrl_xf.lean.mechanism import Agenda, LeanMechanism
from echelon.hrl_xf.lean.negotiator import LeanNegotiator, is_plain

_MECHANISM = f"{LeanMechanism.__module__}.{LeanMechanism.__qualname__}"
_NAME_CHARACTERS = string.digits + string.ascii_letters
_SHORT_SETTINGS = {
    "end_on_no_response": True,
    "dynamic_entry": False,
    "check_offers": True,
    "enforce_issue_types": True,
    "cast_offers": True,
    "one_offer_per_step": False,
    "ignore_negotiator_exceptions": False,
}
_FREE_SETTINGS = {"max_wait", "hidden_time_limit", "sync_calls", "serial"}


class NegotiatingWorld(SCML2024StdWorld):  # type: ignore[misc]
    """An SCML Standard world that opens and steps negotiations between plain agents the short way."""

    mechanisms: dict[str, dict[str, Any]]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._serial: Iterator[int] = itertools.count(1)
        self._agendas: dict[int, Agenda] = {}  # product -> what is negotiated about it today
        (settings,) = self.mechanisms.values()
        settings = settings | {"serial": self._serial}
        self.mechanisms = {_MECHANISM: settings}
        self._template = self._make_template(settings)
        self._plain = {id: self._template is not None and _is_plain_adapter(a) for id, a in self.agents.items()}

    def _make_template(self, settings: dict[str, Any]) -> LeanMechanism | None:
        """The negotiation all others are made from, or None if the settings need the stock way."""
        usual = all(settings.get(name) == value for name, value in _SHORT_SETTINGS.items())
        if not usual or settings.keys() - _SHORT_SETTINGS.keys() - _FREE_SETTINGS or not self.neg_n_steps:
            return None
        return LeanMechanism(
            **(settings | {"serial": itertools.count()}),
            n_steps=self.neg_n_steps,
            time_limit=self.neg_time_limit,
            step_time_limit=self.neg_step_time_limit,
            issues=self._current_issues[0],
            annotation={},
            name="template",
        )

    def _request_negotiations(
        self,
        agent_id: str,
        controller: Any = None,
        negotiators: Any = None,
        extra: dict[str, Any] | None = None,
    ) -> bool:
        """Negotiations of one agent with all its suppliers and consumers, the suppliers first."""
        if negotiators is not None or not self._plain[agent_id] or self.is_bankrupt[agent_id]:
            return bool(super()._request_negotiations(agent_id, controller, negotiators, extra))
        profile = self.agent_profiles[agent_id]
        results: list[Any] = []
        for others, is_buy, product in (
            (self.agent_suppliers[agent_id], True, profile.input_product),
            (self.agent_consumers[agent_id], False, profile.output_product),
        ):
            partners = [id for id in others if not is_system_agent(id) and not self.is_bankrupt[id]]
            created = [controller.create_negotiator(LeanNegotiator, name=id, id=id) for id in partners]
            for partner, negotiator in zip(partners, created, strict=True):
                request = self._open if self._plain[partner] else self._request_negotiation
                results.append(request(agent_id, product, partner, negotiator, extra, is_buy))
        return all(results)

    def _open(
        self, agent_id: str, product: int, partner: str, negotiator: LeanNegotiator, extra: Any, is_buy: bool
    ) -> NegotiationInfo:
        """Open a negotiation between two plain agents, leaving everything as a request, its acceptance and the
        joining of both would leave it."""
        assert self._template is not None
        caller, other = self.agents[agent_id], self.agents[partner]
        buyer, seller = (agent_id, partner) if is_buy else (partner, agent_id)
        annotation = {
            "product": product,
            "is_buy": is_buy,
            "buyer": buyer,
            "seller": seller,
            "caller": agent_id,
            "sim_step": self.current_step,
        }
        issues = self._current_issues[product]
        random.choices(_NAME_CHARACTERS, k=8)  # the stock world names an outcome space here
        theirs = other.adapted_object.create_negotiator(LeanNegotiator, name=agent_id, id=agent_id)
        mechanism = self._template.between(
            self._serial,
            [(negotiator, caller), (theirs, other)],
            f"{agent_id}-{partner}",
            self._agenda(product),
            annotation,
        )
        id = mechanism.id
        info = NegotiationInfo(
            mechanism=mechanism,
            partners=[caller, other],
            annotation=annotation,
            issues=issues,
            requested_at=self.current_step,
            caller=caller,
        )
        caller._running_negotiations[id] = RunningNegotiationInfo(
            negotiator, annotation, id, {"negotiator_id": negotiator.id}, True
        )
        other._running_negotiations[id] = RunningNegotiationInfo(theirs, annotation, id, {"my_request": False}, False)
        self._count_opened(agent_id, partner)
        self._negotiations[id] = info
        details = NegotiationDetails(seller=seller, buyer=buyer, nmi=mechanism._internal_nmi, product=product)
        self._agent_negotiations[seller]["sell"][buyer] = details
        self._agent_negotiations[buyer]["buy"][seller] = details
        return info

    def _agenda(self, product: int) -> Agenda:
        """Today's agenda of a product; all its negotiations share it."""
        issues = self._current_issues[product]
        agenda = self._agendas.get(product)
        if agenda is None or agenda.issues is not issues:
            agenda = self._agendas[product] = Agenda.about(issues)
        return agenda

    def _count_opened(self, agent_id: str, partner: str) -> None:
        self.neg_requests_sent[agent_id] += 1
        self._World__n_negotiations += 1
        self._n_negs_per_agent_per_step[agent_id] += 1
        self._n_negs_per_agent[agent_id] += 1
        self.negs_initiated[agent_id] += 1
        for id in (agent_id, partner):
            self.neg_requests_received[id] += 1
            self.negs_registered[id] += 1

    def _step_negotiations(
        self, mechanisms: list[Any], n_steps: Any, force_immediate_signing: bool, partners: Any, action: Any = None
    ) -> Any:
        """Step all negotiations in turn until all have ended."""
        if n_steps is not None or self.negotiation_speed is not None or action:
            return super()._step_negotiations(mechanisms, n_steps, force_immediate_signing, partners, action)
        contracts: list[Contract | None] = [None] * len(mechanisms)
        running = [mechanism is not None for mechanism in mechanisms]
        indices = list(range(len(mechanisms)))
        steps = {True: 0, False: 0}
        ended = {True: 0, False: 0}
        while any(running):
            if self.shuffle_negotiations:
                random.shuffle(indices)
            for i in indices:
                if not running[i]:
                    continue
                contracts[i], running[i] = self._step_a_mechanism(mechanisms[i], force_immediate_signing)
                if not running[i]:
                    agreed = contracts[i] is not None
                    ended[agreed] += 1
                    steps[agreed] += mechanisms[i].state.step + 1
        return contracts, running, steps[False], steps[True], ended[False], ended[True]

    def _step_a_mechanism(
        self, mechanism: Any, force_immediate_signing: bool, action: Any = None
    ) -> tuple[Contract | None, bool]:
        """One step of a negotiation, and what follows from its end."""
        if not mechanism._short or action is not None:
            return super()._step_a_mechanism(mechanism, force_immediate_signing, action)  # type: ignore[no-any-return]
        try:
            state = mechanism.step()
        except Exception:  # whatever an agent raised ends its negotiation
            state = mechanism.abort()
            if not self.ignore_negotiation_exceptions:
                raise
        if not state.ended_or_never_started:
            return None, True
        negotiation = self._negotiations[mechanism.id]
        for partner, seconds in zip(negotiation.partners, mechanism.spent, strict=True):
            self.times[partner.id] += seconds
        contract = None
        if state.agreement is None:
            self._fail(mechanism, negotiation)
        else:
            day = self._tobe_signed_at(state.agreement, force_immediate_signing)
            contract = self._register_contract(mechanism.shared_nmi, negotiation, day)
        del self._negotiations[mechanism.id]
        return contract, False

    def _fail(self, mechanism: LeanMechanism, negotiation: NegotiationInfo) -> None:
        ids = [partner.id for partner in negotiation.partners]
        for id in ids:
            self.negs_failed[id] += 1
            if mechanism.state.timedout:
                self.negs_timedout[id] += 1
        for partner in negotiation.partners:
            self.call(
                partner,
                partner.on_negotiation_failure_,
                partners=list(ids),
                annotation=negotiation.annotation,
                mechanism=mechanism.shared_nmi,
                state=mechanism.state,
            )


def _is_plain_adapter(adapter: Any) -> bool:
    return type(adapter) is DefaultOneShotAdapter and is_plain(adapter.adapted_object)
