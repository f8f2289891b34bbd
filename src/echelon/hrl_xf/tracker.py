"""`tracked(cls)`: the same agent, recording.

The recording subclass calls the agent first and writes down second; it draws no random number and changes no answer,
so a tracked world signs the same contracts as an untracked one. A failure of the recorder is counted and reported in
the log's stats; the world goes on.

Decisions are noted when the agent *makes* them (with what it knew then) and marked `sent` when the answer reaches the
partner: a sync agent answers all threads in one call, and the framework hands the answers over one by one.
"""

from __future__ import annotations

import functools
import importlib
import traceback
from collections.abc import Callable, Collection
from typing import Any

from negmas import ResponseType
from negmas.sao import SAOSyncController

from echelon.hrl_xf import roster
from echelon.hrl_xf.recorder import Recorder

_PREFIX = "Tracked"
_FROM = "From"


def _recorded(method: Callable[..., None]) -> Callable[..., None]:
    """A recorder's failure is counted, never raised into the agent."""

    @functools.wraps(method)
    def safe(recorder: Recorder, *args: Any) -> None:
        try:
            method(recorder, *args)
        except Exception:  # noqa: BLE001 - the world must go on whatever the recorder does
            recorder.count_failure(traceback.format_exc())

    return safe


_dawn = _recorded(Recorder.dawn)
_dusk = _recorded(Recorder.dusk)
_opened = _recorded(Recorder.opened)
_answered = _recorded(Recorder.answered)
_responded = _recorded(Recorder.responded)
_proposed = _recorded(Recorder.proposed)
_agreed = _recorded(Recorder.agreed)
_failed = _recorded(Recorder.failed)


class TrackedAgent:
    """Mixed in before an agent class; `echelon_recorder` holds what was seen."""

    echelon_recorder: Recorder

    def before_step(self) -> None:
        _dawn(self.echelon_recorder, self)
        super().before_step()  # type: ignore[misc]

    def step(self) -> None:
        _dusk(self.echelon_recorder, self)
        super().step()  # type: ignore[misc]

    def propose(self, negotiator_id: str, state: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = self.echelon_recorder
        if not recorder.asking:
            recorder.asking_state = state
        recorder.asking += 1
        try:
            offer = super().propose(negotiator_id, state, *args, **kwargs)  # type: ignore[misc]
        finally:
            recorder.asking -= 1
        if not recorder.asking:
            _proposed(recorder, negotiator_id, state, offer)
        return offer

    def respond(self, negotiator_id: str, state: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = self.echelon_recorder
        if not recorder.asking:
            recorder.asking_state = state
        recorder.asking += 1
        try:
            response = super().respond(negotiator_id, state, *args, **kwargs)  # type: ignore[misc]
        finally:
            recorder.asking -= 1
        if response is not ResponseType.WAIT and not recorder.asking:
            _responded(recorder, negotiator_id, state, response)
        return response

    def on_negotiation_success(self, contract: Any, mechanism: Any) -> None:
        _agreed(self.echelon_recorder, contract)
        super().on_negotiation_success(contract, mechanism)  # type: ignore[misc]

    def on_negotiation_failure(self, partners: Any, annotation: Any, mechanism: Any, state: Any) -> None:
        _failed(self.echelon_recorder, annotation, state)
        super().on_negotiation_failure(partners, annotation, mechanism, state)  # type: ignore[misc]


class TrackedSyncAgent(TrackedAgent):
    """The same for agents that answer all threads in one call."""

    def first_proposals(self) -> Any:
        recorder = self.echelon_recorder
        recorder.deciding += 1
        try:
            proposals = super().first_proposals()  # type: ignore[misc]
        finally:
            recorder.deciding -= 1
        if not recorder.deciding:
            _opened(recorder, proposals)
        return proposals

    def counter_all(self, offers: Any, states: Any) -> Any:
        recorder = self.echelon_recorder
        recorder.deciding += 1
        try:
            responses = super().counter_all(offers, states)  # type: ignore[misc]
        finally:
            recorder.deciding -= 1
        if not recorder.deciding:
            _answered(recorder, offers, states, responses)
        return responses


def _new_recorder(cls: type[Any]) -> Recorder:
    """Where the framework's own propose/respond serve a sync agent, an answer of neither call is the framework's."""
    framework = issubclass(cls, SAOSyncController) and (
        cls.propose is SAOSyncController.propose and cls.respond is SAOSyncController.respond
    )
    return Recorder("framework" if framework else "respond")


_tracked: dict[type[Any], type[Any]] = {}


def tracked(cls: type[Any]) -> type[Any]:
    """A subclass of `cls` that plays the same and records; importable by name in any process."""
    if issubclass(cls, TrackedAgent):
        return cls
    if cls in _tracked:
        return _tracked[cls]
    mixin = TrackedSyncAgent if issubclass(cls, SAOSyncController) else TrackedAgent
    name = _tracked_name(cls)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        self.echelon_recorder = _new_recorder(cls)
        cls.__init__(self, *args, **kwargs)

    body = {"__init__": __init__, "__module__": __name__, "__qualname__": name, "__doc__": cls.__doc__}
    _tracked[cls] = type(name, (mixin, cls), body)
    return _tracked[cls]


def _tracked_name(cls: type[Any]) -> str:
    """`TrackedPenguinAgent`; for a class that is not on the roster its module is in the name, as hex digits.

    negmas reshapes names as it imports them (underscores go, letters after them become large), hence the digits.
    """
    name = cls.__name__
    known = name in roster.ROSTER and roster.agent_class(name) is cls
    return _PREFIX + name if known else _PREFIX + name + _FROM + cls.__module__.encode().hex()


def __getattr__(name: str) -> Any:
    """Rebuild a tracked class from its name, as unpickling and negmas' imports by name need in a new process."""
    if not name.startswith(_PREFIX):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    path = name.removeprefix(_PREFIX)
    if path in roster.ROSTER:
        return tracked(roster.agent_class(path))
    cls, _, module = path.rpartition(_FROM)
    try:
        return tracked(getattr(importlib.import_module(bytes.fromhex(module).decode()), cls))
    except (ValueError, ImportError) as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {error}") from error


def base_class(cls: type[Any]) -> type[Any]:
    """The agent class behind a tracked one; any other class is its own base."""
    return cls.__bases__[1] if issubclass(cls, TrackedAgent) else cls


def attach(world: Any, names: Collection[str] | None = None, skip: Collection[str] = ()) -> int:
    """Make agents of a world that has not begun record themselves: all, or those of the named classes.

    Agents keep their identity, names and types: only their class becomes its tracked subclass. `skip` holds ids of
    agents to leave alone. Returns how many record themselves.
    """
    count = 0
    for adapter in world.non_system_agents:
        agent = adapter.adapted_object
        cls = type(agent)
        if adapter.id in skip or not (names is None or cls.__name__ in names):
            continue
        if not isinstance(agent, TrackedAgent):
            agent.__class__ = tracked(cls)
            agent.echelon_recorder = _new_recorder(cls)
        count += 1
    return count
