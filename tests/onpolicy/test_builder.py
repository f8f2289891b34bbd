"""The builder keeps every decision where it belongs, and refuses what it cannot keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from echelon.onpolicy.batch import VersionError
from echelon.onpolicy.builder import RolloutBuilder

pytestmark = pytest.mark.numeric

Array = NDArray[Any]


def _store(builder: RolloutBuilder, number: float, version: int = 0, **extra: Any) -> None:
    """One decision a column whose every number tells which it is."""
    b = builder.columns
    each = np.full(b, number, np.float32)
    content: dict[str, Any] = {"terminated": False, "done": False, **extra}
    builder.store(version, {"x": each}, {"a": each.astype(np.int64)}, -each, each, 10 * each, **content)


def test_a_full_builder_refuses_more_and_is_empty_after_taking() -> None:
    builder = RolloutBuilder(slots=2, columns=3)
    _store(builder, 1)
    _store(builder, 2)
    with pytest.raises(IndexError, match="already hold 2 decisions"):
        _store(builder, 3)
    batch = builder.take(last_value=np.full(3, 9.0))
    assert batch.reward[:, 0, 0].tolist() == [10.0, 20.0]
    assert batch.next_value[:, 0, 0].tolist() == [2.0, 9.0]
    _store(builder, 5, version=1)
    assert batch.reward[0, 0, 0] == 10.0  # the taken batch is not written to
    assert batch.observation["x"][0, 0] == 1.0
    with pytest.raises(ValueError, match="nothing was stored"):
        RolloutBuilder(1, 1).take()


def test_one_round_has_one_version() -> None:
    builder = RolloutBuilder(slots=2, columns=1)
    _store(builder, 1, version=4)
    with pytest.raises(VersionError, match="began with 4, this decision is of 5"):
        _store(builder, 2, version=5)
    assert builder.take(np.zeros(1)).version == 4


def test_columns_run_at_their_own_clocks() -> None:
    """Two worlds, decisions of up to 3 steps; world 1's episode ends after 2 steps."""
    builder = RolloutBuilder(slots=3, columns=2, units=2)

    def begin(columns: Array, number: float) -> None:
        each = np.full((len(columns), 2), number, np.float32)
        builder.open(0, {"s": each}, {"z": each}, each, each, columns=columns)

    both, first, second = np.array([0, 1]), np.array([0]), np.array([False, True])
    begin(both, 1)
    builder.earn(np.array([1.0, 2.0]))
    builder.earn(np.array([1.0, 2.0]))
    builder.close(True, True, columns=second)
    begin(np.array([1]), 2)
    builder.earn(np.array([1.0, 2.0]))
    builder.close(False, False, columns=first)
    begin(first, 3)
    builder.earn(np.array([[1.0, 7.0], [2.0, 8.0]]))
    builder.close(False, False, next_value=np.array([[5.0, 6.0]]), columns=first)
    builder.close(False, False, columns=second)
    batch = builder.take(last_value=np.array([50.0, 60.0]))

    assert batch.valid.tolist() == [[True, True], [True, True], [False, False]]
    assert batch.span.tolist() == [[3, 2], [1, 2], [0, 0]]
    assert batch.reward[:2, 0].tolist() == [[3.0, 3.0], [1.0, 7.0]]
    assert batch.reward[:2, 1].tolist() == [[4.0, 4.0], [4.0, 10.0]]
    assert batch.observation["s"][:2, :, 0].tolist() == [[1.0, 1.0], [3.0, 2.0]]
    assert batch.terminated[:2, 1, 0].tolist() == [True, False]
    # world 0: the next decision's value, then the one given; world 1: nothing (terminated), then last_value
    assert batch.next_value[:2, 0].tolist() == [[3.0, 3.0], [5.0, 6.0]]
    assert batch.next_value[:2, 1].tolist() == [[0.0, 0.0], [60.0, 60.0]]


def test_decisions_must_be_opened_and_closed_in_turn() -> None:
    builder = RolloutBuilder(slots=3, columns=2)
    one = np.ones(2, np.float32)
    with pytest.raises(ValueError, match="have no open decision"):
        builder.earn(one)
    builder.open(0, {"x": one}, {"a": one}, one, one)
    with pytest.raises(ValueError, match="have an open decision"):
        builder.open(0, {"x": one}, {"a": one}, one, one)
    with pytest.raises(ValueError, match=r"columns \[0, 1\] have an open decision"):
        builder.take()


def test_a_cut_without_a_bootstrap_is_an_error() -> None:
    builder = RolloutBuilder(slots=2, columns=2)
    _store(builder, 1, done=np.array([False, True]))
    _store(builder, 2)
    with pytest.raises(ValueError, match=r"slot 0, column 1, unit 0 .* without a next_value"):
        builder.take(last_value=np.zeros(2))
    builder = RolloutBuilder(slots=1, columns=1)
    _store(builder, 1)
    with pytest.raises(ValueError, match="slot 0, column 0"):
        builder.take()


def test_the_last_value_is_not_used_for_an_episode_that_was_cut_at_the_last_slot() -> None:
    """After the automatic reset the column stands in another episode: its value must not be taken."""
    builder = RolloutBuilder(slots=1, columns=1)
    _store(builder, 1, done=True)
    with pytest.raises(ValueError, match="without a next_value"):
        builder.take(last_value=np.array([123.0]))


def test_a_unit_that_vanishes_without_done_has_nothing_to_bootstrap_from() -> None:
    builder = RolloutBuilder(slots=2, columns=1)
    _store(builder, 1)
    _store(builder, 2, alive=np.array([False]))
    with pytest.raises(ValueError, match="slot 0, column 0"):
        builder.take(last_value=np.zeros(1))


def test_recurrent_states_are_kept_at_the_starts_of_chunks() -> None:
    builder = RolloutBuilder(slots=5, columns=2, chunk=2)
    with pytest.raises(ValueError, match="give reset="):
        _store(builder, 0, state={"h": np.zeros((2, 3))})
    for t in range(5):
        _store(builder, t, state={"h": np.full((2, 3), t, np.float32)}, reset=np.array([t == 0, t == 3]))
    batch = builder.take(np.zeros(2))
    assert batch.state["h"][:, 1, 2].tolist() == [0.0, 2.0, 4.0]
    assert batch.reset[:, 1].tolist() == [False, False, False, True, False]


def test_names_and_shapes_stay_those_of_the_first_decision() -> None:
    builder = RolloutBuilder(slots=3, columns=2)
    _store(builder, 1)
    with pytest.raises(ValueError, match=r"mask has the names \['m'\], earlier decisions had \[\]"):
        _store(builder, 2, mask={"m": np.ones((2, 4), bool)})
    builder = RolloutBuilder(slots=3, columns=2)
    _store(builder, 1, mask={"m": np.ones((2, 4), bool)})
    with pytest.raises(ValueError, match=r"mask\['m'\]"):
        _store(builder, 2, mask={"m": np.ones((2, 5), bool)})
    one = np.ones(2, np.float32)
    with pytest.raises(ValueError, match=r"reward \(3,\) must be"):
        RolloutBuilder(1, 2).store(0, {}, {}, one, one, np.ones(3), False, False)


def test_forgetting_reaches_back_to_the_start_of_the_episode_only() -> None:
    builder = RolloutBuilder(slots=4, columns=2)
    _store(builder, 1, terminated=True, done=True)
    _store(builder, 2)
    _store(builder, 3, done=np.array([False, True]), next_value=np.array([np.nan, 0.0]))
    builder.forget(np.array([1]))
    _store(builder, 4)
    batch = builder.take(np.zeros(2))
    assert batch.acts[:, 0, 0].tolist() == [True, True, True, True]
    assert batch.acts[:, 1, 0].tolist() == [True, False, False, True]
