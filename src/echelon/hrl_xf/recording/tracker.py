"""`tracked(cls)`: the same agent, recording.

The recording subclass calls the agent first and writes down second; it draws no random number and changes no answer,
so a tracked world signs the same contracts as an untracked one. A failure of the recorder is counted and reported in
the log's stats; the world continues.

Decisions are noted when the agent *makes* them (with what it knew then) and marked `sent` when the answer reaches the
partner: a sync agent answers all threads in one call, and the framework hands the answers over one by one.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any
from weakref import getweakrefcount

from negmas import ResponseType
from negmas.sao import SAOSyncController
from scml.oneshot.agent import OneShotAgent

from echelon.hrl_xf.competitors.roster import base_of, derived_name
from echelon.hrl_xf.recording.dawn_reader import Market
from echelon.hrl_xf.recording.log_writer import AGREED, FAILED, PROPOSED, RESPONDED, frozen_copy
from echelon.hrl_xf.recording.recorder import Recorder

_PREFIX = "Tracked"
WAIT, REJECT = ResponseType.WAIT, ResponseType.REJECT_OFFER

Methods = dict[str, Callable[..., Any]]


class TrackedAgent:
    """Stands before an agent class in its recording subclass; `echelon_recorder` holds what was seen."""

    echelon_recorder: Recorder


def _days_and_results(cls: type[Any]) -> Methods:
    """`cls`'s own methods, recording when a day begins and ends and how a negotiation ends."""
    own_before_step, own_step = cls.before_step, cls.step
    own_success, own_failure = cls.on_negotiation_success, cls.on_negotiation_failure
    hears_failure = own_failure is not OneShotAgent.on_negotiation_failure  # which is empty

    def before_step(self: Any) -> None:
        recorder = self.echelon_recorder
        try:
            recorder.dawn(self)
        except Exception:  # noqa: BLE001 - the world must go on whatever the recorder does
            recorder.count_failure()
        own_before_step(self)

    def step(self: Any) -> None:
        recorder = self.echelon_recorder
        try:
            recorder.dusk()
        except Exception:  # noqa: BLE001 - as above
            recorder.count_failure()
        own_step(self)

    def on_negotiation_success(self: Any, contract: Any, mechanism: Any) -> None:
        recorder = self.echelon_recorder
        try:
            sides, deal, round_ = contract.annotation, contract.agreement, contract.mechanism_state.step
            offer = (deal["quantity"], deal["time"], deal["unit_price"])
            recorder.notes.extend((AGREED, sides["buyer"], sides["seller"], offer, round_, None))
        except Exception:  # noqa: BLE001 - as above
            recorder.count_failure()
        own_success(self, contract, mechanism)

    def on_negotiation_failure(self: Any, partners: Any, annotation: Any, mechanism: Any, state: Any) -> None:
        recorder = self.echelon_recorder
        try:
            recorder.notes.extend((FAILED, annotation["buyer"], annotation["seller"], state.step, state.timedout, None))
        except Exception:  # noqa: BLE001 - as above
            recorder.count_failure()
        if hears_failure:
            own_failure(self, partners, annotation, mechanism, state)

    return _by_name(before_step, step, on_negotiation_success, on_negotiation_failure)


def _with_last(method: Callable[..., Any], name: str) -> tuple[Callable[..., Any], Any]:
    """A `propose` or `respond` that takes a fourth argument by position, and the argument's default.

    The framework offers the argument by its name, and asks again without if that raises a TypeError: where the agent's
    own method does not know the name, it is called without.
    """
    last = list(inspect.signature(method).parameters.values())[3:4]
    if last and last[0].kind is inspect.Parameter.VAR_POSITIONAL:  # hands on to another method: only what was given

        def given(self: Any, negotiator_id: str, state: Any, value: Any) -> Any:
            return method(self, negotiator_id, state, **({} if value is None else {name: value}))

        return given, None
    if last and last[0].name == name:
        return method, last[0].default

    def without(self: Any, negotiator_id: str, state: Any, _: Any) -> Any:
        return method(self, negotiator_id, state)

    return without, None


def _answers(cls: type[Any]) -> Methods:
    """`cls`'s own `propose` and `respond`, recording what leaves for a partner."""
    own_propose, no_dest = _with_last(cls.propose, "dest")
    own_respond, no_source = _with_last(cls.respond, "source")

    def propose(self: Any, negotiator_id: str, state: Any, dest: Any = no_dest) -> Any:
        recorder = self.echelon_recorder
        if recorder.asking:
            return own_propose(self, negotiator_id, state, dest)
        recorder.asking, recorder.asking_state = True, state
        try:
            offer = own_propose(self, negotiator_id, state, dest)
        finally:
            recorder.asking = False
        try:
            made = offer if type(offer) is tuple else frozen_copy(offer)
            recorder.notes.extend((PROPOSED, negotiator_id, state.step, state.relative_time, state.current_offer, made))
        except Exception:  # noqa: BLE001 - the world must go on whatever the recorder does
            recorder.count_failure()
        return offer

    def respond(self: Any, negotiator_id: str, state: Any, source: Any = no_source) -> Any:
        recorder = self.echelon_recorder
        if recorder.asking:
            return own_respond(self, negotiator_id, state, source)
        recorder.asking, recorder.asking_state = True, state
        try:
            response = own_respond(self, negotiator_id, state, source)
        finally:
            recorder.asking = False
        if response is not WAIT and response is not REJECT:  # a rejection leaves with the proposal that follows
            try:
                note = (RESPONDED, negotiator_id, state.step, state.relative_time, state.current_offer, response)
                recorder.notes.extend(note)
            except Exception:  # noqa: BLE001 - the world must go on whatever the recorder does
                recorder.count_failure()
        return response

    return _by_name(propose, respond)


def _decisions(cls: type[Any]) -> Methods:
    """The same for what answers all threads in one call."""
    own_first_proposals, own_counter_all = cls.first_proposals, cls.counter_all

    def first_proposals(self: Any) -> Any:
        recorder = self.echelon_recorder
        recorder.deciding += 1
        try:
            proposals = own_first_proposals(self)
        finally:
            recorder.deciding -= 1
        if not recorder.deciding:
            try:
                recorder.opened(proposals)
            except Exception:  # noqa: BLE001 - the world must go on whatever the recorder does
                recorder.count_failure()
        return proposals

    def counter_all(self: Any, offers: Any, states: Any) -> Any:
        recorder = self.echelon_recorder
        recorder.deciding += 1
        try:
            responses = own_counter_all(self, offers, states)
        finally:
            recorder.deciding -= 1
        if not recorder.deciding:
            try:
                recorder.answered(offers, states, responses)
            except Exception:  # noqa: BLE001 - the world must go on whatever the recorder does
                recorder.count_failure()
        return responses

    return _by_name(first_proposals, counter_all)


def _by_name(*methods: Callable[..., Any]) -> Methods:
    return {method.__name__: method for method in methods}


def _new_recorder(cls: type[Any], market: Market | None = None) -> Recorder:
    """Where the framework's own propose/respond serve a sync agent, an answer of neither call is the framework's."""
    framework = issubclass(cls, SAOSyncController) and (
        cls.propose is SAOSyncController.propose and cls.respond is SAOSyncController.respond
    )
    return Recorder("framework" if framework else "respond", market)


_tracked: dict[type[Any], type[Any]] = {}


def tracked(cls: type[Any]) -> type[Any]:
    """A subclass of `cls` that plays the same and records; importable by name in any process."""
    if issubclass(cls, TrackedAgent):
        return cls
    if cls in _tracked:
        return _tracked[cls]
    name = derived_name(_PREFIX, cls)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        self.echelon_recorder = _new_recorder(cls)
        cls.__init__(self, *args, **kwargs)

    body = {"__init__": __init__, "__module__": __name__, "__qualname__": name, "__doc__": cls.__doc__}
    methods = _days_and_results(cls) | _answers(cls) | (_decisions(cls) if issubclass(cls, SAOSyncController) else {})
    _tracked[cls] = type(name, (TrackedAgent, cls), body | methods)
    return _tracked[cls]


def __getattr__(name: str) -> Any:
    """Rebuild a tracked class from its name, as unpickling and negmas' imports by name need in a new process."""
    return tracked(base_of(_PREFIX, name, __name__))


def base_class(cls: type[Any]) -> type[Any]:
    """The agent class behind a tracked one; any other class is its own base."""
    return cls.__bases__[1] if issubclass(cls, TrackedAgent) else cls


def _references(adapter: Any) -> int:
    """How many hold the agent of an adapter."""
    return sys.getrefcount(adapter.adapted_object)


_ALONE = _references(SimpleNamespace(adapted_object=TrackedAgent()))


def _moved(agent: Any, cls: type[Any]) -> Any:
    """A new object of another class that has all that the agent has."""
    new, state = object.__new__(cls), object.__getstate__(agent)
    for fields in state if isinstance(state, tuple) else (state,):  # a second one is of those in __slots__
        for name, value in fields.items():
            object.__setattr__(new, name, value)
    return new


def attach(world: Any, seats: Collection[int] | None = None) -> int:
    """Make agents of a world that has not begun record themselves: all, or those of the given seats.

    Agents keep their names and all they have: only their class becomes its tracked subclass. An agent whom only the
    world holds becomes a new object, since Python is slower with an object whose class was changed; any other stays
    the same object. Returns how many record themselves.
    """
    count, market = 0, Market(world)
    for seat, adapter in enumerate(world.non_system_agents):
        if seats is not None and seat not in seats:
            continue
        alone = _references(adapter) == _ALONE
        agent = adapter.adapted_object
        cls = type(agent)
        if not isinstance(agent, TrackedAgent):
            if alone and not getweakrefcount(agent):
                agent = adapter.adapted_object = _moved(agent, tracked(cls))
            else:
                agent.__class__ = tracked(cls)
                agent.__dict__ = {**vars(agent)}  # a changed class leaves a dict that Python reads three times slower
            agent.echelon_recorder = _new_recorder(cls, market)
        count += 1
    return count
