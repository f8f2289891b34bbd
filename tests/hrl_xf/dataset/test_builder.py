"""Columns computed for many logs at once against plain loops over one log, number by number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from echelon.hrl_xf.dataset.thread_tables import (
    HAS_BASELINE,
    IN_RANGE,
    ON_GRID,
    SAFE_DAY,
    SAFE_MONEY,
    SAFE_QUANTITY,
    pack_answer,
    unpack_answer,
)
from echelon.hrl_xf.dataset.tournament import Decisions, TournamentData
from echelon.hrl_xf.recording.log_columns import ASKED
from echelon.hrl_xf.state.day_batch import day_batch, in_days_ahead
from echelon.hrl_xf.state.day_state import ANSWERS, Offer
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.schema import AgentLog, DailyStatusEntry, Decision, DecisionEntry, NegotiationSuccessEntry
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, RANDOM, data_of, log_of
from tests.hrl_xf.state.examples import day_records, goals_of, ledger_of, same_bits

LAYER = L1SafetyLayer()
Found = tuple[int, Decision, int]  # day, decision, its place among the entries


def own_decisions(log: AgentLog) -> list[Found]:
    """As the tables hold them: by thread in the order threads appear, then by time."""
    threads: dict[str, list[Found]] = {}
    for i, entry in enumerate(log.entries):
        if isinstance(entry, DecisionEntry):
            of_thread = threads.setdefault(entry.data.mechanism_id, [])
            if entry.data.asked != "framework":
                of_thread.append((entry.day, entry.data, i))
    return [found for of_thread in threads.values() for found in of_thread]


def decisions_of(data: TournamentData) -> Decisions:
    return data.tables.decisions(data.rows("decision"))


@pytest.fixture(scope="module", params=[PENGUIN_FIRST, RANDOM, PENGUIN_MIDDLE], ids=["first", "random", "middle"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[AgentLog, TournamentData]:
    log = log_of(request.param)
    return log, data_of(tmp_path_factory.mktemp("data"), [log])


def test_goals_are_those_of_the_days_records(case: tuple[AgentLog, TournamentData]) -> None:
    log, data = case
    assert same_bits(data.tables.store.take("day.goal", data.rows("day")), goals_of(day_records(log.entries)))


def test_answers_and_offers_are_the_decisions_own(case: tuple[AgentLog, TournamentData]) -> None:
    log, data = case
    m = decisions_of(data)
    for i, (day, d, _) in enumerate(own_decisions(log)):
        q, t, p = d.counter_offer or (0, day, 0)
        assert (ANSWERS[m.op[i]], ASKED[m.asked[i]], m.sent[i], m.call[i]) == (d.answer, d.asked, d.sent, d.call)
        assert (m.seller[i], m.round[i], m.on_table[i]) == (d.role == "seller", d.round, d.offer is not None)
        assert m.offer[i].tolist() == [q, t - day, p]
        assert m.relative_time[i] == np.float32(d.relative_time)
        low_t, high_t = d.issues.time
        assert m.issues[i].tolist() == [*d.issues.quantity, low_t - day, high_t - day, *d.issues.price]
    assert len(m.op) == len(own_decisions(log))


def test_history_holds_the_offers_of_both_sides(case: tuple[AgentLog, TournamentData]) -> None:
    """Offers in the thread before the decision, each once, by a loop over the entries."""
    log, data = case
    m, rows = decisions_of(data), data.rows("decision")
    threads, at = np.unique(m.thread, return_inverse=True)
    tokens = data.tables.threads(threads)
    said: dict[str, list[tuple[Offer, bool]]] = {}
    expected: dict[int, list[tuple[Offer, bool]]] = {}
    for i, entry in enumerate(log.entries):
        if isinstance(entry, DecisionEntry):
            d, thread = entry.data, said.setdefault(entry.data.mechanism_id, [])
            if d.offer is not None and (not thread or thread[-1] != (d.offer, False)):
                thread.append((d.offer, False))
            expected[i] = list(thread)
            if d.sent and d.counter_offer is not None:
                thread.append((d.counter_offer, True))
    for i, (day, d, place) in enumerate(own_decisions(log)):
        history = tokens.tokens[at[i], : m.history[i]]
        low, high = d.issues.price
        wanted = [
            (q, (p - low) / (high - low) if high > low else 0.0, t - day, mine) for (q, t, p), mine in expected[place]
        ]
        assert history == pytest.approx(np.array(wanted, np.float32).reshape(-1, 4))
    assert m.history.max() > 1
    assert len(rows) == len(at)


def test_other_threads_in_sight_by_a_plain_count(case: tuple[AgentLog, TournamentData]) -> None:
    log, data = case
    m, decisions = decisions_of(data), own_decisions(log)
    for i, (day, d, _) in enumerate(decisions):
        together = [x for a_day, x, _ in decisions if (a_day, x.call, x.role) == (day, d.call, d.role) and x is not d]
        offers = [x.offer for x in together if x.offer is not None]
        better = 0
        if d.offer is not None:
            price = d.offer[2]
            better = sum(o[2] > price if d.role == "seller" else o[2] < price for o in offers)
        assert m.others[i].tolist() == [len(offers), sum(o[0] for o in offers), better]


def test_l1s_view_of_each_decision_is_l1s_own(case: tuple[AgentLog, TournamentData]) -> None:
    """One decision at a time through the layer, with the ledger of the deals before it."""
    log, data = case
    m = decisions_of(data)
    days = {e.day: e.data for e in log.entries if isinstance(e, DailyStatusEntry)}
    for i, (day, d, place) in enumerate(own_decisions(log)):
        deals = [
            (e.data.role, e.data.agreement)
            for e in log.entries[:place]
            if isinstance(e, NegotiationSuccessEntry) and e.day == day
        ]
        state = day_batch([days[day]])
        ledger = ledger_of(state, [deals])
        out = LAYER.compute(state, ledger, d.role, d.issues)
        answer = LAYER.answer(out, in_days_ahead([d.offer or (0, day, 0)], day), np.array([d.offer is not None]))
        legal = LAYER.legal_baseline(out)
        assert same_bits(m.safe[i, :11], out.safe[0, :11])
        assert same_bits(m.B_free[i], out.B_free[0])
        assert same_bits(m.open[i], out.open[0])
        assert m.baseline[i] == pytest.approx(out.baseline[0], rel=1e-7)
        assert m.l1_op[i] == answer.op[0]
        assert m.legal_baseline[i].tolist() == legal.offer[0].tolist()
        assert bool(legal.legal[0]) == bool(m.legal_baseline[i].any())
        checked = d.counter_offer if d.answer == "REJECT" else d.offer if d.answer == "ACCEPT" else None
        if checked is None:
            assert m.l1_rules[i] == 0
            continue
        q, t, p = checked
        bits = m.l1_rules[i]
        bounds = zip(checked, (d.issues.quantity, d.issues.time, d.issues.price), strict=True)
        assert bool(bits & ON_GRID) == all(low <= x <= high for x, (low, high) in bounds)
        assert bool(bits & SAFE_DAY) == bool(0 <= t - day <= 40 and out.open[0, t - day])
        assert bool(bits & SAFE_QUANTITY) == bool(q <= out.safe[0, min(max(t - day, 0), 40)])
        assert bool(bits & SAFE_MONEY) == bool(d.role == "seller" or q * p <= out.B_free[0])
        assert bool(bits & HAS_BASELINE) == (d.answer == "ACCEPT" or legal.legal[0])
        base = legal.offer[0]
        far = legal.legal[0] and (abs(q - base[0]) > 30 or abs(p - base[2]) > 20)
        assert bool(bits & IN_RANGE) == (d.answer == "ACCEPT" or not far)


def test_deals_are_stored_with_their_threads(case: tuple[AgentLog, TournamentData]) -> None:
    log, data = case
    rows = data.rows("thread")
    deals = data.tables.store.take("thread.deal", rows)
    wanted = sorted(
        (e.data.agreement[0], e.data.agreement[1] - e.day, e.data.agreement[2])
        for e in log.entries
        if isinstance(e, NegotiationSuccessEntry)
    )
    assert sorted(map(tuple, deals[deals[:, 0] > 0].tolist())) == wanted
    accepted = {d.mechanism_id: d.offer for _, d, _ in own_decisions(log) if d.answer == "ACCEPT"}
    m = decisions_of(data)
    for i, (day, d, _) in enumerate(own_decisions(log)):
        offer = accepted.get(d.mechanism_id)
        if offer is not None:
            q, t, p = offer
            assert data.tables.store.take("thread.deal", m.thread[i : i + 1])[0].tolist() == [q, t - day, p]


def test_many_logs_at_once_are_each_log_alone(tmp_path: Path) -> None:
    logs = [log_of(PENGUIN_MIDDLE), log_of(PENGUIN_FIRST), log_of(PENGUIN_MIDDLE)]
    together = data_of(tmp_path / "all", logs)
    decisions = np.split(together.rows("decision"), np.cumsum([r.decisions[1] for r in together.records])[:-1])
    days = np.split(together.rows("day"), np.cumsum([r.days[1] for r in together.records])[:-1])
    for i, log in enumerate(logs):
        alone = data_of(tmp_path / str(i), [log])
        m, single = together.tables.decisions(decisions[i]), decisions_of(alone)
        for name, column in vars(single).items():
            if name not in ("thread", "day"):
                assert same_bits(getattr(m, name), column), name
        assert same_bits(together.tables.days(days[i]).offers.price, alone.tables.days(alone.rows("day")).offers.price)


def test_packed_answers_come_back() -> None:
    grid = np.stack(np.meshgrid(range(3), range(3), range(2), range(2), range(4)), axis=-1).reshape(-1, 5)
    packed = pack_answer(*grid.T)
    assert packed.max() < 256
    assert np.array_equal(np.stack(unpack_answer(packed), axis=-1).astype(np.int64), grid)
