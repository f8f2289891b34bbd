"""Sets of threads: the teacher's α, padding, and the day's own numbers in the features."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.hrl_xf.dataset.datasets import L4Dataset, l4_of, macro_of
from echelon.hrl_xf.dataset.goal_backfill import with_goals
from echelon.hrl_xf.state.schema import DecisionEntry
from tests.hrl_xf.layers.examples import teacher_alpha
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, data_of, log_of
from tests.hrl_xf.state.examples import same_bits

pytestmark = pytest.mark.numeric

PATHS = (PENGUIN_FIRST, PENGUIN_MIDDLE)


@pytest.fixture(scope="module")
def l4(tmp_path_factory: pytest.TempPathFactory) -> L4Dataset:
    data = data_of(tmp_path_factory.mktemp("data"), [log_of(path) for path in PATHS])
    data = with_goals(data, "v2")
    return l4_of(data)


def test_alphas_are_the_teachers(l4: L4Dataset) -> None:
    for i in range(0, len(l4), 37):
        row = l4[i]
        assert row.alpha == pytest.approx(teacher_alpha(row.days, row.thread_feat[:, 0].astype(np.float64)), rel=1e-5)
        assert row.global_feat[28:] * 10 == pytest.approx(row.role.sum(axis=0))


def test_sets_are_the_calls_that_answered_two_threads_or_more(l4: L4Dataset) -> None:
    sizes = []
    for path in PATHS:
        calls: dict[tuple[int, int], int] = {}
        for e in log_of(path).entries:
            if isinstance(e, DecisionEntry) and e.data.asked != "framework":
                calls[e.day, e.data.call] = calls.get((e.day, e.data.call), 0) + 1
        sizes += [n for n in calls.values() if n >= 2]
    assert sorted(l4.batch(np.arange(len(l4))).mask.sum(axis=1).tolist()) == sorted(sizes)


def test_a_set_does_not_depend_on_the_other_sets(l4: L4Dataset) -> None:
    batch = l4.batch(np.arange(30))
    for i in (0, 7, 29):
        row = l4[i]
        k = len(row.days)
        assert same_bits(row.thread_feat, batch.thread_feat[i, :k])
        assert same_bits(row.global_feat, batch.global_feat[i])
        assert row.alpha == pytest.approx(batch.alpha[i, :k])
        assert not batch.mask[i, k:].any()
        assert not batch.alpha[i, k:].any()
    assert l4.batch(np.array([], np.int64)).global_feat.shape == (0, 30)


def test_features_hold_the_days_own_numbers(l4: L4Dataset) -> None:
    """x_static, the temporal channels at d*, and the scaled goal are those of the macro sample of the day."""
    macro = macro_of(l4.data)
    days = macro.batch(np.arange(len(macro)))
    take = l4.data.tables.store.take
    sets = np.arange(0, len(l4), 11)
    batch = l4.batch(sets)
    decision = take("member.decision", take("set.first_member", l4.rows[sets]))
    day_rows = take("thread.day", take("decision.thread", decision))
    for i, row in enumerate(day_rows):
        at = int(np.flatnonzero(macro.rows == row)[0])
        assert same_bits(batch.global_feat[i, 16:28], days.x_static[at])
        assert batch.global_feat[i, 1:16:2] * 50 == pytest.approx(days.goal[at, 1::2], rel=1e-5)
        for k in np.flatnonzero(batch.mask[i]):
            assert same_bits(batch.thread_feat[i, k, 14:], days.X_temporal[at, batch.days[i, k]])
