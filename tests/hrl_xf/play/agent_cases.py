"""The agent in small real worlds, layers that behave as badly as they can, and what partners were really told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from negmas import ResponseType
from negmas.sao import SAOMechanism

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.competitors.roster import agent_class
from echelon.hrl_xf.layers.l3_situation import Situation
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.lean.mechanism import LeanMechanism
from echelon.hrl_xf.lean.world import LeanStdWorld
from echelon.hrl_xf.play.day import AnsweredCall
from echelon.hrl_xf.recording.tracker import attach
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT, DayState, Offer, Role
from echelon.hrl_xf.state.schema import AgentLog, DailyStatusEntry
from echelon.runtime.seeding import seed_everything
from tests.hrl_xf.conftest import contracts_of, stock_world
from tests.hrl_xf.state.examples import reference

L1_ALONE: Mapping[str, Any] = {"l2": "heuristic", "l3": "l1", "l4": "heuristic"}


def variant(base: type[LitaAgentHRL] = LitaAgentHRL, **options: Any) -> type[LitaAgentHRL]:
    """The agent with other defaults, under a name of its own: all variants get the same names in a world."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, *args, **(options | kwargs))

    return type("Variant", (base,), {"__init__": __init__})


def play(
    agents: Sequence[str | type[Any]],
    *,
    seed: int = 1,
    n_steps: int = 8,
    levels: int = 3,
    per_level: int = 3,
    cls: type[Any] = LeanStdWorld,
    **settings: Any,
) -> Any:
    """A world that has been played by these agents, one per factory, repeated as needed; ours are tracked."""
    types = [agent_class(a) if isinstance(a, str) else a for a in agents]
    world = stock_world(types, seed=seed, n_steps=n_steps, levels=levels, per_level=per_level, cls=cls, **settings)
    adapters = enumerate(world.non_system_agents)
    attach(world, [seat for seat, adapter in adapters if isinstance(adapter.adapted_object, LitaAgentHRL)])
    seed_everything(seed)
    world.run()
    return world


class Watched(LitaAgentHRL):
    """Shows every call that was answered to `note`, with its number in the day."""

    count = 0

    def before_step(self) -> None:
        super().before_step()
        self.count = 0

    def first_proposals(self) -> dict[str, Any]:
        before = self._today().last_call
        openings = super().first_proposals()
        self._tell(before)
        return openings

    def counter_all(self, offers: dict[str, Any], states: dict[str, Any]) -> dict[str, Any]:
        before = self._today().last_call
        answers = super().counter_all(offers, states)
        self._tell(before)
        return answers

    def _tell(self, before: AnsweredCall | None) -> None:
        decided = self._today().last_call
        if decided is not None and decided is not before:
            self.note(self.awi.current_step, self.count, decided)
        self.count += 1

    def note(self, day: int, call: int, decided: AnsweredCall) -> None:
        """For those who want to look."""


def ours(world: Any) -> list[Any]:
    """The world's agents of our kind."""
    agents = [adapter.adapted_object for adapter in world.non_system_agents]
    return [agent for agent in agents if isinstance(agent, LitaAgentHRL)]


def signed_by_ours(world: Any) -> list[tuple[Any, ...]]:
    """Negotiated contracts in which our agents take part."""
    names = {agent.id for agent in ours(world)}
    system = {"SELLER", "BUYER"}
    return [c for c in contracts_of(world) if {c[0], c[1]} & names and not {c[0], c[1]} & system]


def log_of(agent: Any) -> AgentLog:
    """The tracked agent's log; to be asked for once."""
    log: AgentLog = agent.echelon_recorder.finish(agent, world_id=f"w{agent.id}", config_id="c", seed=0)
    assert log.stats.tracker_failures == 0, log.stats.first_tracker_failure
    return log


def assert_sound(world: Any, *, fallbacks: bool = False) -> None:
    """Nothing went wrong in our agents or reached the simulator."""
    for agent in ours(world):
        assert not world.negotiator_exceptions[agent.id], world.negotiator_exceptions[agent.id]
        assert not world.agent_exceptions[agent.id], world.agent_exceptions[agent.id]
        assert agent.errors == 0
        assert fallbacks or agent.fallbacks == 0


# -- what partners were told --


@dataclass(frozen=True)
class Said:
    """One answer as a mechanism received it, or the end of a negotiation (`answer` is then None)."""

    day: int
    seller: str
    buyer: str
    speaker: str
    answer: ResponseType | None = None
    offer: Offer | None = None
    """sent or accepted"""
    bounds: tuple[tuple[int, int], ...] = ()


@contextmanager
def listening() -> Iterator[list[Said]]:
    """Everything said in all negotiations of all worlds meanwhile, in order; agents have no part in it."""
    heard: list[Said] = []

    def note(mechanism: Any, negotiator: Any, response: Any, on_table: Any) -> None:
        annotation = mechanism.nmi.annotation
        day = mechanism.negotiators[0].owner.awi.current_step
        names = day, annotation["seller"], annotation["buyer"]
        if negotiator is None:
            heard.append(Said(*names, ""))
        elif response is not None and response.response != ResponseType.WAIT:
            answer = response.response
            offer = on_table if answer == ResponseType.ACCEPT_OFFER else response.outcome
            bounds = tuple((issue.min_value, issue.max_value) for issue in mechanism.issues)
            heard.append(Said(*names, negotiator.owner.id, answer, offer, bounds))

    stock, lean, over = SAOMechanism._safe_counter, LeanMechanism._ask, SAOMechanism.on_negotiation_end
    lean_over = LeanMechanism.on_negotiation_end

    def safe_counter(self: Any, negotiator: Any, *args: Any, **kwargs: Any) -> Any:
        on_table = self._current_state.current_offer
        response, failed = stock(self, negotiator, *args, **kwargs)
        note(self, negotiator, response, on_table)
        return response, failed

    def ask(self: Any, index: int, state: Any, dest: str) -> Any:
        on_table = state.current_offer
        response = lean(self, index, state, dest)
        note(self, self._negotiators[index], response, on_table)
        return response

    def ending(method: Callable[[Any], None]) -> Callable[[Any], None]:
        def end(self: Any) -> None:
            note(self, None, None, None)
            method(self)

        return end

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SAOMechanism, "_safe_counter", safe_counter)
        patch.setattr(LeanMechanism, "_ask", ask)
        patch.setattr(SAOMechanism, "on_negotiation_end", ending(over))
        patch.setattr(LeanMechanism, "on_negotiation_end", ending(lean_over))
        yield heard


@dataclass
class Promises:
    """One agent's day, kept by somebody who listens: what is signed, and what a partner could still accept."""

    day: DayState
    signed: list[tuple[Role, Offer]]
    open: dict[str, tuple[Role, Offer]]

    def check(self, role: Role, partner: str, offer: Offer, where: str) -> None:
        """The offer is within what L1 allows beside all that is signed and all that is promised to others.

        Offers of one call have no order. L1 allows a purchase only while stock is not full, so of two that fill it up
        together perhaps only one may come second: it is enough that another open offer may.
        """
        beside = [o for name, o in self.open.items() if name != partner and o[0] == role]
        ahead = offer[1] - self.day.current_step
        last = min(self.day.horizon, self.day.n_steps - 1 - self.day.current_step)
        assert 0 <= ahead <= last, where
        new = (role, offer)
        allowed = self._allows(new, beside)
        for i, other in enumerate(beside):
            if allowed:
                break
            rest = beside[:i] + beside[i + 1 :]
            allowed = self._allows(new, rest) and self._allows(other, [*rest, new])
        assert allowed, where

    def _allows(self, new: tuple[Role, Offer], beside: Sequence[tuple[Role, Offer]]) -> bool:
        role, (q, t, p) = new
        buy, sell, money = reference(self.day, [*self.signed, *beside])
        most = (buy if role == "buyer" else sell)[t - self.day.current_step]
        return 1 <= q <= most and (role == "seller" or q * p <= money)


@dataclass(frozen=True)
class Tally:
    """How much was looked at, so that a test can ask for enough."""

    answers: int
    offers: int
    accepts: int
    closed: int
    """ends of threads on sides where L1 allowed nothing at dawn"""


def assert_safe(heard: Sequence[Said], world: Any) -> Tally:
    """Every offer and acceptance of our agents, one by one: legal, and within L1's limits at that moment."""
    counts = {"answers": 0, "offers": 0, "accepts": 0, "closed": 0}
    for agent in ours(world):
        days = {e.day: e.data for e in log_of(agent).entries if isinstance(e, DailyStatusEntry)}
        now = Promises(days[0], [], {})
        for said in heard:
            if agent.id not in (said.seller, said.buyer):
                continue
            if said.day != now.day.current_step:
                now = Promises(days[said.day], [], {})
            _follow(now, agent.id, said, counts)
    return Tally(**counts)


def _follow(now: Promises, me: str, said: Said, counts: dict[str, int]) -> None:
    role: Role = "seller" if said.seller == me else "buyer"
    partner = said.buyer if role == "seller" else said.seller
    waiting = now.open.pop(partner, None)
    accepts = said.answer == ResponseType.ACCEPT_OFFER
    if said.speaker != me:
        if accepts and waiting is not None:
            now.signed.append(waiting)
        return
    counts["answers"] += 1
    if said.offer is None or said.answer == ResponseType.END_NEGOTIATION:
        buy, sell, _ = reference(now.day, [])
        last = min(now.day.horizon, now.day.n_steps - 1 - now.day.current_step)
        counts["closed"] += max((buy if role == "buyer" else sell)[: last + 1]) < 1
        return
    where = f"{me} as {role} to {partner} on day {said.day}: {said.answer} {said.offer}, limits {said.bounds}"
    inside = [low <= number <= high for number, (low, high) in zip(said.offer, said.bounds, strict=True)]
    assert all(inside), where
    assert all(isinstance(number, int) for number in said.offer), where
    now.check(role, partner, said.offer, where)
    counts["accepts" if accepts else "offers"] += 1
    if accepts:
        now.signed.append((role, said.offer))
    else:
        now.open[partner] = (role, said.offer)


# -- layers that nobody should trust --


class RandomExecutor:
    """An L3 that answers anything: `sane` keeps it to at least one piece, otherwise not even that."""

    def __init__(self, seed: int, sane: bool = True) -> None:
        self.rng, self.sane = np.random.default_rng(seed), sane

    def act(self, state: Any, situation: Situation, *, generator: Any = None, greedy: bool = True) -> L3Actions:
        n = len(situation)
        op = self.rng.choice([ACCEPT, REJECT, REJECT, REJECT, END], n, p=[0.3, 0.2, 0.2, 0.2, 0.1])
        low = 1 if self.sane else -20
        quantity, price = self.rng.integers(low, 200, n), self.rng.integers(-20, 200, n)
        return actions(op, np.stack([quantity, self.rng.integers(-5, 60, n), price], axis=-1))


class AcceptingExecutor:
    """An L3 that accepts whatever lies on the table and opens as L1 does."""

    def act(self, state: Any, situation: Situation, *, generator: Any = None, greedy: bool = True) -> L3Actions:
        opens = np.where(situation.legal_baseline[:, 0] > 0, REJECT, END)
        return actions(np.where(situation.on_table, ACCEPT, opens), situation.legal_baseline)


def actions(op: Any, offer: Any) -> L3Actions:
    """Choices as L3 gives them."""
    return L3Actions(op, offer, {}, np.zeros(len(op), np.float32))
