"""Figures by hand."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.hrl_xf.learning.figures import (
    answer_figures,
    calibration,
    goal_errors,
    masked_mean,
    rank_correlation,
    yesterdays,
)


def test_goal_errors_by_bucket_and_side() -> None:
    target, predicted, mask = np.zeros((2, 16)), np.zeros((2, 16)), np.zeros((2, 16), np.bool_)
    mask[:, [0, 1, 6]] = True  # Q and P to buy in bucket 0, Q to sell in bucket 1
    target[:, 0], predicted[:, 0] = [4, 0.5], [1, 0.5]
    target[:, 1], predicted[:, 1] = [20, 10], [19, 12]
    target[:, 6], predicted[:, 6] = [2, 2], [2, 3]
    predicted[:, 2] = 99  # masked
    found = goal_errors(predicted, target, mask)
    assert found["Q bucket 0 buy"] == {
        "n": 2,
        "MAE": 1.5,
        "RMSE": pytest.approx(np.sqrt(4.5)),
        "mean_target": 2.25,
        "mean_rel_err": pytest.approx(0.375),
    }
    assert found["P bucket 0 buy"]["MAE"] == 1.5
    assert found["P bucket 0 buy"]["mean_rel_err"] == pytest.approx((1 / 20 + 2 / 10) / 2)
    assert found["Q"]["n"] == 4
    assert found["Q"]["MAE"] == 1.0
    assert "Q bucket 0 sell" not in found


def test_yesterday_is_the_day_before_in_the_same_log() -> None:
    goal = np.arange(5.0)[:, None].repeat(16, axis=1)
    day, log = np.array([0, 1, 3, 0, 1]), np.array([0, 0, 0, 1, 1])
    found = yesterdays(goal, day, log, np.full(16, -1.0))
    assert found[:, 0].tolist() == [-1, 0, -1, -1, 3]


def test_means_leave_out_what_is_masked() -> None:
    values, mask = np.array([[1.0, 5.0], [3.0, 7.0]]), np.array([[True, False], [True, False]])
    assert masked_mean(values, mask).tolist() == [2.0, 0.0]


def test_answers_by_hand() -> None:
    found = answer_figures(np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 2]))
    assert found["accuracy"] == pytest.approx(3 / 5)
    assert found["ACCEPT"] == {"share": 0.2, "precision": 0.5, "recall": 1.0}
    assert found["REJECT"] == {"share": 0.6, "precision": pytest.approx(2 / 3), "recall": pytest.approx(2 / 3)}
    assert found["END"] == {"share": 0.2, "precision": 0.0, "recall": 0.0}


def test_calibration_is_the_mean_gap() -> None:
    probability = np.array([0.05, 0.05, 0.95, 0.95])
    found = calibration(probability, np.array([False, False, True, False]))
    assert found["expected_calibration_error"] == pytest.approx((0.05 + 0.45) / 2)
    assert [b["n"] for b in found["bins"]] == [2, 2]


def test_rank_correlation() -> None:
    assert rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 90.0])) == pytest.approx(1)
    assert rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1)
    # ranks 1.5 1.5 3 against 1 2 3
    assert rank_correlation(np.array([1.0, 1.0, 3.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(np.sqrt(3) / 2)
    assert np.isnan(rank_correlation(np.ones(3), np.arange(3.0)))
