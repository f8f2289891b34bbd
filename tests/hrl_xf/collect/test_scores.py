"""The scorer: bootstrap and ranking, against numbers made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.collect.scores import bootstrap, rank
from echelon.hrl_xf.collect.world import WorldResult


def ones(n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.ones(n)


def test_the_bootstrap_of_two_clusters_is_the_one_made_by_hand() -> None:
    """Resamples of (0, 1) have means 0, 1/2, 1 with chances 1/4, 1/2, 1/4: both ends of the interval are certain."""
    two = bootstrap(np.array([0.0, 1.0]), ones(2), 2000)
    assert (two.mean, two.low, two.high) == (0.5, 0.0, 1.0)


def test_the_bootstrap_has_the_quantiles_of_the_binomial() -> None:
    """100 clusters, half of them 1: the mean of a resample is Binomial(100, 1/2)/100; its quantiles are .40 and .60."""
    estimate = bootstrap(np.repeat([0.0, 1.0], 50), ones(100), 20_000)
    assert estimate.mean == 0.5
    assert estimate.low == pytest.approx(0.40, abs=0.0101)
    assert estimate.high == pytest.approx(0.60, abs=0.0101)


def test_seats_of_one_cluster_stay_together() -> None:
    """Clusters (sum 3 of 3 seats) and (sum 0 of 1): resamples give 3/3, 3/4 or 0/1, never anything between."""
    estimate = bootstrap(np.array([3.0, 0.0]), np.array([3.0, 1.0]), 2000)
    assert (estimate.mean, estimate.low, estimate.high) == (0.75, 0.0, 1.0)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8), st.floats(-3, 3))
def test_a_shift_of_all_values_shifts_the_interval(values: list[float], shift: float) -> None:
    total = np.array(values)
    before, after = (bootstrap(x, ones(len(values)), 50) for x in (total, total + shift))
    assert after.low == pytest.approx(before.low + shift, abs=1e-9)
    assert after.high == pytest.approx(before.high + shift, abs=1e-9)
    assert before.low - 1e-9 <= before.high
    assert bootstrap(total, ones(len(values)), 50) == before, "the same figures give the same interval"


def test_no_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="N > 0"):
        bootstrap(np.zeros(0), np.zeros(0), 10)


def test_outliers_are_left_out_of_the_truncated_mean_only() -> None:
    """Above Q3 + 2 IQR is left out: .1, .1, .2, .2 and 9 have a truncated mean of .15."""
    scores = [0.1, 0.1, 0.2, 0.2, 9.0]
    best, second = rank([world(i, f"c{i}", {"a": x, "m.b": 0.2}) for i, x in enumerate(scores)], 10)
    assert (best.competitor, second.competitor) == ("b", "a")
    assert second.truncated_mean == pytest.approx(0.15)
    assert second.score.mean == pytest.approx(sum(scores) / 5)
    assert (second.seats, second.configurations) == (5, 5)


def test_worlds_of_one_configuration_are_one_unit_of_chance() -> None:
    """Scores 0 and 1 in one configuration, 1 in another: resamples of configurations are 1/2, 2/3 or 1, never 0."""
    played = [world(0, "c0", {"a": 0.0}), world(1, "c0", {"a": 1.0}), world(2, "c1", {"a": 1.0})]
    (line,) = rank(played, 2000)
    assert (line.seats, line.configurations) == (3, 2)
    assert (line.score.low, line.score.high) == (0.5, 1.0)


def test_labels_stay_whole() -> None:
    assert [line.competitor for line in rank([world(0, "c", {"v1.5": 1.0})], 10, name=str)] == ["v1.5"]


def world(index: int, config_id: str, scores: dict[str, float]) -> WorldResult:
    rows = [{"agent_type": name, "score": score} for name, score in scores.items()]
    return WorldResult(
        index=index, world_id=f"w{index}", config_id=config_id, seed=0, seconds=0.0, days=1, factories=2, contracts=0,
        log_files=[], log_bytes=0, tracker_failures=0, scores=rows, world_stats={}, agent_stats=[], type_stats=[],
        daily={}, contract_table=[],
    )  # fmt: skip
