"""A batch checks itself, and batches join side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from echelon.onpolicy.advantage import batch_gae
from echelon.onpolicy.batch import VersionError, concatenate
from tests.onpolicy.batches import random_batch

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"log_prob": np.zeros((4, 3))}, "slots, columns, units"),
        ({"value": np.zeros((4, 3, 1))}, "value .* shape of log_prob"),
        ({"reward": np.zeros((3, 3, 2))}, "reward .* shape of log_prob"),
        ({"span": np.ones((4, 3, 2))}, "span .* must be"),
        ({"valid": np.ones((3, 3), bool)}, "valid .* must be"),
        ({"observation": {"x": np.zeros((4, 2))}}, r"observation\['x'\]"),
        ({"mask": {"x": np.zeros((1, 3))}}, r"mask\['x'\]"),
        ({"extra": {"x": np.zeros((5, 3))}}, r"extra\['x'\]"),
        ({"state": {"h": np.zeros((3, 3, 8))}, "chunk": 2}, r"state\['h'\] .* \(2, 3\)"),
        ({"chunk": 0}, "chunk=0"),
        ({"terminated": np.ones((4, 3, 2), bool), "done": np.zeros((4, 3, 2), bool)}, "terminated without done"),
        ({"span": np.full((4, 3), -1)}, "span -1"),
    ],
)
def test_wrong_shapes_and_values_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        random_batch(**changes)


def test_padding_must_be_at_the_end_of_a_column() -> None:
    valid = np.ones((4, 3), bool)
    valid[1, 2] = False
    with pytest.raises(ValueError, match="valid slots must come first"):
        random_batch(valid=valid)


@pytest.mark.parametrize("name", ["reward", "value", "log_prob", "next_value"])
def test_a_number_that_is_not_finite_is_refused_where_a_unit_acts_and_only_there(name: str) -> None:
    batch = random_batch(terminated=np.zeros((4, 3, 2), bool), done=np.zeros((4, 3, 2), bool))
    numbers = getattr(batch, name).copy()
    numbers[2, 1, 0] = np.nan
    with pytest.raises(ValueError, match=f"{name} is nan at slot 2, column 1, unit 0"):
        replace(batch, **{name: numbers})
    alive = batch.alive.copy()
    alive[2, 1, 0] = False
    replace(batch, **{name: numbers, "alive": alive, "earns": alive})


def test_who_acts_must_earn() -> None:
    earns = np.ones((4, 3, 2), bool)
    earns[0, 0, 0] = False
    with pytest.raises(ValueError, match="alive without earns"):
        random_batch(earns=earns)


def test_next_value_is_not_looked_at_where_terminated() -> None:
    ended = np.ones((4, 3, 2), bool)
    batch = random_batch(next_value=np.full((4, 3, 2), np.nan), terminated=ended, done=ended)
    advantage, target = batch_gae(batch, 0.99, 0.95)
    assert np.isfinite(advantage[batch.acts]).all()
    assert np.isfinite(target[batch.acts]).all()


def test_a_unit_acts_when_alive_in_a_valid_slot() -> None:
    alive, valid = np.ones((2, 1, 2), bool), np.array([[True], [False]])
    alive[0, 0, 1] = False
    batch = random_batch(2, 1, 2, alive=alive, valid=valid)
    assert batch.acts.tolist() == [[[True, False]], [[False, False]]]
    assert batch.decisions == 1


def test_batches_join_side_by_side_and_short_ones_are_padded() -> None:
    state = {"h": np.ones((2, 3, 5), np.float32)}
    long, short = (
        random_batch(4, 3, chunk=2, state=state),
        random_batch(2, 1, seed=1, chunk=2, state={"h": state["h"][:1, :1]}),
    )
    joined = concatenate([long, short])
    assert (joined.slots, joined.columns) == (4, 4)
    np.testing.assert_array_equal(joined.reward[:2, 3], short.reward[:, 0])
    np.testing.assert_array_equal(joined.action["action"][:, :3], long.action["action"])
    assert joined.valid[:, 3].tolist() == [True, True, False, False]
    assert joined.state["h"][:, 3, 0].tolist() == [1.0, 0.0]
    assert joined.decisions == long.decisions + short.decisions


def test_batches_of_two_versions_do_not_join() -> None:
    with pytest.raises(VersionError, match="0 and 7"):
        concatenate([random_batch(), random_batch(version=7)])
