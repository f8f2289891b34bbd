"""Which logs are browsed, who is behind an id, and what a diary says."""

from __future__ import annotations

from pathlib import Path

from echelon.reporting.log_sources import diary_of, of_arena
from echelon.reporting.negotiations import browse
from tests.reporting.examples import arena_results, with_log, write_arena


def test_kept_logs_come_with_names_and_diaries(tmp_path: Path) -> None:
    results = arena_results()
    results[1] = with_log(tmp_path / "arena", results[1])  # Best in configuration 0
    arena = write_arena(tmp_path / "arena", results)
    (source,), notes = of_arena(arena, ["Ours"])
    assert notes == []
    assert (source.world, source.competitor) == ("configuration 0", "Best")
    assert [source.who(name) for name in ("00Pe@0", "01@0", "04@1", "05@1", "SELLER")] == [
        "Best",
        "AS0",
        "Far",
        None,
        None,
    ]
    shown = browse([source], [], 10**7)
    assert shown is not None
    minds = [
        step[7] for day in shown["logs"][0]["days"] for t in day["threads"] for step in t["steps"] if len(step) > 7
    ]
    assert len(minds) == 1
    assert [day["goal"] for day in shown["logs"][0]["days"] if "goal" in day] == [[1.0] * 16]


def test_the_last_thought_of_a_round_counts_and_carries_the_limits(tmp_path: Path) -> None:
    with_log(tmp_path, arena_results()[0])
    (mind,) = diary_of(tmp_path / "tracker_logs" / "diary.json.gz").minds.values()
    assert (mind["alpha"], mind["ops"]) == (0.75, [0.1, 0.7, 0.2])
    assert mind["wish"] == [1, (5, 1, 20)]
    assert not mind["kept"]  # the reservation made 4 of 5
    assert mind["base"] in ((3, 1, 20), None)


def test_the_judged_come_first_and_what_was_not_kept_is_not_there(tmp_path: Path) -> None:
    results = [with_log(tmp_path / "arena", r) if r.index < 2 else r for r in arena_results()]
    arena = write_arena(tmp_path / "arena", results)
    order = [(source.world[-1], source.competitor) for source in of_arena(arena, ["Ours"]).logs]
    assert [name for _, name in order] == ["Ours", "</script><b>Worst", "Best"] * 2
    (arena / "tracker_logs" / "diary.json.gz").unlink()
    assert of_arena(arena).logs[0].diary.minds == {}
