"""What a tracked agent saw and did, as the log's entries. One recorder an agent a world."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

from negmas import ResponseType

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
from echelon.hrl_xf.state_builder import OffersMemory, day_state

_SERIES = ("balance", "inventory_input", "inventory_output", "profit", "productivity")


_version = cache(version)


class Thread(NamedTuple):
    """One negotiation of today, as the agent sees it."""

    role: Role
    issues: Issues


def _offer(outcome: Any) -> Offer:
    q, t, p = outcome
    return int(q), int(t), int(p)


def _answer(response: Any, outcome: Any, offer: Any) -> Answer | None:
    """What a response means to the partner; None if it means nothing yet (wait, no response)."""
    if response == ResponseType.ACCEPT_OFFER:
        return "ACCEPT" if offer is not None else "END"
    if response == ResponseType.REJECT_OFFER:
        return "REJECT" if outcome is not None else "END"
    if response in (ResponseType.WAIT, ResponseType.NO_RESPONSE):
        return None
    return "END"


class Recorder:
    """Collects entries; `finish` turns them into an `AgentLog`."""

    def __init__(self, otherwise: Asked) -> None:
        """`otherwise` says who gave an answer that came from neither `first_proposals` nor `counter_all`."""
        self.entries: list[Entry] = []
        self.failures = 0
        self.first_failure = ""
        self._otherwise: Asked = otherwise
        self._day = -1
        self._awi: Any = None
        self._me = ""
        self._rounds = 0
        self._initial_balance = 0.0
        self._offers = OffersMemory()
        self._threads: dict[str, Thread] = {}
        self._open: set[str] = set()
        self._pending: dict[str, Decision] = {}
        self._calls = 0
        self._deals = 0
        self._executed = (0, 0)
        self._contracts_seen = 0
        self._due: dict[int, list[ContractEvent]] = {}
        # Agents call their own methods: only the outermost call is a question, or a decision.
        self.asking_state: Any = None
        self.asking = 0
        self.deciding = 0

    def count_failure(self, trace: str) -> None:
        self.failures += 1
        self.first_failure = self.first_failure or trace

    # -- the day's frame --

    def dawn(self, agent: Any) -> None:
        awi = agent.awi
        if self._day < 0:
            self._awi, self._me = awi, awi.agent.id
            self._initial_balance = float(awi.current_balance)
            self.entries.append(AgentInitializedEntry(day=awi.current_step, data=_initialized(agent, awi)))
        else:
            self._close_day()
        self._day = awi.current_step
        state = day_state(awi, self._initial_balance, self._offers.take())
        self.entries.append(DailyStatusEntry(day=self._day, data=state))
        details = awi.current_negotiation_details
        self._threads = {}
        if details["buy"]:
            self._threads |= dict.fromkeys(details["buy"], self._side("buyer", state.buy_issues))
        if details["sell"]:
            self._threads |= dict.fromkeys(details["sell"], self._side("seller", state.sell_issues))
        self._open = set(self._threads)
        one = next(iter((details["buy"] or details["sell"]).values()), None)
        self._rounds = 0 if one is None else one.nmi.n_steps  # a world gives all its negotiations the same
        self._pending = {}
        self._calls = self._deals = 0

    def _side(self, role: Role, issues: Issues | None) -> Thread:
        if issues is None:
            raise ValueError(f"there are negotiations as {role} on day {self._day}, but no issues to negotiate")
        return Thread(role, issues)

    def _mechanism_id(self, partner: str, role: Role) -> str:
        """Names the negotiation by day and partners: equal worlds give equal names, which the simulator's do not."""
        seller, buyer = (partner, self._me) if role == "buyer" else (self._me, partner)
        return f"{self._day:03d}_{seller}_{buyer}"

    def dusk(self, agent: Any) -> None:
        world, me = agent.awi._world, agent.awi.agent.id
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

    def _close_day(self) -> None:
        awi = self._awi
        world, me = awi._world, awi.agent.id
        profits = world._profits[me]
        closed = DayClosed(
            balance=float(awi.current_balance),
            inventory_input=int(awi.current_inventory_input),
            inventory_output=int(awi.current_inventory_output),
            executed_input=self._executed[0],
            executed_output=self._executed[1],
            productivity=float(world._productivity[me]),
            shortfall_penalty=float(world._shortfall_penalty[me]),
            shortfall_quantity=int(world._shortfall_quantity[me]),
            storage_cost=float(world._storage_cost[me]),
            disposal_cost=float(world._disposal_cost[me]),
            profit=float(profits[-1]) if len(profits) > self._day else 0.0,
        )
        self.entries.append(DayClosedEntry(day=self._day, data=closed))

    # -- decisions --

    def _decide(
        self, asked: Asked, partner: str, state: Any, offer: Offer | None, answer: Answer, counter: Offer | None
    ) -> Decision:
        thread = self._threads[partner]
        decision = Decision(
            self._calls,
            asked,
            partner,
            thread.role,
            self._mechanism_id(partner, thread.role),
            state.step,
            self._rounds,
            float(state.relative_time),
            thread.issues,
            offer,
            answer,
            counter if answer == "REJECT" else None,
            self._deals,
        )
        self.entries.append(DecisionEntry(day=self._day, data=decision))
        return decision

    def opened(self, proposals: Any) -> None:
        for partner, outcome in (proposals or {}).items():
            if partner in self._open:
                counter = None if outcome is None else _offer(outcome)
                answer: Answer = "END" if counter is None else "REJECT"
                asking = self.asking_state
                self._pending[partner] = self._decide("first_proposals", partner, asking, None, answer, counter)
        self._calls += 1

    def answered(self, offers: Any, states: Any, responses: Any) -> None:
        """Everything in sight was answered: what is in `responses`, and by silence every other open thread (END)."""
        for partner, outcome in offers.items():
            if partner in self._threads and outcome is not None:
                self._saw(partner, outcome, states[partner])
        for partner in self._threads:
            if partner not in self._open:
                continue
            on_table = offers.get(partner)
            offer = None if on_table is None else _offer(on_table)
            state = states.get(partner, self.asking_state)
            given = responses.get(partner)
            outcome = None if given is None else given.outcome
            answer = "END" if given is None else _answer(given.response, outcome, offer)
            if answer is not None:
                counter = _offer(outcome) if answer == "REJECT" else None
                self._pending[partner] = self._decide("counter_all", partner, state, offer, answer, counter)
        self._calls += 1

    def responded(self, partner: str, state: Any, response: Any) -> None:
        """A response left for the partner; a rejection is complete only with the proposal that follows."""
        plain = response if isinstance(response, ResponseType) else response.response  # extended ones carry a text
        answer = _answer(plain, True, state.current_offer)
        if answer in ("ACCEPT", "END"):
            self._deliver(partner, state, answer, None)

    def proposed(self, partner: str, state: Any, outcome: Any) -> None:
        """A proposal left for the partner: an opening, or the second half of a rejection."""
        self._deliver(partner, state, "END" if outcome is None else "REJECT", outcome)

    def _deliver(self, partner: str, state: Any, answer: Answer, outcome: Any) -> None:
        counter = None if outcome is None else _offer(outcome)
        decision = self._pending.pop(partner, None)
        if decision is None or decision.answer != answer or decision.counter_offer != counter:
            on_table = None if state.current_offer is None else _offer(state.current_offer)
            decision = self._decide(self._otherwise, partner, state, on_table, answer, counter)
            if self._otherwise == "respond":
                self._calls += 1
                if on_table is not None:
                    self._saw(partner, on_table, state)
        decision.sent = True

    def _saw(self, partner: str, offer: Any, state: Any) -> None:
        thread = self._threads[partner]
        self._offers.saw(thread.role, offer, state.step, self._rounds)

    # -- results of negotiations --

    def agreed(self, contract: Any) -> None:
        annotation, agreement = contract.annotation, contract.agreement
        role: Role = "buyer" if annotation["buyer"] == self._me else "seller"
        partner = annotation["seller" if role == "buyer" else "buyer"]
        deal = (int(agreement["quantity"]), int(agreement["time"]), int(agreement["unit_price"]))
        mechanism_id = self._mechanism_id(partner, role)
        data = NegotiationSuccess(mechanism_id, partner, role, deal, contract.mechanism_state.step)
        self.entries.append(NegotiationSuccessEntry(day=self._day, data=data))
        self._open.discard(partner)
        self._deals += 1

    def failed(self, annotation: Any, state: Any) -> None:
        role: Role = "buyer" if annotation["buyer"] == self._me else "seller"
        partner = annotation["seller" if role == "buyer" else "buyer"]
        mechanism_id = self._mechanism_id(partner, role)
        data = NegotiationFailure(mechanism_id, partner, role, state.step, bool(state.timedout))
        self.entries.append(NegotiationFailureEntry(day=self._day, data=data))
        self._open.discard(partner)

    # -- the log --

    def finish(self, agent: Any, *, world_id: str, config_id: str, seed: int) -> AgentLog:
        """Close the last day and hand over the whole log; call it once, after the world has ended."""
        if self._day >= 0:
            self._close_day()
        closed: list[DayClosed] = []
        answers = {"ACCEPT": 0, "REJECT": 0, "END": 0}
        deals = 0
        for entry in self.entries:
            kind = type(entry)
            if kind is DecisionEntry:
                answers[entry.data.answer] += 1  # type: ignore[union-attr]
            elif kind is NegotiationSuccessEntry:
                deals += 1
            elif kind is DayClosedEntry:
                closed.append(entry.data)  # type: ignore[arg-type]
        stats = LogStats(
            days=len(closed),
            decisions=sum(answers.values()),
            accepts=answers["ACCEPT"],
            rejects=answers["REJECT"],
            ends=answers["END"],
            deals=deals,
            final_score=closed[-1].balance / self._initial_balance if closed and self._initial_balance else 0.0,
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
        partner=annotation["seller" if role == "buyer" else "buyer"],
        role=role,
        quantity=int(agreement["quantity"]),
        time=int(agreement["time"]),
        price=float(agreement["unit_price"]),
        signed_at=contract.signed_at,
        exogenous=contract.mechanism_id is None,
    )
