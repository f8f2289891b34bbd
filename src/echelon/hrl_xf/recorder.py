"""What a tracked agent saw and did, as the log's entries. One recorder an agent a world."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from msgspec import Struct
from negmas import ResponseType

from echelon.hrl_xf.dawn_reader import DawnReader
from echelon.hrl_xf.schema import (
    AgentInitialized,
    AgentInitializedEntry,
    AgentLog,
    Answer,
    Asked,
    ContractEvent,
    ContractExecutedEntry,
    ContractSignedEntry,
    DailyStatusEntry,
    DayClosed,
    DayClosedEntry,
    Decision,
    DecisionEntry,
    Entry,
    Issues,
    LogStats,
    NegotiationFailure,
    NegotiationFailureEntry,
    NegotiationSuccess,
    NegotiationSuccessEntry,
    Offer,
    Role,
)
from echelon.hrl_xf.state_builder import OffersMemory

_SERIES = ("balance", "inventory_input", "inventory_output", "profit", "productivity")
REJECT, ACCEPT = ResponseType.REJECT_OFFER, ResponseType.ACCEPT_OFFER
_NOT_YET = (ResponseType.WAIT, ResponseType.NO_RESPONSE)
_version = cache(version)


class Thread(Struct, gc=False):
    """One negotiation of today, as the agent sees it."""

    role: Role
    issues: Issues
    mechanism_id: str
    open: bool = True
    pending: Decision | None = None
    """the agent's newest decision, until it is sent"""


def _offer(outcome: Any) -> Offer:
    q, t, p = outcome
    if type(outcome) is tuple and type(q) is int and type(t) is int and type(p) is int:
        return outcome  # nearly always; agents may give numpy's numbers, or a list
    return int(q), int(t), int(p)


def _answer(response: Any, outcome: Any, offer: Any) -> Answer | None:
    """What a response means to the partner; None if it means nothing yet (wait, no response)."""
    if response == REJECT:
        return "REJECT" if outcome is not None else "END"
    if response == ACCEPT:
        return "ACCEPT" if offer is not None else "END"
    return None if response in _NOT_YET else "END"


class Recorder:
    """Collects entries; `finish` turns them into an `AgentLog`."""

    def __init__(self, otherwise: Asked) -> None:
        """`otherwise` says who gave an answer that came from neither `first_proposals` nor `counter_all`."""
        self.entries: list[Entry] = []
        self._closed_days: list[DayClosed] = []
        self._answers: dict[Answer, int] = {"ACCEPT": 0, "REJECT": 0, "END": 0}
        self._all_deals = 0
        self.failures = 0
        self.first_failure = ""
        self._otherwise: Asked = otherwise
        self._day = -1
        self._awi: Any = None
        self._world: Any = None
        self._me = ""
        self._rounds = 0
        self._reader: DawnReader
        self._offers = OffersMemory()
        self._threads: dict[str, Thread] = {}
        self._calls = 0
        self._deals = 0
        self._executed = (0, 0)
        self._contracts_seen = 0
        self._due: dict[int, list[ContractEvent]] = {}
        # Agents call their own methods: only the outermost call is a question, or a decision.
        self.asking_state: Any = None
        self.asking = False
        self.deciding = 0

    def count_failure(self, trace: str) -> None:
        self.failures += 1
        self.first_failure = self.first_failure or trace

    # -- the day's frame --

    def dawn(self, agent: Any) -> None:
        if self._day < 0:
            self._begin(agent)
        state = self._reader.read(self._offers.take())
        if self._day >= 0:
            self._close_day(state.balance, state.inventory_input, state.inventory_output)
        self._day = state.current_step
        self.entries.append(DailyStatusEntry(day=self._day, data=state))
        details = self._awi.current_negotiation_details
        buy, sell = details["buy"], details["sell"]
        self._threads = threads = {}
        if buy:
            issues, head, tail = self._issues("buyer", state.buy_issues), f"{self._day:03d}_", f"_{self._me}"
            for partner in buy:
                threads[partner] = Thread("buyer", issues, head + partner + tail)
        if sell:
            issues, head = self._issues("seller", state.sell_issues), f"{self._day:03d}_{self._me}_"
            for partner in sell:
                threads[partner] = Thread("seller", issues, head + partner)
        one = next(iter((buy or sell).values()), None)
        self._rounds = 0 if one is None else one.nmi.n_steps  # a world gives all its negotiations the same
        self._calls = self._deals = 0

    def _begin(self, agent: Any) -> None:
        awi = agent.awi
        self._awi, self._world, self._me = awi, awi._world, awi.agent.id
        self._reader = DawnReader(awi)
        self.entries.append(AgentInitializedEntry(day=awi.current_step, data=_initialized(agent, awi)))

    def _issues(self, role: Role, issues: Issues | None) -> Issues:
        if issues is None:
            raise ValueError(f"there are negotiations as {role} on day {self._day}, but no issues to negotiate")
        return issues

    def dusk(self) -> None:
        world, me = self._world, self._me
        self._executed = (int(world._input_quantity[me]), int(world._output_quantity[me]))
        contracts = world.agent_contracts[me]
        for contract in contracts[self._contracts_seen :]:
            event = _contract_event(contract, me)
            self.entries.append(ContractSignedEntry(day=self._day, data=event))
            if contract.nullified_at < 0:
                self._due.setdefault(event.time, []).append(event)
        self._contracts_seen = len(contracts)
        for event in self._due.pop(self._day, ()):
            self.entries.append(ContractExecutedEntry(day=self._day, data=event))

    def _close_day(self, balance: float, inventory_input: int, inventory_output: int) -> None:
        world, me = self._world, self._me
        profits = world._profits[me]
        closed = DayClosed(
            balance,
            inventory_input,
            inventory_output,
            *self._executed,
            float(world._productivity[me]),
            float(world._shortfall_penalty[me]),
            int(world._shortfall_quantity[me]),
            float(world._storage_cost[me]),
            float(world._disposal_cost[me]),
            float(profits[-1]) if len(profits) > self._day else 0.0,
        )
        self._closed_days.append(closed)
        self.entries.append(DayClosedEntry(day=self._day, data=closed))

    # -- decisions --

    def _decide(
        self,
        asked: Asked,
        partner: str,
        thread: Thread,
        state: Any,
        offer: Offer | None,
        answer: Answer,
        counter: Offer | None,
    ) -> Decision:
        decision = Decision(
            self._calls,
            asked,
            partner,
            thread.role,
            thread.mechanism_id,
            state.step,
            self._rounds,
            float(state.relative_time),
            thread.issues,
            offer,
            answer,
            counter,
            self._deals,
        )
        self._answers[answer] += 1
        self.entries.append(DecisionEntry(day=self._day, data=decision))
        return decision

    def opened(self, proposals: Any) -> None:
        asking = self.asking_state
        for partner, outcome in (proposals or {}).items():
            thread = self._threads.get(partner)
            if thread is not None and thread.open:
                counter = None if outcome is None else _offer(outcome)
                answer: Answer = "END" if counter is None else "REJECT"
                thread.pending = self._decide("first_proposals", partner, thread, asking, None, answer, counter)
        self._calls += 1

    def answered(self, offers: Any, states: Any, responses: Any) -> None:
        """Everything in sight was answered: what is in `responses`, and by silence every other open thread (END)."""
        on_table = {partner: _offer(outcome) for partner, outcome in offers.items() if outcome is not None}
        for partner, offer in on_table.items():
            thread = self._threads.get(partner)
            if thread is not None:
                self._offers.saw(thread.role, offer, states[partner].step, self._rounds)
        for partner, thread in self._threads.items():
            if not thread.open:
                continue
            table = on_table.get(partner)
            given = responses.get(partner)
            outcome = None if given is None else given.outcome
            answer = "END" if given is None else _answer(given.response, outcome, table)
            if answer is not None:
                counter = _offer(outcome) if answer == "REJECT" else None
                state = states.get(partner, self.asking_state)
                thread.pending = self._decide("counter_all", partner, thread, state, table, answer, counter)
        self._calls += 1

    def responded(self, partner: str, state: Any, response: Any) -> None:
        """A response left for the partner; a rejection is complete only with the proposal that follows."""
        plain = response if isinstance(response, ResponseType) else response.response  # extended ones carry a text
        answer = _answer(plain, True, state.current_offer)
        if answer in ("ACCEPT", "END"):
            self._deliver(partner, state, answer, None)

    def proposed(self, partner: str, state: Any, outcome: Any) -> None:
        """A proposal left for the partner: an opening, or the second half of a rejection."""
        pending = self._threads[partner].pending
        if outcome is not None and pending is not None and pending.counter_offer == outcome:
            self._threads[partner].pending = None
            pending.sent = True
        elif outcome is not None:
            self._deliver(partner, state, "REJECT", _offer(outcome))
        else:
            self._deliver(partner, state, "END", None)

    def _deliver(self, partner: str, state: Any, answer: Answer, counter: Offer | None) -> None:
        thread = self._threads[partner]
        decision, thread.pending = thread.pending, None
        if decision is None or decision.answer != answer or decision.counter_offer != counter:
            offer = None if state.current_offer is None else _offer(state.current_offer)
            decision = self._decide(self._otherwise, partner, thread, state, offer, answer, counter)
            if self._otherwise == "respond":
                self._calls += 1
                if offer is not None:
                    self._offers.saw(thread.role, offer, state.step, self._rounds)
        decision.sent = True

    # -- results of negotiations --

    def _partner(self, annotation: Any) -> str:
        buyer: str = annotation["buyer"]
        return annotation["seller"] if buyer == self._me else buyer

    def agreed(self, contract: Any) -> None:
        agreement = contract.agreement
        deal = (int(agreement["quantity"]), int(agreement["time"]), int(agreement["unit_price"]))
        partner = self._partner(contract.annotation)
        thread = self._threads[partner]
        thread.open = False
        data = NegotiationSuccess(thread.mechanism_id, partner, thread.role, deal, contract.mechanism_state.step)
        self.entries.append(NegotiationSuccessEntry(day=self._day, data=data))
        self._deals += 1
        self._all_deals += 1

    def failed(self, annotation: Any, state: Any) -> None:
        partner = self._partner(annotation)
        thread = self._threads[partner]
        thread.open = False
        data = NegotiationFailure(thread.mechanism_id, partner, thread.role, state.step, bool(state.timedout))
        self.entries.append(NegotiationFailureEntry(day=self._day, data=data))

    # -- the log --

    def finish(self, agent: Any, *, world_id: str, config_id: str, seed: int) -> AgentLog:
        """Close the last day and hand over the whole log; call it once, after the world has ended."""
        if self._day >= 0:
            awi = self._awi
            balance, (inputs, outputs) = awi.current_balance, awi.current_inventory
            self._close_day(float(balance), int(inputs), int(outputs))
        closed, answers = self._closed_days, self._answers
        score = closed[-1].balance / self._reader.initial_balance if closed and self._reader.initial_balance else 0.0
        stats = LogStats(
            days=len(closed),
            decisions=sum(answers.values()),
            accepts=answers["ACCEPT"],
            rejects=answers["REJECT"],
            ends=answers["END"],
            deals=self._all_deals,
            final_score=score,
            tracker_failures=self.failures,
            first_tracker_failure=self.first_failure,
        )
        return AgentLog(
            agent_id=agent.awi.agent.id,
            agent_type=_initialized(agent, agent.awi).agent_type_base,
            world_id=world_id,
            config_id=config_id,
            seed=seed,
            scml_version=_version("scml"),
            negmas_version=_version("negmas"),
            stats=stats,
            time_series={name: [float(getattr(day, name)) for day in closed] for name in _SERIES},
            entries=self.entries,
        )


def _initialized(agent: Any, awi: Any) -> AgentInitialized:
    from echelon.hrl_xf.tracker import base_class  # the tracker imports this module

    raw, base = type(agent), base_class(type(agent))
    return AgentInitialized(
        n_steps=awi.n_steps,
        n_lines=int(awi.n_lines),
        level=awi.level,
        n_products=awi.n_products,
        agent_type_raw=raw.__name__,
        agent_type_raw_full=f"{raw.__module__}.{raw.__qualname__}",
        agent_type_base=base.__name__,
        agent_type_base_full=f"{base.__module__}.{base.__qualname__}",
    )


def _contract_event(contract: Any, me: str) -> ContractEvent:
    annotation, agreement = contract.annotation, contract.agreement
    role: Role = "buyer" if annotation["buyer"] == me else "seller"
    return ContractEvent(
        annotation["seller" if role == "buyer" else "buyer"],
        role,
        int(agreement["quantity"]),
        int(agreement["time"]),
        float(agreement["unit_price"]),
        contract.signed_at,
        exogenous=contract.mechanism_id is None,
    )
