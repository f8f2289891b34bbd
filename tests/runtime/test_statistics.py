"""Interquartile means and bootstrap intervals: by hand, by law, and beside the exact distribution of a small case."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.runtime.statistics import interquartile_mean, resampled, stratified_bootstrap

scores = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),  # nothing can be left out
        ([1.0, 2.0, 6.0], 3.0),  # nor of three
        ([0.0, 1.0, 3.0, 100.0], 2.0),  # of four the lowest and the highest
        ([5.0, 1.0, 100.0, 3.0, 4.0], 4.0),  # of five too: (3 + 4 + 5) / 3
        ([0, 10, 20, 30, 40, 50, 60, 900], 35.0),  # of eight two on each side: (20 + 30 + 40 + 50) / 4
    ],
)
def test_by_hand(values: list[float], expected: float) -> None:
    assert interquartile_mean(values) == expected


def test_along_an_axis() -> None:
    table = np.array([[0.0, 8.0], [1.0, 4.0], [3.0, 6.0], [9.0, -9.0]])
    assert interquartile_mean(table, axis=0).tolist() == [2.0, 5.0]
    assert interquartile_mean(table[:1]).tolist() == [4.0]


@given(scores, st.floats(-10, 10), st.floats(0.1, 10))
def test_it_moves_and_scales_with_its_values_and_ignores_their_order(
    values: list[float], add: float, by: float
) -> None:
    mean = interquartile_mean(values)
    assert interquartile_mean(values[::-1]) == mean
    assert interquartile_mean(by * np.array(values) + add) == pytest.approx(by * mean + add, abs=1e-6)
    assert min(values) - 1e-9 <= mean <= max(values) + 1e-9


def test_each_task_is_drawn_from_its_own_runs() -> None:
    """Tasks of 2 and 3 runs: the first two columns hold runs of the first only, the others of the second."""
    drawn = resampled([[1.0, 2.0], [10.0, 20.0, 30.0]], 500, np.random.default_rng(0))
    assert drawn.shape == (500, 5)
    assert set(drawn[:, :2].ravel()) == {1.0, 2.0}
    assert set(drawn[:, 2:].ravel()) == {10.0, 20.0, 30.0}
    assert len(np.unique(drawn[:, :2], axis=0)) == 4  # with replacement: all pairs


def test_the_interval_is_that_of_all_equally_likely_resamples() -> None:
    """Runs (0, 4) of one task and (10, 20) of another: the middle half of a resample is (max of 2 + min of 2) / 2.

    The first two give 0 in one resample of four, else 4; the others 20 in one of four, else 10. So of sixteen: 5 three
    times, 7 nine times, 10 once, 12 three times.
    """
    tasks = [[0.0, 4.0], [10.0, 20.0]]
    wide, narrow = (stratified_bootstrap(tasks, np.random.default_rng(1), 20_000, level) for level in (0.8, 0.5))
    assert (wide.value, wide.low, wide.high) == (7.0, 5.0, 12.0)  # beyond 3/16 on both sides
    assert (narrow.value, narrow.low, narrow.high) == (7.0, 7.0, 7.0)


def test_runs_that_agree_leave_no_doubt_and_more_runs_less() -> None:
    rng = np.random.default_rng(2)
    sure = stratified_bootstrap([[3.0] * 5, [3.0] * 4], rng)
    assert (sure.value, sure.low, sure.high) == (3.0, 3.0, 3.0)
    few, many = (stratified_bootstrap([np.arange(n) / n], rng) for n in (6, 96))
    assert many.high - many.low < 0.5 * (few.high - few.low)
    assert few.low < few.value < few.high


def test_what_has_no_meaning_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="no task"):
        resampled([], 10, rng)
    with pytest.raises(ValueError, match=r"scores \(0,\) of a task"):
        resampled([[1.0], []], 10, rng)
    with pytest.raises(ValueError, match="level=95"):
        stratified_bootstrap([[1.0]], rng, level=95)
    with pytest.raises(ValueError, match="of no values"):
        interquartile_mean([])
