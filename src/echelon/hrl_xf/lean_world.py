"""SCML Standard worlds that play the stock game and keep only what collection reads.

`LeanStdWorld` is scml's SCML2024StdWorld for the collector: agents see the same values and callbacks in the same order
and draw the same random numbers, so contracts and scores are those of the stock world, several times faster.

Left out: the flat record of each negotiation, daily tables, edges, log lines, every file and folder, and all
wall-clock limits (nothing stops a slow agent: whoever plays the world must watch over its time).

Made reproducible where the stock world is not: entities and unsigned contracts keep their order of arrival (stock: sets
ordered by memory address and by random id), ids of negotiations and contracts are numbers, and the clock stands still
just after the start, so that `relative_time` counts days only. `times` holds the seconds each agent used in total.
"""

from __future__ import annotations

import copy
import itertools
import random
import string
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

from negmas.helpers import exception2str
from negmas.outcomes import make_os
from negmas.serialization import deserialize
from negmas.situated import Contract, NegotiationInfo, RunningNegotiationInfo
from scml.oneshot.common import NegotiationDetails, is_system_agent
from scml.oneshot.sysagents import DefaultOneShotAdapter
from scml.std.world import STD_DEFAULT_PARAMS, SCML2024StdWorld

from echelon.hrl_xf.lean_mechanism import LeanMechanism, LeanNegotiator, is_plain

_MECHANISM = f"{LeanMechanism.__module__}.{LeanMechanism.__qualname__}"
_CLOCK = 0.05
"""Seconds the world says have passed, always: a little above 0, because agents compute prices from `relative_time`,
which is above 0 on the first day of any stock world, and an offer at exactly 0 would be another one."""
_QUIET: dict[str, Any] = {
    "no_logs": True,
    "log_folder": None,
    "log_to_screen": False,
    "log_ufuns": False,
    "log_negotiations": False,
    "log_stats_every": 0,
    "event_file_name": None,
    "checkpoint_folder": None,
    "saved_details_level": 0,
    "construct_graphs": False,
}
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


class OrderedSet(dict[Any, None]):
    """A set that keeps the order of arrival, with the methods the world uses."""

    def add(self, item: Any) -> None:
        self[item] = None

    def remove(self, item: Any) -> None:
        del self[item]


class LeanStdWorld(SCML2024StdWorld):  # type: ignore[misc]
    """The SCML 2024 Standard world without records; see the module's docstring."""

    def __init__(self, **kwargs: Any) -> None:
        self._serial = itertools.count(1)
        self._n_concluded = 0
        self._spaces: dict[int, tuple[Any, Any]] = {}
        super().__init__(**(kwargs | _QUIET))
        self.save_negotiations = False
        settings = next(iter(self.mechanisms.values())) | {"serial": self._serial}
        self.mechanisms = {_MECHANISM: settings}
        self._template = self._make_template(settings)
        self._plain = {id: self._template is not None and _is_plain_adapter(a) for id, a in self.agents.items()}
        self._number_exogenous()

    @property
    def _log_folder(self) -> Any:
        return self.__dict__["_log_folder"]

    @_log_folder.setter
    def _log_folder(self, value: Any) -> None:
        """World.__init__ builds the folder as a Path and at last keeps it as str: there is none to keep."""
        self.__dict__["_log_folder"] = value if isinstance(value, Path) else ""

    @property
    def _entities(self) -> Any:
        return self.__dict__["_entities"]

    @_entities.setter
    def _entities(self, value: Any) -> None:
        self.__dict__["_entities"] = defaultdict(OrderedSet)

    @property
    def unsigned_contracts(self) -> Any:
        return self.__dict__["unsigned_contracts"]

    @unsigned_contracts.setter
    def unsigned_contracts(self, value: Any) -> None:
        self.__dict__["unsigned_contracts"] = defaultdict(OrderedSet)

    @property
    def time(self) -> float:
        return 0.0 if self._start_time is None else _CLOCK

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

    def _number_exogenous(self) -> None:
        """Give contracts made before the first day numbers for ids, and keep the waiting ones findable by them."""
        for number, contract in enumerate(c for day in self.exogenous_contracts.values() for c in day):
            contract.id = f"exogenous-{number:06d}"
        waiting = [(day, list(contracts)) for day, contracts in self.unsigned_contracts.items()]
        self.unsigned_contracts = None
        for day, contracts in waiting:
            for contract in contracts:
                self.unsigned_contracts[day].add(contract)

    def on_contract_concluded(self, contract: Contract, to_be_signed_at: int) -> None:
        if contract.mechanism_id is not None:
            self._n_concluded += 1
            contract.id = f"contract-{self._n_concluded:06d}"
        super().on_contract_concluded(contract, to_be_signed_at)

    def call(self, agent: Any, method: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a method of an agent; count what it raises and the time it takes."""
        if self.disable_agent_printing:
            return super().call(agent, method, *args, **kwargs)
        start = perf_counter()
        try:
            return method(*args, **kwargs)
        except Exception as error:  # an agent may raise anything
            self.agent_exceptions[agent.id].append((self._current_step, exception2str()))
            self.on_exception(agent, error)
            if not self.ignore_agent_exception:
                raise
        finally:
            self.times[agent.id] += perf_counter() - start

    def executable_contracts(self) -> Iterable[Contract]:
        """Today's contracts, without the stock world's check of all contracts ever saved."""
        return self.contracts_per_step.get(self.current_step, [])  # type: ignore[no-any-return]

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
            self._space(product),
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

    def _space(self, product: int) -> Any:
        """Today's outcome space of a product; all its negotiations share it."""
        issues = self._current_issues[product]
        known, space = self._spaces.get(product, (None, None))
        if known is not issues:
            space = make_os(issues)
            self._spaces[product] = (issues, space)
        return space

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


_STD_DEFAULTS = dict(STD_DEFAULT_PARAMS)  # scml's generator writes the world's parameters into its own defaults
_TAKEN_FROM_ASSIGNMENT = (
    "agent_types",
    "agent_params",
    "name",
    "ignore_agent_exceptions",
    "ignore_contract_execution_exceptions",
    "ignore_simulation_exceptions",
    "ignore_negotiation_exceptions",
)


def lean_std_world_generator(**kwargs: Any) -> LeanStdWorld:
    """The world scml.utils.anac2024_std_world_generator makes from the same assigned config, as a LeanStdWorld.

    Draws the same random numbers; changes neither its arguments nor scml's defaults, and writes nothing.
    """
    params = copy.deepcopy(kwargs["world_params"])
    exact = deserialize(params.pop("__exact_params"))
    context = params.pop("__context", None)
    params = _STD_DEFAULTS | params | {"random_agent_types": False}
    if context is None:
        assigned = SCML2024StdWorld.generate(**params)
    else:
        assigned = deserialize(context).generate(SCML2024StdWorld, params=params)
    exact |= {key: assigned[key] for key in _TAKEN_FROM_ASSIGNMENT if key in assigned}
    exact["info"] = exact.get("info", {}) | {"is_default": kwargs["is_default"]}
    return LeanStdWorld(**exact)
