"""Fields, agents and a reference world for the tests of the lean world."""

from __future__ import annotations

import copy
import random
import tempfile
from typing import Any

import attrs
import numpy as np
from negmas import ExtendedOutcome, ResponseType, SAOResponse
from scml.std.agents import RandomStdAgent, SyncRandomStdAgent
from scml.std.world import SCML2024StdWorld
from scml_agents import get_agents

from echelon.hrl_xf.lean.world import Reproducible

EXPERTS = {cls.__name__: cls for year in (2024, 2025) for cls in get_agents(year, track="std", as_class=True)}
COUNTERS = """
    neg_requests_sent neg_requests_received negs_registered negs_succeeded negs_failed negs_timedout negs_initiated
    neg_requests_rejected contracts_concluded contracts_signed contracts_dropped breaches_received breaches_committed
    contracts_erred contracts_nullified contracts_executed contracts_breached is_bankrupt n_agent_exceptions
    n_negotiator_exceptions simulation_exceptions mechanism_exceptions contract_exceptions
"""
CONTRACT_FIELDS = """
    seller buyer quantity unit_price delivery_time concluded_at signed_at executed_at nullified_at breaches n_neg_steps
"""
NMI_FIELDS = "n_steps time_limit step_time_limit negotiator_time_limit pend n_outcomes annotation n_negotiators"
AWI_FIELDS = """
    current_step relative_time current_balance current_inventory needed_sales needed_supplies sales supplies
    level is_first_level is_last_level my_suppliers my_consumers n_lines n_products current_offers
"""


class StockWorld(Reproducible):
    """scml's world as it is, but for the order of two sets and for the clock, which no seed can fix."""


def config(field: list[type], days: int, levels: int, per_level: int, seed: int = 1, **kwargs: Any) -> dict[str, Any]:
    """A world for the agents of a field, in turn, on all factories."""
    random.seed(seed)
    np.random.seed(seed)
    types = [field[i % len(field)] for i in range(levels * per_level)]
    return SCML2024StdWorld.generate(  # type: ignore[no-any-return]
        agent_types=types,
        n_steps=days,
        n_processes=levels,
        n_agents_per_process=per_level,
        random_agent_types=False,
        **kwargs,
    )


def play(cls: type[Any], cfg: dict[str, Any], seed: int = 5) -> Any:
    random.seed(seed)
    np.random.seed(seed)
    with tempfile.TemporaryDirectory() as folder:  # for the tables of the stock world
        world = cls(**({"log_folder": folder} | copy.deepcopy(cfg)))
        world.run()
    return world


def outcome(world: Any) -> dict[str, Any]:
    """All that must not depend on which world class played, and the state of both random generators."""
    found: dict[str, Any] = {name: dict(getattr(world, name)) for name in COUNTERS.split()}
    found["contracts"] = [[record[name] for name in CONTRACT_FIELDS.split()] for record in world.saved_contracts]
    found["scores"] = world.scores()
    found["stats"] = {k: repr(v) for k, v in world.stats.items() if k not in ("step_time", "total_time")}
    board = world.bulletin_board.data
    prices = list(board["trading_prices"].values())  # the first has a random id for a key in the stock world
    found["board"] = {k: repr(v) for k, v in (board | {"trading_prices": prices}).items()}
    found["random"] = random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()
    found["seen"] = {id: getattr(adapter.adapted_object, "seen", None) for id, adapter in world.agents.items()}
    return found


def state_record(state: Any) -> dict[str, Any]:
    return {k: v for k, v in attrs.asdict(state).items() if k not in ("time", "error_details")}


def nmi_record(nmi: Any) -> Any:
    ids = nmi.negotiator_ids, nmi.agent_ids, nmi.agent_names, [str(p) for p in nmi.participants]
    params = {k: v for k, v in nmi.params.items() if k != "sync_calls"}
    return [getattr(nmi, name) for name in NMI_FIELDS.split()], params, [str(i) for i in nmi.issues], ids, nmi.trace


class Watching:
    """Writes down whatever an agent can see at each of its calls."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: list[Any] = []
        self.kept: list[Any] = []

    def note(self: Any, event: str, *details: Any) -> None:
        values = [getattr(self.awi, name) for name in AWI_FIELDS.split()] + self.awi.trading_prices.tolist()
        running = [
            (r.annotation, r.my_request, sorted(r.extra), r.negotiator.name, r.negotiator.owner.id)
            for r in self.running_negotiations
        ]
        threads = {k: (v[0].nmi is not None, v[0].name, v[0].id) for k, v in self.negotiators.items()}
        ufun = None if self.ufun is None else (self.ufun.ex_qin, self.ufun.reserved_value, self.ufun.inventory_in)
        self.seen.append(copy.deepcopy((event, details, values, running, threads, ufun)))

    def state(self, partner: str, state: Any) -> Any:
        self.kept.append(state)
        nmi = self.get_nmi(partner)  # type: ignore[attr-defined]
        return partner, state_record(state), None if nmi is None else (state_record(nmi.state), nmi_record(nmi))

    def before_step(self) -> None:
        self.note("before_step")
        super().before_step()  # type: ignore[misc]

    def step(self) -> None:
        self.note("step", [state_record(state) for state in self.kept])
        self.kept.clear()
        super().step()  # type: ignore[misc]

    def on_negotiation_success(self, contract: Any, mechanism: Any) -> None:
        self.note(
            "success", contract.agreement, contract.partners, nmi_record(mechanism), state_record(mechanism.state)
        )

    def on_negotiation_failure(self, partners: Any, annotation: Any, mechanism: Any, state: Any) -> None:
        self.note("failure", partners, annotation, nmi_record(mechanism), state_record(state))
        self.note("history", [state_record(past) for past in mechanism.history])


class WatchingSync(Watching, SyncRandomStdAgent):  # type: ignore[misc]
    def first_proposals(self) -> Any:
        self.note("first")
        return super().first_proposals()

    def counter_all(self, offers: Any, states: Any) -> Any:
        self.note("counter", offers, [self.state(*item) for item in states.items()])
        return super().counter_all(offers, states)


class WatchingPlain(Watching, RandomStdAgent):  # type: ignore[misc]
    def propose(self, negotiator_id: str, state: Any) -> Any:
        self.note("propose", self.state(negotiator_id, state))
        return super().propose(negotiator_id, state)

    def respond(self, negotiator_id: str, state: Any, source: Any = None) -> Any:
        self.note("respond", source, self.state(negotiator_id, state))
        return super().respond(negotiator_id, state, source)


class Hooked(WatchingPlain):
    """Listens to what hardly any agent listens to."""

    def on_round_start(self, negotiator_id: str, state: Any) -> None:
        self.note("round", negotiator_id, state_record(state))

    def on_partner_proposal(self, negotiator_id: str, partner_id: str, offer: Any, state: Any) -> None:
        self.note("proposal", negotiator_id, partner_id, offer)

    def on_preferences_changed(self, changes: Any) -> None:
        if self._awi is not None:
            self.seen.append(["preferences", [str(change.type) for change in changes]])


class Unruly(Watching, RandomStdAgent):  # type: ignore[misc]
    """Raises, waits, leaves, refuses and offers nonsense, by chance."""

    def propose(self, negotiator_id: str, state: Any, dest: str | None = None) -> Any:
        self.note("propose", dest, self.state(negotiator_id, state))
        good = super().propose(negotiator_id, state) or (1, self.awi.current_step, 1)
        wild = (good, good, good, good, tuple(np.array(good)), tuple(map(float, good)), (10**6, *good[1:]), good[:2])
        return random.choice(
            (*wild, None, ExtendedOutcome(good, {"text": "please"}), (good[0] + 0.5, *good[1:]), "abc")
        )

    def respond(self, negotiator_id: str, state: Any, source: Any = None) -> Any:
        self.note("respond", source, self.state(negotiator_id, state))
        kind = random.choice([*ResponseType, *[ResponseType.REJECT_OFFER] * 9, ValueError, TypeError, TimeoutError])
        if isinstance(kind, type):
            raise kind("unruly")
        return kind


class Failing(RandomStdAgent):  # type: ignore[misc]
    """Breaks down on the third day."""

    def respond(self, negotiator_id: str, state: Any, source: Any = None) -> Any:
        if self.awi.current_step == 2:
            raise LookupError("on the third day")
        return super().respond(negotiator_id, state, source)


class Moody(Watching, SyncRandomStdAgent):  # type: ignore[misc]
    """A sync agent that forgets partners, raises and uses every kind of answer."""

    def counter_all(self, offers: Any, states: Any) -> Any:
        self.note("counter", offers, [self.state(*item) for item in states.items()])
        if random.random() < 0.05:
            raise random.choice((KeyError, TypeError))("moody")
        answers = super().counter_all(offers, states)
        for partner in list(answers):
            mood = random.random()
            if mood < 0.1:
                del answers[partner]
            elif mood < 0.2:
                answers[partner] = SAOResponse(random.choice([k for k in ResponseType if k != ResponseType.WAIT]), None)
        return answers
