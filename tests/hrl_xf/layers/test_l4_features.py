"""The teacher's worked example, features by hand, and the laws of sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.layers.l4_features import (
    ThreadStates,
    global_features,
    teacher_alphas,
    thread_features,
    thread_priority,
)
from tests.hrl_xf.layers.examples import teacher_alpha

pytestmark = pytest.mark.numeric


def test_the_teachers_worked_example() -> None:
    alpha = teacher_alpha(np.array([0, 1, 3, 10]), np.ones(4))
    assert alpha == pytest.approx([0.5275, 0.2453, 0.1413, 0.0860], abs=5e-5)


def test_a_lone_thread_gets_everything_and_priority_shifts_weight() -> None:
    assert teacher_alpha(np.array([7]), np.array([0.1])) == pytest.approx([1.0])
    assert teacher_alpha(np.array([2, 2]), np.array([3.0, 1.0])) == pytest.approx([0.75, 0.25])


sets = st.lists(
    st.lists(st.tuples(st.integers(0, 40), st.floats(0.1, 3.0)), min_size=1, max_size=7), min_size=1, max_size=9
)


@given(sets)
def test_many_sets_at_once_are_each_set_alone(threads: list[list[tuple[int, float]]]) -> None:
    flat = [thread for group in threads for thread in group]
    sizes = np.array([len(group) for group in threads])
    days, priority = np.array([d for d, _ in flat]), np.array([p for _, p in flat])
    together = teacher_alphas(days, priority, np.cumsum(sizes) - sizes)
    alone = [teacher_alpha(np.array([d for d, _ in g]), np.array([p for _, p in g])) for g in threads]
    assert together == pytest.approx(np.concatenate(alone), rel=1e-12)
    assert np.add.reduceat(together, np.cumsum(sizes) - sizes) == pytest.approx(np.ones(len(threads)))


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0.1, 3.0)), min_size=6, max_size=6), st.permutations(range(6)))
def test_the_order_of_threads_does_not_matter(threads: list[tuple[int, float]], permutation: list[int]) -> None:
    days, priority = np.array([d for d, _ in threads]), np.array([p for _, p in threads])
    order = np.array(permutation)
    assert teacher_alpha(days[order], priority[order]) == pytest.approx(teacher_alpha(days, priority)[order])


def test_priority_by_hand() -> None:
    # 1 + .5/(1+1) + .5·.4 + .5·.2 + .5/(1+5·.2) = 1 + .25 + .2 + .1 + .25
    found = thread_priority(np.array([1]), np.array([0.4]), np.array([0.2]), np.array([-0.2]))
    assert found == pytest.approx([1.8])
    assert thread_priority(np.array([0]), np.array([9.0]), np.array([1.0]), np.array([0.0])) == pytest.approx([3.0])


def threads_of(spoken: bool) -> ThreadStates:
    """One selling thread: the last offer 8 pieces at 30 in 4 days; the baseline 2 pieces at 21 in 1 day."""
    X = np.zeros((1, 41, 10), np.float32)
    X[0, 4], X[0, 1] = np.arange(10) / 10, 0.5
    goal = np.arange(16.0)[None]  # bucket 1 (3–7 days): Q_buy 4, P_buy 5, Q_sell 6, P_sell 7
    safe, is_open = np.full((1, 41), 12.0), np.zeros((1, 41), np.bool_)
    is_open[0, 4] = True
    return ThreadStates(
        seller=np.array([True]), last=np.array([[8.0, 4.0, 30.0]]), spoken=np.array([spoken]),
        baseline=np.array([[2.0, 1.0, 21.0]]), safe=safe, mask_open=is_open, round=np.array([5.0]),
        relative_time=np.array([0.3]), goal=goal, X_temporal=X, I_max=np.array([500.0]),
    )  # fmt: skip


def test_features_of_a_thread_with_an_offer_by_hand() -> None:
    gap = (30 - 7) / 50
    priority = 1 + 0.5 / 5 + 0.5 * 0.8 + 0.5 * 0.3 + 0.5 / (1 + 5 * gap)  # the seller's pressure is channel 8
    expected = [
        priority, 4 / 40, 1, 12 / 500, 2 / 500, 21 / 50, 4 / 500, 6 / 500, 5 / 50, 7 / 50, 5 / 20, 0.3, gap,
        (8 - 6) / 500, *np.arange(10) / 10,
    ]  # fmt: skip
    assert thread_features(threads_of(spoken=True))[0] == pytest.approx(expected, rel=1e-6)


def test_a_silent_thread_is_described_by_its_baseline() -> None:
    found = thread_features(threads_of(spoken=False))[0]
    assert found[1] == pytest.approx(1 / 40)
    assert found[2] == 0  # that day is closed
    assert found[12] == pytest.approx((21 - 3) / 50)  # bucket 0: P_sell 3
    assert found[13] == pytest.approx((2 - 2) / 500)  # bucket 0: Q_sell 2
    assert found[14:] == pytest.approx(np.full(10, 0.5))


def test_global_features_by_hand() -> None:
    found = global_features(
        np.arange(16.0)[None], np.full((1, 12), 0.25, np.float32), np.array([3]), np.array([4]), np.array([500.0])
    )
    goal = [value / (500 if i % 2 == 0 else 50) for i, value in enumerate(range(16))]
    assert found[0] == pytest.approx([*goal, *[0.25] * 12, 0.3, 0.4], rel=1e-6)
