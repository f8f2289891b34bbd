"""Means, paired differences, intervals and ranks, against numbers made by hand."""

from __future__ import annotations

import msgspec
import pytest

from echelon.hrl_xf.arena.standings import Standings, conduct, standings
from echelon.hrl_xf.options.play import Place
from tests.hrl_xf.arena.examples import NO_LOSSES, result, seat


def table() -> Standings:
    """Two worlds with a seat on the first and two on the last level; c has played the first only."""
    return standings(
        [
            result("a", 0, seat(1.0, "first"), seat(2.0, "last", 1)),
            result("b", 0, seat(0.5, "first"), seat(2.0, "last", 1)),
            result("c", 0, seat(0.5, "first"), seat(2.0, "last", 1)),
            result("a", 1, seat(0.0, "first"), seat(1.0, "last", 1), seat(2.0, "last", 2)),
            result("b", 1, seat(0.4, "first"), seat(1.3, "last", 1), seat(1.9, "last", 2)),
        ],
        agents=["a"],
        resamples=200,
    )


def test_scores_and_differences_by_hand() -> None:
    a, b, c = (next(line for line in table().competitors if line.competitor == name) for name in "abc")
    assert a.scores["all"].score.mean == pytest.approx((1.5 + 1.0) / 2)
    assert a.scores["last"].score.mean == pytest.approx((2 + 1 + 2) / 3)
    assert "middle" not in a.scores
    assert (a.worlds, b.worlds, c.worlds) == (2, 2, 1)
    paired = {(p.rival, p.scope): p for p in table().paired}
    assert {p.agent for p in table().paired} == {"a"}
    assert paired["b", "all"].difference.mean == pytest.approx((0.25 - 0.2) / 2)
    assert paired["b", "first"].difference.mean == pytest.approx((0.5 - 0.4) / 2)
    assert paired["b", "last"].difference.mean == pytest.approx((0 - 0.3 + 0.1) / 3)
    assert paired["b", "all"].win_rate == 0.5
    assert paired["b", "last"].win_rate == pytest.approx(0.25), "a tie is half a win; the other world is lost"
    assert paired["c", "all"].worlds == 1


def test_by_level_when_each_world_was_played_on_one_level() -> None:
    """First 1.0 and 0.6, last 2.0 for a; b is .1, .3 better and .4 worse: each world counts on its own level only."""
    places: tuple[Place, ...] = ("first", "last", "first")
    scores = {"a": (1.0, 2.0, 0.6), "b": (1.1, 1.6, 0.9)}
    played = [result(name, i, seat(x, places[i])) for name, mine in scores.items() for i, x in enumerate(mine)]
    made = standings(played, ["a"], 100)
    line = next(line for line in made.competitors if line.competitor == "a")
    by_scope = {scope: (s.configurations, round(s.score.mean, 9)) for scope, s in line.scores.items()}
    assert by_scope == {"all": (3, 1.2), "first": (2, 0.8), "last": (1, 2.0)}
    found = {p.scope: (p.worlds, round(p.difference.mean, 9), p.win_rate) for p in made.paired}
    assert found == {"all": (3, 0.0, 1 / 3), "first": (2, -0.2, 0.0), "last": (1, 0.4, 1.0)}


def test_ranks_count_worlds_that_all_have_played_and_ties_share() -> None:
    ranks = {line.competitor: line.mean_rank for line in table().competitors}
    assert ranks == {"a": 1.0, "b": 2.5, "c": 2.5}
    assert table().complete_worlds == 1
    none = standings([result("a", 0, seat(1.0)), result("b", 1, seat(1.0))], ["a"], 10)
    assert [line.mean_rank for line in none.competitors] == [None, None]
    assert none.paired == []


def test_the_truncated_mean_leaves_out_high_outliers() -> None:
    scores = [1.0, 1.1, 0.9, 1.0, 50.0]
    played = [result(name, i, seat(x)) for name in "ab" for i, x in enumerate(scores)]
    line = standings(played, ["a"], 10).competitors[0]
    assert line.scores["all"].truncated_mean == pytest.approx(1.0)
    assert line.scores["all"].score.mean == pytest.approx(10.8)


def test_worlds_that_differ_are_never_compared() -> None:
    with pytest.raises(ValueError, match=r"configuration 3 is not the same for a \(one\) and b \(two\)"):
        standings([result("a", 3, seat(1.0), digest="one"), result("b", 3, seat(1.0), digest="two")], ["a"])
    with pytest.raises(ValueError, match="not the same"):
        standings([result("a", 3, seat(1.0)), result("b", 3, seat(1.0, number=1))], ["a"])


def test_conduct_is_per_seat_and_day_or_a_share() -> None:
    lossy = msgspec.structs.replace(NO_LOSSES, shortfall=30.0)
    done = conduct(
        [
            result(
                "a", 0, seat(1.0, contracts=4, sent=10, beyond_l1_sent=5, shortfall_days=1, exceptions=2, seconds=1.0)
            ),
            result(
                "a",
                1,
                seat(1.0, contracts=2, sent=30, undelivered=3, leftover=7, negotiator_exceptions=1, losses=lossy),
            ),
        ]
    )
    assert done.contracts_per_day == 6 / 4
    assert done.beyond_l1_sent == 5 / 40
    assert done.beyond_l1_signed == 0.0
    assert done.shortfall_rate == 1 / 4
    assert done.leftover == 3.5
    assert done.undelivered == 3
    assert done.exceptions == 3
    assert done.seconds_per_day == 0.25
    assert done.losses.shortfall == pytest.approx(0.15)
