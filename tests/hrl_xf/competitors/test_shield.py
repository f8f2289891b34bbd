"""L1 around any agent: by hand on one day, then in real worlds, where nothing unsafe leaves and what is safe stays."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from negmas.helpers import get_class, get_full_type_name
from scml.std.agents import RandomStdAgent, SyncRandomStdAgent

from echelon.hrl_xf.arena.plan import ArenaPlan, configuration, parse_field
from echelon.hrl_xf.arena.seat import seat_record
from echelon.hrl_xf.arena.world import start
from echelon.hrl_xf.competitors.roster import agent_class
from echelon.hrl_xf.competitors.shield import Shield, shielded
from echelon.hrl_xf.competitors.specs import parse_agent
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.day_state import ACCEPT, REJECT, DayState, Issues, Offer, Role
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.reservation import NOTHING, Wish
from echelon.hrl_xf.state.schema import (
    AgentLog,
    DailyStatusEntry,
    DecisionEntry,
    NegotiationFailureEntry,
    NegotiationSuccessEntry,
)
from tests.hrl_xf.conftest import contracts_of
from tests.hrl_xf.state.examples import a_day, ledger_of


def take(q: int, t: int = 12, p: int = 30) -> Wish:
    return Wish(ACCEPT, (q, t, p))


def offer(q: int, t: int = 12, p: int = 30) -> Wish:
    return Wish(REJECT, (q, t, p))


@pytest.fixture
def six() -> Shield:
    """Day 10: a stock that makes six pieces a day, to be sold to A, B and C; S sells."""
    shield = Shield()
    day = a_day(inventory_input=6)
    shield.begin(day, {"A": "seller", "B": "seller", "C": "seller", "S": "buyer"})
    return shield


def test_what_fits_leaves_as_it_is(six: Shield) -> None:
    wishes = {"A": take(2), "B": offer(4), "C": NOTHING, "S": Wish(REJECT, (14, 11, 20)), "nobody": offer(99)}
    assert six.decide(wishes) == wishes
    assert six.changed == 0


def test_an_acceptance_beyond_the_limits_becomes_the_clipped_counter(six: Shield) -> None:
    assert six.deliver("A", take(10, t=15, p=28)) == offer(6, t=15, p=28)
    assert six.deliver("B", take(1, t=15)) == offer(1, t=14), "all six of day 15 are promised to A"
    assert six.changed == 2


def test_acceptances_go_before_offers_whatever_their_order(six: Shield) -> None:
    assert six.decide({"A": offer(5), "B": take(4)}) == {"A": offer(2), "B": take(4)}


def test_the_second_acceptance_gets_what_the_first_leaves(six: Shield) -> None:
    assert six.decide({"A": take(4), "B": take(4), "C": offer(3)}) == {
        "A": take(4),
        "B": offer(2),
        "C": offer(3, t=11),
    }


def test_a_sent_offer_is_reserved_until_it_is_answered(six: Shield) -> None:
    assert six.deliver("A", offer(5)) == offer(5)
    assert six.decide({"A": offer(6), "B": take(4)}) == {"A": offer(6), "B": offer(1)}, "A still has the five"
    six.countered("A")
    assert six.deliver("B", take(4)) == take(4), "the five are free, and B's own counter is replaced"
    assert six.deliver("A", offer(6)) == offer(2), "the wish is looked at when it leaves"
    six.ended("B", (4, 12, 30))
    six.ended("A", None)
    assert six.deliver("C", offer(9)) == offer(2)
    six.ended("C", (2, 12, 30))
    assert six.decide({"B": offer(3)}) == {"B": offer(3)}, "a thread that has ended can promise nothing"
    assert six.decide({"D": take(3)}) == {"D": take(3)}


def test_a_decision_that_was_never_sent_reserves_nothing(six: Shield) -> None:
    assert six.decide({"A": offer(6)}) == {"A": offer(6)}
    assert six.decide({"A": NOTHING, "B": take(6)}) == {"A": NOTHING, "B": take(6)}


def test_an_offer_outside_the_issues_ends_the_negotiation_and_binds_nothing(six: Shield) -> None:
    nonsense = {"A": offer(0), "B": offer(6, t=9), "C": offer(31, p=34)}
    assert six.decide(nonsense) == nonsense
    assert six.deliver("A", take(6)) == take(6)


def test_buyers_are_bound_by_money_and_by_what_can_still_be_processed() -> None:
    """1,100 less a reserve of 1,000 buys five at 20; on the last of 50 days ten lines take four in stock and six."""
    poor, late = Shield(), Shield()
    poor.begin(a_day(balance=1100.0), {"S": "buyer"})
    assert poor.deliver("S", take(7, p=20)) == offer(5, p=20)
    last = {"current_step": 49, "buy_issues": Issues((1, 30), (49, 49), (18, 22))}
    late.begin(a_day(inventory_input=4, **last), {"S": "buyer"})
    assert late.deliver("S", take(30, t=49, p=20)) == offer(6, t=49, p=20)
    late.begin(a_day(inventory_input=10, **last), {"S": "buyer"})
    assert late.deliver("S", take(1, t=49, p=20)) == NOTHING


# -- real worlds --

MADE = configuration(ArenaPlan(parse_field("PenguinAgent,AS0"), "each-level", 8, 1), 0)


def played(name: str) -> tuple[Any, list[tuple[Any, AgentLog]]]:
    """The world, ended, with the agents in the focal seats and their logs."""
    world = start(MADE, parse_agent(name))
    world.run()
    agents = [list(world.non_system_agents)[seat].adapted_object for seat in MADE.focal]
    logs = [a.echelon_recorder.finish(a, world_id="w", config_id="c", seed=0) for a in agents]
    return world, list(zip(agents, logs, strict=True))


def worst_room(day: DayState, deals: list[tuple[Role, Offer]], promised: dict[str, tuple[Role, Offer]]) -> float:
    """What L1 has left on the promised days and in money if all promises of one side become deals; negative is bad.

    The last day's purchases are left out: what stays of earlier ones may make them useless, never unsafe.
    """
    days, layer, left = day_batch([day]), L1SafetyLayer(), [np.inf]
    for side in ("buyer", "seller"):
        mine = [(role, deal) for role, deal in promised.values() if role == side]
        if mine:
            limits = layer.limits(days, ledger_of(days, [[*deals, *mine]]))
            room = limits.buy_room[0] if side == "buyer" else limits.sell_room[0]
            left += [room[t - day.current_step] for _, (_, t, _) in mine if side == "seller" or t < day.n_steps - 1]
            left += [limits.money_room[0]] if side == "buyer" else []
    return float(min(left))


def answers_and_worst_room(log: AgentLog) -> tuple[int, float]:
    """How much was sent, and the least room there ever was beside everything signed and on the table."""
    day: DayState | None = None
    deals: list[tuple[Role, Offer]] = []
    promised: dict[str, tuple[Role, Offer]] = {}
    count, worst, call = 0, np.inf, -1
    for entry in log.entries:
        before, call = call, entry.data.call if isinstance(entry, DecisionEntry) else -1
        if day is not None and (call == -1 or call != before):
            worst = min(worst, worst_room(day, deals, promised))
        if isinstance(entry, DailyStatusEntry):
            day, deals, promised = entry.data, [], {}
        elif isinstance(entry, NegotiationSuccessEntry):
            deals = [*deals, (entry.data.role, entry.data.agreement)]
            promised.pop(entry.data.partner, None)
        elif isinstance(entry, NegotiationFailureEntry):
            promised.pop(entry.data.partner, None)
        elif isinstance(entry, DecisionEntry) and entry.data.sent:
            said = entry.data.offer if entry.data.answer == "ACCEPT" else entry.data.counter_offer
            promised.pop(entry.data.partner, None)
            if said is not None:
                promised[entry.data.partner] = (entry.data.role, said)
                count += 1
    return count, worst


@pytest.mark.parametrize("name", ["SyncRandomStdAgent", "RandomStdAgent", "PenguinAgent"])
def test_no_offer_or_acceptance_of_a_shielded_agent_leaves_the_limits(name: str) -> None:
    world, seats = played(f"shielded({name})")
    records = [
        seat_record(world, list(world.non_system_agents)[number], log, number)
        for number, (_, log) in zip(MADE.focal, seats, strict=True)
    ]
    assert sum(agent.echelon_shield.changed for agent, _ in seats) > 20, "it had something to do"
    assert sum(record.signed for record in records) > 0, "and let something pass"
    assert [(r.beyond_l1_sent, r.beyond_l1_signed, r.exceptions, r.negotiator_exceptions) for r in records] == [
        (0, 0, 0, 0)
    ] * len(records)
    assert all(log.stats.tracker_failures == 0 for _, log in seats)
    for _, log in seats:
        count, worst = answers_and_worst_room(log)
        assert count > 5
        assert worst >= 0, "all that is on the table may be accepted at once"


def test_without_the_shield_they_do_leave_them() -> None:
    _, seats = played("SyncRandomStdAgent")
    assert sum(answers_and_worst_room(log)[1] < 0 for _, log in seats) > 1


@pytest.mark.parametrize("name", ["LitaAgentRules{}", "LitaAgentHRL{}:l2=heuristic,l3=l1,l4=heuristic"])
def test_an_agent_that_stays_within_the_limits_plays_the_same_world_with_the_shield(name: str) -> None:
    agent, _, arguments = name.partition("{}")
    bare, seats = played(f"x={agent}{arguments}")
    assert min(answers_and_worst_room(log)[1] for _, log in seats) >= 0, "it does stay within them"
    kept, _ = played(f"x=shielded({agent}){arguments}")
    ours = {list(bare.non_system_agents)[seat].id for seat in MADE.focal}
    deals = [{c["seller"], c["buyer"]} for c in bare.saved_contracts]
    assert any(deal & ours and not deal & {"SELLER", "BUYER"} for deal in deals), "there is something to compare"
    assert contracts_of(bare) == contracts_of(kept)
    assert bare.scores() == kept.scores()


# -- names --


def test_a_shielded_class_is_importable_by_name() -> None:
    for cls in (agent_class("PenguinAgent"), RandomStdAgent, SyncRandomStdAgent):
        made = shielded(cls)
        assert made is shielded(cls) is shielded(made)
        assert issubclass(made, cls)
        assert get_class(get_full_type_name(made)) is made
        assert pickle.loads(pickle.dumps(made)) is made


def test_a_new_process_finds_it_tracked_or_not() -> None:
    from echelon.hrl_xf.recording.tracker import tracked

    names = [get_full_type_name(cls) for cls in (shielded(SyncRandomStdAgent), tracked(shielded(SyncRandomStdAgent)))]
    code = f"from negmas.helpers import get_class; print([get_class(n).__mro__[-1] is object for n in {names}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[True, True]"


def test_other_names_are_refused() -> None:
    import echelon.hrl_xf.competitors.shield as module

    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = module.Nothing
    with pytest.raises(AttributeError, match="ShieldedNobody"):
        _ = module.ShieldedNobody
