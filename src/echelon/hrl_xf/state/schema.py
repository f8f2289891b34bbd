"""The log format: one set of msgspec structs that is documentation, decoder and validator in one.

A day's state is the one record that play makes too: a plain dataclass (`day_state`), because play needs no msgspec. In
it, and in what it consists of, a field that is missing or of a wrong type is refused; one that is too many is not.

A log is one agent's view of one world: `AgentLog` with a list of entries `{day, category, event, data}`.
Quantities are pieces, prices are currency per piece, days are absolute unless a name says "ahead".
An offer is the outcome of the negotiation itself: (quantity, delivery day, unit price).
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from echelon.hrl_xf.state.day_state import Answer, DayState, Issues, Offer, Role

FORMAT_VERSION = 1

Asked = Literal["first_proposals", "counter_all", "respond", "framework"]


class Record(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Base of the records: immutable, an unknown field is an error, and the garbage collector need not look at them."""


class AgentInitialized(Record, frozen=True, gc=False):
    n_steps: int
    n_lines: int
    level: int
    n_products: int
    agent_type_raw: str
    """class name as it played"""
    agent_type_raw_full: str
    agent_type_base: str
    """class name without the recording subclass"""
    agent_type_base_full: str


class Decision(Struct, forbid_unknown_fields=True, gc=False):
    """One answer in one thread. Threads answered in one call share `call` and were decided together."""

    call: int
    """counts the agent's calls of the day"""
    asked: Asked
    """`framework`: the agent left the thread out and the negotiation framework offered in its name"""
    partner: str
    role: Role
    mechanism_id: str
    round: int
    rounds: int
    relative_time: float
    issues: Issues
    offer: Offer | None
    """the partner's offer on the table; None for an opening"""
    answer: Answer
    counter_offer: Offer | None
    """what a REJECT proposed instead"""
    deals_before: int
    """the ledger: how many of the day's `negotiation_success` entries came before this call"""
    sent: bool = False
    """whether the answer reached the partner (a later call may overtake an answer that was not asked for)"""


class NegotiationSuccess(Record, frozen=True, gc=False):
    mechanism_id: str
    partner: str
    role: Role
    agreement: Offer
    round: int


class NegotiationFailure(Record, frozen=True, gc=False):
    mechanism_id: str
    partner: str
    role: Role
    round: int
    timedout: bool


class ContractEvent(Record, frozen=True, gc=False):
    """A contract signed or executed; `exogenous` ones were given, not negotiated."""

    partner: str
    role: Role
    quantity: int
    time: int
    price: float
    signed_at: int
    exogenous: bool


class DayClosed(Record, frozen=True, gc=False):
    """The day's balance sheet, known once contracts are executed and production is done."""

    balance: float
    inventory_input: int
    inventory_output: int
    executed_input: int
    executed_output: int
    productivity: float
    """share of the lines that were in use"""
    shortfall_penalty: float
    shortfall_quantity: int
    storage_cost: float
    disposal_cost: float
    profit: float


class _Entry(Struct, tag_field="event", kw_only=True, forbid_unknown_fields=True, gc=False):
    day: int
    category: str


class AgentInitializedEntry(_Entry, tag="agent_initialized", kw_only=True, gc=False):
    data: AgentInitialized
    category: Literal["agent"] = "agent"


class DailyStatusEntry(_Entry, tag="daily_status", kw_only=True, gc=False):
    data: DayState
    category: Literal["state"] = "state"


class DayClosedEntry(_Entry, tag="day_closed", kw_only=True, gc=False):
    data: DayClosed
    category: Literal["state"] = "state"


class DecisionEntry(_Entry, tag="decision", kw_only=True, gc=False):
    data: Decision
    category: Literal["negotiation"] = "negotiation"


class NegotiationSuccessEntry(_Entry, tag="negotiation_success", kw_only=True, gc=False):
    data: NegotiationSuccess
    category: Literal["negotiation"] = "negotiation"


class NegotiationFailureEntry(_Entry, tag="negotiation_failure", kw_only=True, gc=False):
    data: NegotiationFailure
    category: Literal["negotiation"] = "negotiation"


class ContractSignedEntry(_Entry, tag="contract_signed", kw_only=True, gc=False):
    data: ContractEvent
    category: Literal["contract"] = "contract"


class ContractExecutedEntry(_Entry, tag="contract_executed", kw_only=True, gc=False):
    data: ContractEvent
    category: Literal["contract"] = "contract"


Entry = (
    AgentInitializedEntry
    | DailyStatusEntry
    | DayClosedEntry
    | DecisionEntry
    | NegotiationSuccessEntry
    | NegotiationFailureEntry
    | ContractSignedEntry
    | ContractExecutedEntry
)


class LogStats(Record, frozen=True, gc=False):
    """Totals of a log, so that a summary need not read the entries."""

    days: int
    decisions: int
    accepts: int
    rejects: int
    ends: int
    deals: int
    final_score: float
    tracker_failures: int
    first_tracker_failure: str = ""


class AgentLog(Struct, kw_only=True, forbid_unknown_fields=True):
    """One file: one agent in one world."""

    format_version: int = FORMAT_VERSION
    agent_id: str
    agent_type: str
    world_id: str
    config_id: str
    seed: int
    scml_version: str
    negmas_version: str
    stats: LogStats
    time_series: dict[str, list[float]]
    entries: list[Entry]


class _Header(Struct):
    format_version: int


class LogError(ValueError):
    """A log that cannot be used; the message says why."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AgentLog)
_header_decoder = msgspec.json.Decoder(_Header)


def encode_log(log: AgentLog) -> bytes:
    """Compact JSON."""
    return _encoder.encode(log)


def decode_log(raw: bytes) -> AgentLog:
    """Decode and validate one log; `LogError` says what is wrong with a damaged, foreign or newer one."""
    if not raw.strip():
        raise LogError("the file is empty")
    try:
        version = _header_decoder.decode(raw).format_version
    except msgspec.DecodeError as error:
        raise LogError(f"not a tracker log, or cut short: {error}") from error
    if version != FORMAT_VERSION:
        raise LogError(f"format_version {version} is not {FORMAT_VERSION}, the one this version of Echelon reads")
    try:
        return _decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise LogError(f"not a valid tracker log: {error}") from error
