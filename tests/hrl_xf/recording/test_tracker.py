"""A tracked agent plays as if it were not, and its log tells the whole truth. Real worlds, real agents."""

from __future__ import annotations

import pickle
import subprocess
import sys
import weakref
from collections import Counter
from typing import Any

import pytest
from negmas import ResponseType, SAOResponse
from negmas.helpers import get_class, get_full_type_name
from negmas.sao import SAOMechanism
from scml.std.agents import RandomStdAgent, SyncRandomStdAgent

from echelon.hrl_xf.competitors.roster import ROSTER, agent_class
from echelon.hrl_xf.recording import log_writer
from echelon.hrl_xf.recording.dawn_reader import DawnReader
from echelon.hrl_xf.recording.tracker import attach, base_class, tracked
from echelon.hrl_xf.state.schema import (
    AgentLog,
    ContractExecutedEntry,
    ContractSignedEntry,
    DailyStatusEntry,
    DayClosedEntry,
    Decision,
    DecisionEntry,
    NegotiationFailureEntry,
    NegotiationSuccessEntry,
    decode_log,
    encode_log,
)
from tests.hrl_xf.conftest import MakeWorld, contracts_of

MIXED = ["PenguinAgent", "KATSUDONAgent", "RandomStdAgent", "UltraSuperMiracleSoraFinalAgentZ", "AX", "PonponAgent"]


def finish(world: Any) -> dict[str, AgentLog]:
    agents = [adapter.adapted_object for adapter in world.non_system_agents]
    logs = [a.echelon_recorder.finish(a, world_id="w", config_id="c", seed=1) for a in agents]
    return {log.agent_id: log for log in logs}


def decisions(log: AgentLog) -> list[Decision]:
    return [e.data for e in log.entries if isinstance(e, DecisionEntry)]


@pytest.fixture(scope="module")
def played() -> tuple[Any, dict[str, AgentLog], Counter[str]]:
    """A mixed world, its logs, and the answers of each agent as the mechanisms themselves received them."""
    from tests.hrl_xf.conftest import stock_world

    world = stock_world(MIXED, n_steps=10, levels=3, per_level=3)
    attach(world)
    received: Counter[str] = Counter()
    original = SAOMechanism._safe_counter

    def counting(self: Any, negotiator: Any, *args: Any, **kwargs: Any) -> Any:
        response, failed = original(self, negotiator, *args, **kwargs)
        if response is not None and response.response != ResponseType.WAIT:
            received[negotiator.owner.id] += 1
        return response, failed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SAOMechanism, "_safe_counter", counting)
        world.run()
    return world, finish(world), received


@pytest.mark.parametrize("agents", [MIXED, ["AS0", "SyncRandomStdAgent", "XenoSotaAgent", "DogAgent"]])
def test_tracking_changes_nothing(make_world: MakeWorld, agents: list[str]) -> None:
    plain, recorded = make_world(agents), make_world(agents)
    attach(recorded)
    from tests.hrl_xf.conftest import stock_world

    stock_world(agents)  # seeds as before either run
    plain.run()
    stock_world(agents)
    recorded.run()
    assert contracts_of(plain), "a world without a contract proves nothing"
    assert contracts_of(plain) == contracts_of(recorded)
    assert plain.scores() == recorded.scores()


def test_every_answer_a_partner_received_is_a_decision(played: tuple[Any, dict[str, AgentLog], Counter[str]]) -> None:
    _, logs, received = played
    sent = {agent: sum(d.sent for d in decisions(log)) for agent, log in logs.items()}
    assert sum(received.values()) > 300
    assert sent == {agent: received[agent] for agent in logs}


def test_no_tracker_failures_and_logs_survive_the_round_trip(
    played: tuple[Any, dict[str, AgentLog], Counter[str]],
) -> None:
    for log in played[1].values():
        assert log.stats.tracker_failures == 0, log.stats.first_tracker_failure
        assert decode_log(encode_log(log)) == log


def test_the_ledger_counts_the_deals_before_the_call(played: tuple[Any, dict[str, AgentLog], Counter[str]]) -> None:
    total = 0
    for log in played[1].values():
        deals = 0
        for entry in log.entries:
            if isinstance(entry, DailyStatusEntry):
                deals = 0
            elif isinstance(entry, NegotiationSuccessEntry):
                deals += 1
                total += 1
            elif isinstance(entry, DecisionEntry):
                assert entry.data.deals_before == deals
    assert total > 10


def test_the_state_at_dawn_has_yesterdays_offers_and_none_of_today(
    played: tuple[Any, dict[str, AgentLog], Counter[str]],
) -> None:
    seen_any = False
    for log in played[1].values():
        yesterday: list[tuple[str, tuple[int, int, int], int]] = []
        today: list[tuple[str, tuple[int, int, int], int]] = []
        for entry in log.entries:
            if isinstance(entry, DailyStatusEntry):
                yesterday, today = today, []
                snapshot = entry.data.offers_snapshot
                told = [("buyer", (o.quantity, o.time, o.price), o.round) for o in snapshot.buy]
                told += [("seller", (o.quantity, o.time, o.price), o.round) for o in snapshot.sell]
                assert sorted(told) == sorted(yesterday)
                seen_any = seen_any or bool(told)
            elif isinstance(entry, DecisionEntry) and entry.data.offer and entry.data.asked != "framework":
                today.append((entry.data.role, entry.data.offer, entry.data.round))
    assert seen_any


def test_days_close_with_the_balance_the_next_day_opens_with(
    played: tuple[Any, dict[str, AgentLog], Counter[str]],
) -> None:
    world, logs, _ = played
    for agent, log in logs.items():
        opened = [e.data for e in log.entries if isinstance(e, DailyStatusEntry)]
        closed = [e.data for e in log.entries if isinstance(e, DayClosedEntry)]
        assert len(opened) == len(closed) == world.n_steps
        for morning, evening in zip(opened[1:], closed, strict=False):
            assert morning.balance == evening.balance
            assert morning.inventory_input == evening.inventory_input
            assert morning.inventory_output == evening.inventory_output
        for morning, evening in zip(opened, closed, strict=True):
            assert evening.balance == pytest.approx(morning.balance + evening.profit)
        assert log.stats.final_score == pytest.approx(world.scores()[agent])


def test_contracts_in_the_log_are_the_worlds(played: tuple[Any, dict[str, AgentLog], Counter[str]]) -> None:
    world, logs, _ = played
    for agent, log in logs.items():
        mine = [c for c in world.saved_contracts if agent in (c["seller"], c["buyer"])]
        signed = [e.data for e in log.entries if isinstance(e, ContractSignedEntry)]
        executed = [e.data for e in log.entries if isinstance(e, ContractExecutedEntry)]
        assert sorted((c.quantity, c.time, c.price) for c in signed) == sorted(
            (c["quantity"], c["delivery_time"], c["unit_price"]) for c in mine if c["signed_at"] >= 0
        )
        assert len(executed) == sum(c["executed_at"] >= 0 for c in mine)
        negotiated = [e for e in log.entries if isinstance(e, NegotiationSuccessEntry)]
        assert len(negotiated) == sum(not c.exogenous for c in signed)


def test_a_plain_agent_leaves_a_log_too(make_world: MakeWorld) -> None:
    world = make_world([RandomStdAgent], n_steps=6)
    attach(world)
    world.run()
    found = Counter((d.asked, d.answer) for log in finish(world).values() for d in decisions(log))
    assert {asked for asked, _ in found} == {"respond"}
    assert found["respond", "REJECT"] > 0
    assert found["respond", "ACCEPT"] > 0


class SilentAgent(SyncRandomStdAgent):  # type: ignore[misc]
    """Answers its first partner by a counter-offer and is silent to all others."""

    def counter_all(self, offers: Any, states: Any) -> Any:
        responses = super().counter_all(offers, states)
        first = next(iter(offers))
        return {first: SAOResponse(ResponseType.REJECT_OFFER, responses[first].outcome or offers[first])}


def test_silence_is_an_end(make_world: MakeWorld) -> None:
    world = make_world([SilentAgent, "RandomStdAgent"], n_steps=4)
    attach(world)
    world.run()
    silent = [log for log in finish(world).values() if log.agent_type == "SilentAgent"]
    answers = Counter((d.asked, d.answer, d.sent) for log in silent for d in decisions(log))
    assert answers["counter_all", "END", True] > 0
    failures = sum(isinstance(e, NegotiationFailureEntry) for log in silent for e in log.entries)
    assert failures >= answers["counter_all", "END", True]


@pytest.mark.parametrize(("owner", "part"), [(DawnReader, "look"), (log_writer, "_contract_event")])
def test_a_failing_recorder_is_counted_and_the_world_continues(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, owner: Any, part: str
) -> None:
    """Whether it fails in play or when the notes are written out."""
    expected = make_world(["PenguinAgent"])
    expected.run()
    world = make_world(["PenguinAgent"])
    attach(world)

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("the recorder is broken")

    monkeypatch.setattr(owner, part, broken)
    world.run()
    assert contracts_of(world) == contracts_of(expected)
    logs = finish(world)
    assert sum(log.stats.tracker_failures for log in logs.values()) > 0
    assert any("the recorder is broken" in log.stats.first_tracker_failure for log in logs.values())


@pytest.mark.parametrize("name", sorted(ROSTER))
def test_a_tracked_class_is_found_by_its_name(name: str) -> None:
    cls = tracked(agent_class(name))
    assert get_class(get_full_type_name(cls)) is cls
    assert pickle.loads(pickle.dumps(cls)) is cls
    assert base_class(cls) is agent_class(name)
    assert tracked(cls) is cls


@pytest.mark.parametrize("path", ["PenguinAgent", "scml.std.agents.greedy.GreedyStdAgent"])
def test_a_tracked_class_is_found_by_its_name_in_a_new_process(path: str) -> None:
    name = get_full_type_name(tracked(agent_class(path)))
    code = f"from negmas.helpers import get_class; print(get_class({name!r}).__bases__[1].__name__)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == path.rsplit(".", 1)[-1]


def test_only_the_given_seats_are_recorded(make_world: MakeWorld) -> None:
    world = make_world(["PenguinAgent", "RandomStdAgent"])
    assert attach(world, [0, 3]) == 2
    names = [type(a.adapted_object).__name__ for a in world.non_system_agents]
    assert [seat for seat, name in enumerate(names) if name.startswith("Tracked")] == [0, 3]


class HoldsItself(SyncRandomStdAgent):  # type: ignore[misc]
    """Makes itself known to a part of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.part = [self]

    def itself(self) -> Any:
        return self.part[0]


class WatchesItself(SyncRandomStdAgent):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.itself = weakref.ref(self)


@pytest.mark.parametrize("cls", [HoldsItself, WatchesItself])
def test_an_agent_referred_to_elsewhere_stays_the_same_object(make_world: MakeWorld, cls: type[Any]) -> None:
    world = make_world([cls], n_steps=3)
    attach(world)
    agents = [adapter.adapted_object for adapter in world.non_system_agents]
    assert [agent.itself() for agent in agents] == agents
    world.run()
    assert all(decisions(log) for log in finish(world).values())


def test_an_agent_that_somebody_holds_records_in_his_hands(make_world: MakeWorld) -> None:
    world = make_world(["PenguinAgent"])
    held = world.non_system_agents[0].adapted_object
    attach(world)
    assert world.non_system_agents[0].adapted_object is held
    assert type(held) is tracked(agent_class("PenguinAgent"))


class Slotted:
    __slots__ = ("__mine",)

    def mine(self, *value: int) -> int:
        if value:
            (self.__mine,) = value
        return self.__mine


class KeepsSlots(Slotted, SyncRandomStdAgent):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mine(7)


def test_an_agent_keeps_its_attributes_in_the_tracked_class(make_world: MakeWorld) -> None:
    world = make_world([KeepsSlots])
    before = [dict(vars(adapter.adapted_object)) for adapter in world.non_system_agents]
    attach(world)
    agents = [adapter.adapted_object for adapter in world.non_system_agents]
    assert {type(agent) for agent in agents} == {tracked(KeepsSlots)}
    assert [agent.mine() for agent in agents] == [7] * len(agents)
    assert [{k: v for k, v in vars(a).items() if k != "echelon_recorder"} for a in agents] == before
