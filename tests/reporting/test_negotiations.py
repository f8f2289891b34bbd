"""Negotiations on the page against the logs they come from."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.arena.seat import answers_beyond_l1
from echelon.hrl_xf.recording.log_columns import columns_of
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.reporting.negotiations import Diary, LogSource, browse, days_of, spread
from tests.hrl_xf.log_examples import PENGUIN_FIRST, RANDOM, log_of

SOURCE = LogSource("world 3", "RandomStdAgent", RANDOM, {"00Pe@0": "PenguinAgent"}.get)


def test_every_answer_that_was_sent_is_there_in_its_order() -> None:
    log = log_of(RANDOM)
    columns = columns_of(log)
    days = days_of(columns, SOURCE)
    sent = [e for e in log.entries if type(e).__name__ == "DecisionEntry" and e.data.sent]  # type: ignore[union-attr]
    shown = {
        (day["day"], thread["p"], step[1], step[0]): step
        for day in days
        for thread in day["threads"]
        for step in thread["steps"]
    }
    assert len(shown) == len(sent) > 0
    for entry in sent:
        d = entry.data
        _, _, seen, own, op, *_ = shown[(entry.day, d.partner, d.round, d.call)]  # type: ignore[union-attr]
        assert (tuple(seen) if seen else None) == d.offer  # type: ignore[union-attr]
        assert (tuple(own) if own else None) == d.counter_offer  # type: ignore[union-attr]
        assert ("ACCEPT", "REJECT", "END")[op] == d.answer  # type: ignore[union-attr]
    deals = sum(thread["end"] == "deal" for day in days for thread in day["threads"])
    assert deals == log.stats.deals > 0


def test_l1s_limits_are_those_of_the_arena() -> None:
    columns = columns_of(log_of(RANDOM))
    beyond = 0
    for day in days_of(columns, SOURCE):
        for thread in day["threads"]:
            for _, _, seen, own, op, seen_safe, own_safe in thread["steps"]:
                quantity, safe = (seen[0], seen_safe) if op == 0 else (own[0], own_safe) if op == 1 else (0, 0)
                beyond += max(0, quantity - safe)
    assert beyond == answers_beyond_l1(columns, day_batch(columns.days))[1] > 0


def test_partners_are_called_by_name_and_a_bad_log_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "agent_bad.json").write_bytes(b"{}")
    shown = browse([SOURCE, LogSource("world 3", "X", tmp_path / "agent_bad.json")], ["first"], 10_000_000)
    assert shown is not None
    (log,) = shown["logs"]
    assert log["partners"]["00Pe@0"] == "PenguinAgent"
    assert len(log["days"]) == log["n_days"] == 10
    assert shown["notes"][0] == "first"
    assert shown["notes"][1].startswith("left out agent_bad.json: ")


def test_a_small_page_shows_fewer_days_and_says_so() -> None:
    shown = browse([SOURCE, LogSource("world 3", "PenguinAgent", PENGUIN_FIRST)], [], 9_000)
    assert shown is not None
    left = sum(log["n_days"] - len(log["days"]) for log in shown["logs"])
    assert 0 < left < 20
    assert shown["notes"] == [
        f"To keep the page small, {left} days of these logs are left out; the others are spread evenly."
    ]


def test_a_diary_stands_beside_its_answer() -> None:
    columns = columns_of(log_of(RANDOM))
    day, partner, _ = columns.threads[0]
    first = next(t for t in days_of(columns, SOURCE)[day]["threads"] if t["p"] == partner)["steps"][0]
    mind = {"alpha": 0.5, "ops": [0.1, 0.8, 0.1]}
    today = columns.days[day].current_step
    diary = Diary({today: [1.0] * 16}, {(today, partner, first[1]): mind})
    told = days_of(columns, LogSource("world 3", "RandomStdAgent", RANDOM, diary=diary))
    assert told[day]["goal"] == [1.0] * 16
    assert next(t for t in told[day]["threads"] if t["p"] == partner)["steps"][0] == [*first, mind]
    assert sum(len(step) > 7 for d in told for t in d["threads"] for step in t["steps"]) >= 1


@given(st.lists(st.integers(1, 100), max_size=60), st.integers(0, 3000))
def test_days_are_spread_and_fit(sizes: list[int], budget: int) -> None:
    chosen = spread(sizes, budget)
    assert chosen == sorted(set(chosen))
    if len(chosen) > 1:
        assert sum(sizes[i] for i in chosen) <= budget
        assert (chosen[0], chosen[-1]) == (0, len(sizes) - 1)
        gaps = {b - a for a, b in pairwise(chosen)}
        assert max(gaps) - min(gaps) <= 1
    assert bool(chosen) == bool(sizes)
    if sum(sizes) <= budget:
        assert len(chosen) == len(sizes)
