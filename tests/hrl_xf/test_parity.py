"""Live equals logged: a real world, every number computed in play against the same number from the decoded log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from echelon.hrl_xf.recording.tracker import attach
from echelon.hrl_xf.state.day_batch import Ledger, day_batch, in_days_ahead, issue_bounds
from echelon.hrl_xf.state.day_state import DayState
from echelon.hrl_xf.state.features import StateBuilder
from echelon.hrl_xf.state.goals import open_goal
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.live import OffersMemory, commitments_of, day_state, issues_of
from echelon.hrl_xf.state.schema import (
    AgentLog,
    DailyStatusEntry,
    Decision,
    DecisionEntry,
    NegotiationSuccessEntry,
    decode_log,
    encode_log,
)
from tests.hrl_xf.conftest import stock_world
from tests.hrl_xf.state.examples import day_records, goals_of, same_bits, signed_since

AGENTS = ["PenguinAgent", "AS0", "RandomStdAgent", "SyncRandomStdAgent", "QuickDecisionAgent"]
LAYER, BUILDER = L1SafetyLayer(), StateBuilder()
GOAL, NUDGE = np.arange(16.0)[None], np.array([3.5, 2.0, -1.25])

Numbers = dict[str, Any]


def numbers_of(record: Any) -> Numbers:
    return {f.name: getattr(record, f.name) for f in fields(record)}


def day_numbers(days: Any) -> Numbers:
    limits = LAYER.limits(days)
    return {**numbers_of(BUILDER.build(days)), "buy": limits.buy_room, "sell": limits.sell_room, "B": limits.money_room}


def seen_by(decision: Decision, today: int) -> Any:
    """The offer on the table, if there is one.  # (1, 3)"""
    return in_days_ahead([decision.offer or (0, today, 0)], today)


def decision_numbers(days: Any, ledger: Ledger, seller: Any, issues: Any, offers: Any, on_table: Any) -> Numbers:
    out = LAYER.compute(days, ledger, seller, issues)
    answers = LAYER.answer(out, offers, on_table)
    return {
        **numbers_of(out),
        **numbers_of(ledger),
        "op": answers.op,
        "counter": answers.counter.offer,
        "clipped": LAYER.clip(out, out.baseline + NUDGE).offer,
        "open": open_goal(np.repeat(GOAL, len(out.step), axis=0), ledger),
    }


class Probe:
    """Computes in play all that is computed from the log, from the world interface and nothing of the recorder's."""

    def live(self) -> Probe:
        self.memory = OffersMemory()
        self.live_days: list[DayState] = []
        self.day_numbers: list[Numbers] = []
        self.decision_numbers: dict[int, Numbers] = {}
        return self

    def before_step(self) -> None:
        awi: Any = self.awi  # type: ignore[attr-defined]
        if not self.live_days:
            self.initial_balance = float(awi.current_balance)
        self.live_days.append(day_state(awi, self.initial_balance, self.memory.take()))
        self.day_numbers.append(day_numbers(day_batch(self.live_days[-1:])))
        super().before_step()  # type: ignore[misc]

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """Whatever the recorder writes down meanwhile was decided with the ledger of now."""
        recorder: Any = self.echelon_recorder  # type: ignore[attr-defined]
        awi: Any = self.awi  # type: ignore[attr-defined]
        day, begin = self.live_days[-1], len(recorder.entries)
        ledger = signed_since(awi.current_step, day.commitments, commitments_of(awi))
        nmis = {**awi.current_buy_nmis, **awi.current_sell_nmis}
        yield
        entries = recorder.entries
        for index in range(begin, len(entries)):
            if isinstance(entries[index], DecisionEntry) and index not in self.decision_numbers:
                decision = entries[index].data
                seller = np.array([decision.partner in awi.my_consumers])
                today = day.current_step
                issues = issue_bounds([issues_of(nmis[decision.partner].issues)], [today])
                offer, on_table = seen_by(decision, today), np.array([decision.offer is not None])
                numbers = decision_numbers(day_batch([day]), ledger, seller, issues, offer, on_table)
                self.decision_numbers[index] = numbers

    def propose(self, *args: Any, **kwargs: Any) -> Any:
        with self.deciding():
            return super().propose(*args, **kwargs)  # type: ignore[misc]

    def respond(self, negotiator_id: str, state: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(super(), "counter_all"):
            self.note(negotiator_id, state.current_offer, state)
        with self.deciding():
            return super().respond(negotiator_id, state, *args, **kwargs)  # type: ignore[misc]

    def note(self, partner: str, offer: Any, state: Any) -> None:
        awi: Any = self.awi  # type: ignore[attr-defined]
        nmi = {**awi.current_buy_nmis, **awi.current_sell_nmis}[partner]
        self.memory.saw("seller" if partner in awi.my_consumers else "buyer", offer, state.step, nmi.n_steps)


class SyncProbe(Probe):
    def first_proposals(self) -> Any:
        with self.deciding():
            return super().first_proposals()  # type: ignore[misc]

    def counter_all(self, offers: Any, states: Any) -> Any:
        for partner, offer in offers.items():
            if offer is not None:
                self.note(partner, offer, states[partner])
        with self.deciding():
            return super().counter_all(offers, states)  # type: ignore[misc]


@pytest.fixture(scope="module")
def played() -> list[tuple[Any, AgentLog]]:
    """Probed agents of a world that has been played, each with its log written and read back."""
    world = stock_world(AGENTS, n_steps=8, levels=3, per_level=3, seed=4)
    attach(world)
    agents = [adapter.adapted_object for adapter in world.non_system_agents]
    for agent in agents:
        cls = type(agent)
        agent.__class__ = type("Probed", (SyncProbe if hasattr(cls, "counter_all") else Probe, cls), {})
        agent.live()
    world.run()
    logs = [agent.echelon_recorder.finish(agent, world_id="w", config_id="c", seed=4) for agent in agents]
    return list(zip(agents, [decode_log(encode_log(log)) for log in logs], strict=True))


def days_of(log: AgentLog) -> list[DayState]:
    return [entry.data for entry in log.entries if isinstance(entry, DailyStatusEntry)]


def assert_same(live: Numbers, logged: Numbers, row: int, where: str) -> None:
    assert live.keys() == logged.keys()
    for name, value in live.items():
        assert same_bits(value[0], logged[name][row]), f"{name} {where}: live {value[0]}, logged {logged[name][row]}"


def test_the_world_is_worth_comparing(played: list[tuple[Any, AgentLog]]) -> None:
    assert {log.stats.tracker_failures for _, log in played} == {0}
    decisions = [e.data for _, log in played for e in log.entries if isinstance(e, DecisionEntry)]
    assert {d.asked for d in decisions} >= {"first_proposals", "counter_all", "respond"}
    assert {d.role for d in decisions} == {"buyer", "seller"}
    assert any(d.deals_before > 0 for d in decisions)
    assert {len(log.entries) > 0 for _, log in played} == {True}


def test_days_and_their_features_and_limits_are_those_of_the_log(played: list[tuple[Any, AgentLog]]) -> None:
    for agent, log in played:
        assert days_of(log) == agent.live_days
        logged = day_numbers(day_batch(days_of(log)))
        for row, live in enumerate(agent.day_numbers):
            assert_same(live, logged, row, f"{log.agent_type} day {row}")


def test_every_decision_has_the_numbers_of_the_log(played: list[tuple[Any, AgentLog]]) -> None:
    """All decisions of a log in one batch, ledgers from its deals, against one at a time from the live interface."""
    for agent, log in played:
        days = day_batch(days_of(log))
        ledgers, first = Ledger.after_each_deal(days, [record.deals for record in day_records(log.entries)])
        found = [(i, e.day, e.data) for i, e in enumerate(log.entries) if isinstance(e, DecisionEntry)]
        assert {i for i, _, _ in found} == set(agent.decision_numbers)
        day_of = np.array([day for _, day, _ in found]) - days_of(log)[0].current_step
        decisions: list[Decision] = [decision for _, _, decision in found]
        ledger = ledgers.take(first[day_of] + np.array([d.deals_before for d in decisions]))
        logged = decision_numbers(
            days.take(day_of),
            ledger,
            np.array([d.role == "seller" for d in decisions]),
            issue_bounds([d.issues for d in decisions], [day for _, day, _ in found]),
            np.concatenate([seen_by(d, day) for _, day, d in found]),
            np.array([d.offer is not None for d in decisions]),
        )
        for row, (index, day, decision) in enumerate(found):
            where = f"{log.agent_type} day {day} {decision.asked} round {decision.round} {decision.partner}"
            assert_same(agent.decision_numbers[index], logged, row, where)


def test_offers_of_a_day_are_the_next_dawns_snapshot(played: list[tuple[Any, AgentLog]]) -> None:
    """Labels read a day's offers from its decisions, features from the next snapshot: one and the same."""
    for _, log in played:
        records = day_records(log.entries)
        for today, tomorrow in pairwise(records):
            sides: dict[str, list[tuple[int, ...]]] = {"buyer": [], "seller": []}
            for role, (q, t, p), round_, rounds in today.seen:
                sides[role].append((t, q, p, round_, rounds))
            snapshot = tomorrow.day.offers_snapshot
            assert sorted(sides["buyer"]) == sorted(snapshot.buy)
            assert sorted(sides["seller"]) == sorted(snapshot.sell)


def test_labels_of_a_log_are_those_of_its_days_alone(played: list[tuple[Any, AgentLog]]) -> None:
    deals = 0
    for _, log in played:
        records = day_records(log.entries)
        together = goals_of(records)
        assert together.any()
        deals += sum(isinstance(e, NegotiationSuccessEntry) for e in log.entries)
        for row, record in enumerate(records):
            assert same_bits(goals_of([record])[0], together[row])
    assert deals > 10
