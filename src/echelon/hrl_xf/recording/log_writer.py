"""`LogWriter`: a recorder's notes, written out as the log's entries.

Notes are one flat list of six values each: the method of `LogWriter` that writes the note, and five arguments for it.
So a note makes no object that the garbage collector would have to look at, and a world of ten thousand notes leaves
only the list. They are written in the order they were taken, all at once, when the entries are asked for.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from copy import copy
from typing import Any

from msgspec import Struct
from negmas import ResponseType

from echelon.hrl_xf.recording.dawn_reader import Dawn, DawnReader
from echelon.hrl_xf.state.day_state import Answer, Issues, Offer, OffersSnapshot, Role, SeenOffer
from echelon.hrl_xf.state.schema import (
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
    NegotiationFailure,
    NegotiationFailureEntry,
    NegotiationSuccess,
    NegotiationSuccessEntry,
)

WIDTH = 6
"""values of a note"""

REJECT, ACCEPT = ResponseType.REJECT_OFFER, ResponseType.ACCEPT_OFFER
_NOT_YET = (ResponseType.WAIT, ResponseType.NO_RESPONSE)
_SILENCE = (ResponseType.END_NEGOTIATION, None)


class OpenThread(Struct, gc=False):
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
    if response is REJECT:
        return "REJECT" if outcome is not None else "END"
    if response is ACCEPT:
        return "ACCEPT" if offer is not None else "END"
    return None if response in _NOT_YET else "END"


def _rows(flat: list[Any], width: int) -> Iterator[tuple[Any, ...]]:
    """The values of a flat list, in groups of a given size."""
    return zip(*[iter(flat)] * width, strict=True)


def frozen_copy(outcome: Any) -> Any:
    """An agent's offer for a note: a tuple stays as it is, of anything else there must be a copy."""
    return outcome if outcome is None or type(outcome) is tuple else copy(outcome)


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
        contract.mechanism_id is None,
    )


class LogWriter:
    """Writes one agent's notes; `entries` is what has been written."""

    def __init__(self, default_asked: Asked) -> None:
        """`default_asked` says who gave an answer that came from neither `first_proposals` nor `counter_all`."""
        self.entries: list[Entry] = []
        self.closed_days: list[DayClosed] = []
        self.answers: dict[Answer, int] = {"ACCEPT": 0, "REJECT": 0, "END": 0}
        self.deals = 0
        self.failures = 0
        self.first_failure = ""
        self._me = ""
        self._reader: DawnReader
        self._default_asked: Asked = default_asked
        self._day = -1
        self._rounds = 0
        self._threads: dict[str, OpenThread] = {}
        self._seen: dict[Role, list[SeenOffer]] = {"buyer": [], "seller": []}
        self._calls = 0
        self._deals_today = 0
        self._due: dict[int, list[ContractEvent]] = {}
        self._executed = (0, 0)

    def write(self, notes: list[Any]) -> None:
        """Write notes out. One that cannot be written is counted; the others are not touched by it."""
        for method, a, b, c, d, e in _rows(notes, WIDTH):
            try:
                method(self, a, b, c, d, e)
            except Exception:  # noqa: BLE001 - a log with a gap that it admits is better than none
                self.count_failure()

    def count_failure(self) -> None:
        """Count the exception that is being handled."""
        self.failures += 1
        self.first_failure = self.first_failure or traceback.format_exc()

    # -- the day's frame --

    def began(self, me: str, reader: DawnReader, entry: Entry, *_: None) -> None:
        self._me, self._reader = me, reader
        self.entries.append(entry)

    def dawned(self, dawn: Dawn, rounds: int, suppliers: tuple[str, ...], consumers: tuple[str, ...], *_: None) -> None:
        """The agent's state at dawn, with yesterday's offers, which were noted before it; it closes yesterday."""
        if self._day >= 0:
            self.closed(dawn)
        state = self._reader.state(dawn, OffersSnapshot(self._seen["buyer"], self._seen["seller"]))
        self._seen = {"buyer": [], "seller": []}
        self._day = day = state.current_step
        self.entries.append(DailyStatusEntry(day=day, data=state))
        self._threads = threads = {}
        self._rounds, self._calls, self._deals_today = rounds, 0, 0
        if suppliers:
            issues, head, tail = self._issues("buyer", state.buy_issues), f"{day:03d}", self._me
            for partner in suppliers:
                threads[partner] = OpenThread("buyer", issues, f"{head}_{partner}_{tail}")
        if consumers:
            issues, head = self._issues("seller", state.sell_issues), f"{day:03d}_{self._me}_"
            for partner in consumers:
                threads[partner] = OpenThread("seller", issues, head + partner)

    def _issues(self, role: Role, issues: Issues | None) -> Issues:
        if issues is None:
            raise ValueError(f"there are negotiations as {role} on day {self._day}, but no issues to negotiate")
        return issues

    def signed(self, contract: Any, stands: bool, *_: None) -> None:
        """A contract; one that is not valid will not be executed."""
        event = _contract_event(contract, self._me)
        self.entries.append(ContractSignedEntry(day=self._day, data=event))
        if stands:
            self._due.setdefault(event.time, []).append(event)

    def executed(self, inputs: Any, outputs: Any, *_: None) -> None:
        """What is due today, and the pieces that came in and went out."""
        self._executed = (int(inputs), int(outputs))
        for event in self._due.pop(self._day, ()):
            self.entries.append(ContractExecutedEntry(day=self._day, data=event))

    def closed(self, dawn: Dawn, *_: None) -> None:
        """The day, as the next dawn shows it."""
        day = dawn.closing(self._day, *self._executed)
        self.closed_days.append(day)
        self.entries.append(DayClosedEntry(day=self._day, data=day))

    # -- decisions --

    def _decide(
        self,
        asked: Asked,
        partner: str,
        thread: OpenThread,
        round_: int,
        time: float,
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
            round_,
            self._rounds,
            float(time),
            thread.issues,
            offer,
            answer,
            counter,
            self._deals_today,
        )
        self.answers[answer] += 1
        self.entries.append(DecisionEntry(day=self._day, data=decision))
        return decision

    def opened(self, round_: int, time: float, made: dict[str, Any], *_: None) -> None:
        """The agent's `first_proposals`, in the round of the negotiation that asked."""
        for partner, outcome in made.items():
            thread = self._threads.get(partner)
            if thread is not None and thread.open:
                counter = None if outcome is None else _offer(outcome)
                answer: Answer = "END" if counter is None else "REJECT"
                thread.pending = self._decide("first_proposals", partner, thread, round_, time, None, answer, counter)
        self._calls += 1

    def answered(self, round_: int, time: float, seen: list[Any], given: list[Any], *_: None) -> None:
        """The agent's `counter_all`: partner, offer, round, time, … and what it gave: partner, response, outcome, …

        Everything in sight was answered: what was given, and by silence every other open thread (END). A thread that
        was not seen is in the round of the negotiation that asked.
        """
        threads = self._threads
        tables: dict[str, tuple[Offer | None, int, float]] = {}
        for partner, outcome, its_round, its_time in _rows(seen, 4):
            offer = None if outcome is None else _offer(outcome)
            tables[partner] = (offer, its_round, its_time)
            if offer is not None and partner in threads:
                self._remember(threads[partner].role, offer, its_round)
        answers = {partner: (response, outcome) for partner, response, outcome in _rows(given, 3)}
        unseen = (None, round_, time)
        for partner, thread in threads.items():
            if thread.open:
                offer, its_round, its_time = tables.get(partner, unseen)
                response, outcome = answers.get(partner, _SILENCE)
                answer = _answer(response, outcome, offer)
                if answer is not None:
                    counter = _offer(outcome) if answer == "REJECT" else None
                    thread.pending = self._decide(
                        "counter_all", partner, thread, its_round, its_time, offer, answer, counter
                    )
        self._calls += 1

    def _remember(self, role: Role, offer: Offer, round_: int) -> None:
        q, t, p = offer
        self._seen[role].append(SeenOffer(t, q, p, round_, self._rounds))

    def responded(self, partner: str, round_: int, time: float, offer: Any, response: Any) -> None:
        """A response left for the partner; a rejection is complete only with the proposal that follows."""
        plain = response if isinstance(response, ResponseType) else response.response  # extended ones carry a text
        answer = _answer(plain, True, offer)
        if answer in ("ACCEPT", "END"):
            self._deliver(partner, round_, time, offer, answer, None)

    def proposed(self, partner: str, round_: int, time: float, offer: Any, outcome: Any) -> None:
        """A proposal left for the partner: an opening, or the second half of a rejection."""
        thread = self._threads[partner]
        pending = thread.pending
        if outcome is not None and pending is not None and pending.counter_offer == outcome:
            thread.pending = None
            pending.sent = True
        elif outcome is not None:
            self._deliver(partner, round_, time, offer, "REJECT", _offer(outcome))
        else:
            self._deliver(partner, round_, time, offer, "END", None)

    def _deliver(
        self, partner: str, round_: int, time: float, on_table: Any, answer: Answer, counter: Offer | None
    ) -> None:
        thread = self._threads[partner]
        decision, thread.pending = thread.pending, None
        if decision is None or decision.answer != answer or decision.counter_offer != counter:
            offer = None if on_table is None else _offer(on_table)
            decision = self._decide(self._default_asked, partner, thread, round_, time, offer, answer, counter)
            if self._default_asked == "respond":
                self._calls += 1
                if offer is not None:
                    self._remember(thread.role, offer, round_)
        decision.sent = True

    # -- results of negotiations --

    def agreed(self, buyer: str, seller: str, deal: tuple[Any, Any, Any], round_: int, *_: None) -> None:
        partner = seller if buyer == self._me else buyer
        thread = self._threads[partner]
        thread.open = False
        data = NegotiationSuccess(thread.mechanism_id, partner, thread.role, _offer(deal), round_)
        self.entries.append(NegotiationSuccessEntry(day=self._day, data=data))
        self._deals_today += 1
        self.deals += 1

    def failed(self, buyer: str, seller: str, round_: int, timedout: Any, *_: None) -> None:
        partner = seller if buyer == self._me else buyer
        thread = self._threads[partner]
        thread.open = False
        data = NegotiationFailure(thread.mechanism_id, partner, thread.role, round_, bool(timedout))
        self.entries.append(NegotiationFailureEntry(day=self._day, data=data))


BEGAN, DAWNED, CLOSED = LogWriter.began, LogWriter.dawned, LogWriter.closed
SIGNED, EXECUTED = LogWriter.signed, LogWriter.executed
OPENED, ANSWERED = LogWriter.opened, LogWriter.answered
RESPONDED, PROPOSED = LogWriter.responded, LogWriter.proposed
AGREED, FAILED = LogWriter.agreed, LogWriter.failed
