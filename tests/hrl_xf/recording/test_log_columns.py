"""Entries that contradict each other never become samples: the entry is named instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any

import msgspec
import pytest

from echelon.hrl_xf.recording.log_columns import check_complete, columns_of
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT
from echelon.hrl_xf.state.schema import AgentLog, LogError
from tests.hrl_xf.log_examples import LOGS, PENGUIN_FIRST, log_of

Spoil = Callable[[AgentLog], Any]


def first(log: AgentLog, event: str, where: Callable[[Any], bool] = lambda data: True) -> int:
    return next(i for i, e in enumerate(log.entries) if e.__struct_config__.tag == event and where(e.data))


def change(event: str, where: Callable[[Any], bool] = lambda data: True, **fields: Any) -> Spoil:
    def spoil(log: AgentLog) -> None:
        i = first(log, event, where)
        data: Any = log.entries[i].data
        log.entries[i].data = (replace if is_dataclass(data) else msgspec.structs.replace)(data, **fields)

    return spoil


def drop(event: str) -> Spoil:
    return lambda log: log.entries.pop(first(log, event))


def twice(event: str) -> Spoil:
    return lambda log: log.entries.insert(first(log, event), log.entries[first(log, event)])


def other_day(event: str) -> Spoil:
    def spoil(log: AgentLog) -> None:
        log.entries[first(log, event)].day += 1

    return spoil


def rejects(data: Any) -> bool:
    return bool(data.answer == "REJECT" and data.sent and data.offer is not None)


def opens(data: Any) -> bool:
    return data.offer is None


SPOILS: dict[str, tuple[Spoil, str]] = {
    "no dawn": (drop("daily_status"), "no daily_status opened this day"),
    "two dawns": (twice("daily_status"), "comes after day 0"),
    "another day's dawn": (other_day("daily_status"), "current_step is 0"),
    "another day's decision": (other_day("decision"), "no daily_status opened this day"),
    "a deal less": (drop("negotiation_success"), "deals_before is 4, but 3 deals come before it"),
    "two deals": (twice("negotiation_success"), "had ended with a deal"),
    "a changed agreement": (change("negotiation_success", agreement=(29, 0, 9)), "is not what was offered last"),
    "a stranger's deal": (change("negotiation_success", mechanism_id="x"), "is not what was offered"),
    "a changed ledger": (change("decision", deals_before=3), "deals_before is 3"),
    "another partner": (change("decision", lambda d: d.call > 0, partner="nobody"), "another partner"),
    "another role": (change("decision", lambda d: d.call > 0, role="buyer"), "another partner, in another role"),
    "a reject without an offer": (change("decision", rejects, counter_offer=None), "means nothing"),
    "accepting nothing": (change("decision", opens, answer="ACCEPT", counter_offer=None), "means nothing"),
    "an offer off the issue": (change("decision", rejects, offer=(31, 0, 10)), "outside the issues"),
    "an endless number": (change("decision", rejects, counter_offer=(10**30, 0, 10)), "beyond"),
    "time beyond the end": (change("decision", relative_time=1.5), "relative_time 1.5"),
    "a round of the past": (change("decision", lambda d: d.round > 0, round=99), "round 99 of 20"),
    "a call of the past": (change("decision", lambda d: d.call > 0, call=-1), "call -1 comes after call"),
    "changed lines": (change("daily_status", lambda d: d.current_step == 3, n_lines=11), "n_lines changed from 10"),
    "a huge stock": (change("daily_status", inventory_input=10**20), "inventory_input"),
    "two dusks": (twice("day_closed"), "closed before"),
    "a stranger's class": (change("agent_initialized", agent_type_base="AS0"), "agent_type_base"),
}  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS.keys())
def test_a_contradiction_is_named_with_its_entry(spoil: tuple[Spoil, str]) -> None:
    log = log_of(PENGUIN_FIRST)
    spoil[0](log)
    with pytest.raises(LogError, match=spoil[1]) as caught:
        columns_of(log)
    assert "entry " in str(caught.value)


def test_a_log_without_a_day_is_refused() -> None:
    log = log_of(PENGUIN_FIRST)
    log.entries.clear()
    with pytest.raises(LogError, match="no day"):
        columns_of(log)


def test_stats_tell_of_missing_entries_and_of_failures_of_the_tracker() -> None:
    log = log_of(PENGUIN_FIRST)
    check_complete(log)
    log.entries.pop(first(log, "decision"))
    with pytest.raises(LogError, match="count 103 decisions, its entries 102"):
        check_complete(log)
    log = log_of(PENGUIN_FIRST)
    log.stats = msgspec.structs.replace(
        log.stats, tracker_failures=2, first_tracker_failure="Traceback\nKeyError: 'x'\n"
    )
    with pytest.raises(LogError, match=r"failed 2 times.*KeyError: 'x'"):
        check_complete(log)


def test_every_real_log_is_read_and_counts_as_its_stats_say() -> None:
    for path in sorted(LOGS.rglob("*.gz")):
        log = log_of(path)
        check_complete(log)
        columns = columns_of(log)
        ops = columns.column("op").tolist()
        assert [ops.count(op) for op in (ACCEPT, REJECT, END)] == [log.stats.accepts, log.stats.rejects, log.stats.ends]
        assert sum(map(len, columns.deals)) == len(columns.agreements) == log.stats.deals
        assert all(day is not None for day in columns.closed)


def test_a_silent_thread_may_be_answered_in_another_threads_round() -> None:
    """PenguinAgent was seen to answer a silent thread in another's round 11, and the thread's own round 5 after it."""
    log = log_of(PENGUIN_FIRST)
    change("decision", opens, round=11)(log)
    silent: Any = log.entries[first(log, "decision", opens)].data
    first(log, "decision", lambda d: d.mechanism_id == silent.mechanism_id and d.offer is not None and d.round < 11)
    assert len(columns_of(log).decisions) == log.stats.decisions
