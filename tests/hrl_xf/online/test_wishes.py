"""What a seat records of a real world."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.hrl_xf.online.wishes import profits_of_days
from echelon.hrl_xf.online.worlds import WorldTask, play_greedily, play_round_world
from echelon.hrl_xf.state.day_state import REJECT
from tests.hrl_xf.online.examples import TASK, bundled, seats


def test_the_rewards_add_up_to_the_score() -> None:
    for seat in seats():
        assert profits_of_days(seat).sum() == pytest.approx(seat.score - 1.0)
        assert seat.fallbacks == 0


def test_every_dawn_stands_before_the_calls_of_its_day() -> None:
    for seat in seats():
        day = seat.moments["day"]
        assert (np.diff(day) >= 0).all()
        is_call = seat.moments["x_moment"][:, 0] == 1
        assert len(day) == len(seat.days["z"]) + len(seat.calls["z"])
        assert (~is_call[np.searchsorted(day, np.arange(len(seat.days["z"])))]).all()
        np.testing.assert_array_equal(np.flatnonzero(is_call), seat.calls["moment"])


def test_an_offer_that_is_kept_is_what_its_thread_then_heard_of_us() -> None:
    offers = 0
    for seat in seats():
        w = seat.wishes
        made = w["answer"] == REJECT  # what the reservation left of the wish
        next_token = seat.tokens[(w["start"] + w["heard"])[made]]
        assert (next_token[:, 3] == 1).all()  # mine
        offers += int(made.sum())
    assert offers > 10


def test_a_task_is_played_the_same_each_time_and_another_draw_differently() -> None:
    again = play_round_world(TASK, bundled())
    for one, other in zip(seats(), again, strict=True):
        assert one.score == other.score
        np.testing.assert_array_equal(one.wishes["log_prob"], other.wishes["log_prob"])
        np.testing.assert_array_equal(one.days["z"], other.days["z"])
    other_draws = WorldTask(TASK.field, TASK.seed, TASK.index, TASK.seats, TASK.steps, draws=8)
    assert (play_round_world(other_draws, bundled())[0].days["z"][0] != seats()[0].days["z"][0]).any()


def test_validation_plays_the_modes_whatever_the_draws_would_be() -> None:
    task = WorldTask(TASK.field, TASK.seed, TASK.index, TASK.seats, TASK.steps, draws=None)
    assert play_greedily(task, bundled(-0.1)) == play_greedily(task, bundled(-3.0))
    with pytest.raises(ValueError, match="no seed of draws"):
        play_round_world(task, bundled())
