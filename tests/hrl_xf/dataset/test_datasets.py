"""Samples: features equal to the log's, rows equal to batches, and no decision that knows what came after it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.hrl_xf.dataset.datasets import MicroDataset, macro_of, micro_of
from echelon.hrl_xf.dataset.goal_backfill import with_goals
from echelon.hrl_xf.dataset.thread_tables import REPRESENTABLE
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.features import StateBuilder
from echelon.hrl_xf.state.goals import goal_mask, open_goal
from echelon.hrl_xf.state.schema import AgentLog, DailyStatusEntry, DecisionEntry, NegotiationSuccessEntry
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, RANDOM, SHORT, data_of, log_of, with_entries
from tests.hrl_xf.state.examples import day_records, goals_of, ledger_of, same_bits

ROWS = {"thread", "day"}
"""Numbers of rows in the tables."""
ALL_PENGUINS = [PENGUIN_FIRST, PENGUIN_MIDDLE]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TournamentData:
    return data_of(tmp_path_factory.mktemp("data"), [log_of(path) for path in ALL_PENGUINS])


def test_macro_features_are_those_the_agent_computes_in_play(data: TournamentData) -> None:
    macro = macro_of(data)
    batch = macro.batch(np.arange(len(macro)))
    states = [e.data for path in ALL_PENGUINS for e in log_of(path).entries if isinstance(e, DailyStatusEntry)]
    wanted = StateBuilder().build(day_batch(states))
    assert same_bits(batch.x_static, wanted.x_static)
    assert same_bits(batch.X_temporal, wanted.X_temporal)
    assert same_bits(batch.x_role, wanted.x_role)
    assert same_bits(batch.goal, np.concatenate([goals_of(day_records(log_of(path).entries)) for path in ALL_PENGUINS]))
    assert np.array_equal(batch.goal_mask, goal_mask(day_batch(states)))
    assert batch.day.tolist() == [state.current_step for state in states]


def test_rows_are_the_batches_rows_and_slices_are_data_sets(data: TournamentData) -> None:
    macro, micro = macro_of(data), micro_of(data)
    assert len(macro[10:20]) == 10
    assert same_bits(macro[10:20][3].state_temporal, macro.batch(np.array([13])).X_temporal[0])
    assert same_bits(macro[-1].state_static, macro[len(macro) - 1].state_static)
    with pytest.raises(IndexError):
        macro[len(macro)]
    batch = micro.batch(np.arange(40, 60))
    for i in range(20):
        row = micro[40 + i]
        d = batch.decisions
        assert same_bits(row.history, batch.threads.tokens[batch.thread[i], : d.history[i]])
        assert same_bits(row.time_mask, d.open[i])
        assert (row.op, row.residual.tolist()) == (d.op[i], d.residual[i, [0, 2]].tolist())
        assert row.time_label == (d.offer[i, 1] if d.op[i] == 1 else -1)
    assert micro[0].negotiation_id.startswith("w00003-s0-c0000-r0/000/00Pe@0/")


def test_only_sent_decisions_are_targets(data: TournamentData) -> None:
    logged = [e.data for path in ALL_PENGUINS for e in log_of(path).entries if isinstance(e, DecisionEntry)]
    targets = [d for d in logged if d.sent and d.asked != "framework"]
    micro = micro_of(data)
    op = micro.batch(np.arange(len(micro))).decisions.op
    assert [int((op == i).sum()) for i in range(3)] == [
        sum(d.answer == answer for d in targets) for answer in ("ACCEPT", "REJECT", "END")
    ]
    assert len(targets) < sum(d.asked != "framework" for d in logged)  # there were overtaken ones


def test_residuals_lead_from_the_base_to_the_experts_offer(data: TournamentData) -> None:
    micro = micro_of(data)
    d = micro.batch(np.arange(len(micro))).decisions
    rejects = d.op == 1
    assert np.array_equal((d.legal_baseline + d.residual)[rejects], d.offer[rejects])
    assert not d.residual[~rejects].any()
    # what is trained on is inside L1's mask: its log-probability is finite
    rows = np.flatnonzero(rejects & (d.l1_rules == REPRESENTABLE))
    assert len(rows) > 20
    quantity, ahead, _ = d.offer[rows].T
    assert d.open[rows, ahead].all()
    assert (quantity <= d.safe[rows, ahead]).all()


def test_the_offer_on_the_table_is_the_last_token(data: TournamentData) -> None:
    micro = micro_of(data)
    b = micro.batch(np.arange(len(micro)))
    d = b.decisions
    last = b.threads.tokens[b.thread, np.maximum(d.history - 1, 0)]
    assert (last[d.on_table, 3] == 0).all()
    assert (d.history[d.on_table] >= 1).all()
    assert (d.op[~d.on_table] != 0).all()


def test_open_goals_follow_the_ledger_of_the_moment(data: TournamentData) -> None:
    data = with_goals(data, "v2")
    micro = micro_of(data)
    b, m = micro.batch(np.arange(len(micro))), data.tables.decisions(micro.rows)
    log = log_of(PENGUIN_FIRST)
    records = day_records(log.entries)
    targets = [(e.day, e.data) for e in log.entries if isinstance(e, DecisionEntry) and e.data.sent]
    wanted = {}
    for day, d in targets:
        ledger = ledger_of(day_batch([records[day].day]), [records[day].deals[: d.deals_before]])
        wanted[day, d.mechanism_id, d.round] = open_goal(goals_of([records[day]]), ledger)[0]
    n = len(targets)
    ids = [tuple(data.negotiation_id(int(t)).split("/")) for t in m.thread[:n]]
    for i in range(n):
        day, partner = int(ids[i][1]), ids[i][3]
        key = next(k for k in wanted if k[0] == day and partner in k[1] and k[2] == m.round[i])
        assert same_bits(b.open_goal[i], wanted[key])
    assert any(not np.array_equal(b.open_goal[i], b.goal[i].reshape(4, 4)[:, ::2]) for i in range(n))


def test_one_batch_of_threads_serves_all_their_decisions(data: TournamentData) -> None:
    """Whole threads: each is in the batch once, and the n-th decision of a thread sees more than the one before."""
    micro = micro_of(data)
    runs = 1 + int((np.diff(micro.thread) != 0).sum())
    assert runs == len(np.unique(micro.thread))  # decisions of a thread stand together
    b = micro.batch(np.arange(len(micro)))
    tokens, mask, history = b.threads.tokens, b.threads.mask, b.decisions.history
    assert len(tokens) == len(np.unique(micro.thread)) < len(micro)
    same = b.thread[1:] == b.thread[:-1]
    assert (np.diff(history)[same] > 0).all()
    assert (history <= mask.sum(axis=1)[b.thread]).all()
    assert not tokens[~mask].any()


def test_no_rows_are_an_empty_batch(data: TournamentData) -> None:
    none = np.array([], np.int64)
    assert macro_of(data).batch(none).X_temporal.shape == (0, 41, 10)
    assert micro_of(data).batch(none).decisions.open.shape == (0, 41)


# -- leaks --


def cuts(log: AgentLog, count: int) -> list[int]:
    """Ends of calls, spread over the log: threads answered in one call were decided together."""
    entries = log.entries
    ends = [
        i
        for i, e in enumerate(entries)
        if isinstance(e, DecisionEntry)
        and not (
            isinstance(after := entries[i + 1], DecisionEntry) and (after.day, after.data.call) == (e.day, e.data.call)
        )
    ]
    return [ends[round(x)] for x in np.linspace(0, len(ends) - 1, count)]


def inputs_and_labels(micro: MicroDataset, at: Any) -> dict[str, Any]:
    batch = micro.batch(at)
    d = batch.decisions
    found = {f.name: getattr(d, f.name) for f in fields(d) if f.name not in ROWS}
    seen = np.zeros((len(d.op), 48, 4), np.float32)
    for i, (thread, length) in enumerate(zip(batch.thread, d.history, strict=True)):
        seen[i, :length] = batch.threads.tokens[thread, :length]
    return found | {"goal": batch.goal, "open_goal": batch.open_goal, "history itself": seen}


@pytest.mark.parametrize("path", [PENGUIN_FIRST, RANDOM, PENGUIN_MIDDLE], ids=["first", "random", "middle"])
def test_nothing_changes_when_the_log_is_cut_after_the_decision(path: Path, tmp_path: Path) -> None:
    """Every earlier decision of the shortened log has the same inputs and labels as in the whole one."""
    log = log_of(path)
    whole = micro_of(data_of(tmp_path / "whole", [log]))
    all_of_whole = inputs_and_labels(whole, np.arange(len(whole)))
    order = np.argsort(entry_numbers(log), kind="stable")  # rows of `whole` in the order they were decided
    compared = 0
    for cut in cuts(log, 9):
        shorter = with_entries(log, log.entries[: cut + 1])
        micro = micro_of(data_of(tmp_path / str(cut), [shorter]))
        found = inputs_and_labels(micro, np.arange(len(micro)))
        numbers = entry_numbers(shorter)
        in_whole = order[: len(numbers)][np.argsort(np.argsort(numbers))]
        assert len(micro) == len(numbers)
        for name, column in found.items():
            assert same_bits(column, all_of_whole[name][in_whole]), f"{name} after a cut at entry {cut}"
        compared += len(micro)
    assert compared > 100


def entry_numbers(log: AgentLog) -> Any:
    """The entry of each target, in the order of the data set: by thread, then time."""
    threads: dict[str, list[int]] = {}
    for i, e in enumerate(log.entries):
        if isinstance(e, DecisionEntry):
            of_thread = threads.setdefault(e.data.mechanism_id, [])
            if e.data.sent and e.data.asked != "framework":
                of_thread.append(i)
    return np.array([i for of_thread in threads.values() for i in of_thread])


def test_the_targets_own_offer_is_never_in_its_history(tmp_path: Path) -> None:
    """Another offer in place of the one sent changes the label, and later histories, but no input of its decision."""
    log = log_of(PENGUIN_MIDDLE)
    marked = log_of(PENGUIN_MIDDLE)
    agreed = {e.data.mechanism_id for e in log.entries if isinstance(e, NegotiationSuccessEntry)}
    last: dict[str, int] = {}
    decisions = {i: e.data for i, e in enumerate(marked.entries) if isinstance(e, DecisionEntry)}
    for i, d in decisions.items():
        if d.counter_offer is not None and d.sent and d.mechanism_id not in agreed:
            last[d.mechanism_id] = i
    places = list(last.values())
    for i in places:
        q, t, p = decisions[i].counter_offer or (0, 0, 0)
        decisions[i].counter_offer = (q % 30 + 1, t, p)
    assert len(places) > 50
    one, other = micro_of(data_of(tmp_path / "a", [log])), micro_of(data_of(tmp_path / "b", [marked]))
    a, b = (inputs_and_labels(ds, np.arange(len(ds))) for ds in (one, other))
    changed = np.isin(entry_numbers(log), places)
    assert (a["offer"][changed, 0] != b["offer"][changed, 0]).all()
    for name in set(a) - {"offer", "l1_rules"}:
        assert same_bits(a[name][changed], b[name][changed]), name


def test_todays_offers_are_not_in_todays_features(tmp_path: Path) -> None:
    """Features at dawn are those of a log that ends right after dawn."""
    log = log_of(SHORT / "tracker_logs" / "agent_05SRS@1_world_w00002-s0-c0000-r0.json.gz")
    whole = macro_of(data_of(tmp_path / "whole", [log]))
    full = whole.batch(np.arange(len(whole)))
    dawns = [i for i, e in enumerate(log.entries) if isinstance(e, DailyStatusEntry)]
    for row in (1, 5, 9):
        short = with_entries(log, log.entries[: dawns[row] + 1])
        macro = macro_of(data_of(tmp_path / str(row), [short]))
        cut = macro.batch(np.array([row]))
        assert same_bits(cut.X_temporal[0], full.X_temporal[row])
        assert same_bits(cut.x_static[0], full.x_static[row])
