"""Rewards, returns and advantages of days: by hand, and the sums of real logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from echelon.hrl_xf.dataset.datasets import micro_of
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.learning.advantages import Advantages, Outcomes, outcomes_of
from echelon.hrl_xf.learning.day_returns import by_log, day_advantages, day_rewards, returns_to_go, values_of
from echelon.hrl_xf.networks.day_critic import DayCritic
from echelon.hrl_xf.state.schema import DayClosedEntry
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, data_of, log_of


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> TournamentData:
    """A log of 10 days and one of 50."""
    return data_of(tmp_path_factory.mktemp("two"), [log_of(PENGUIN_FIRST), log_of(PENGUIN_MIDDLE)])


def test_rewards_sum_to_the_score_less_one(two: TournamentData) -> None:
    cells, there = by_log(two)
    assert there.sum(axis=0).tolist() == [10, 50]
    total = np.where(there, day_rewards(two)[cells], 0.0).sum(axis=0)
    for column, path in enumerate((PENGUIN_FIRST, PENGUIN_MIDDLE)):
        log = log_of(path)
        last = [entry.data for entry in log.entries if isinstance(entry, DayClosedEntry)][-1]
        start = two.tables.store.take("log.initial_balance", two.tables.store.take("day.log", cells[:1, column]))[0]
        assert total[column] == pytest.approx(last.balance / start - 1.0, abs=1e-6)
    assert returns_to_go(two)[cells[0]] == pytest.approx(total)
    assert returns_to_go(two)[cells[9, 0]] == pytest.approx(day_rewards(two)[cells[9, 0]])


def test_advantages_of_a_day_by_hand(two: TournamentData) -> None:
    """δ_t = r_t + V_{t+1} − V_t, nothing after the last day, and no log sees the other."""
    values = np.random.default_rng(0).normal(size=two.tables.store.rows("day"))
    reward, (cells, there) = day_rewards(two), by_log(two)
    found = {lam: day_advantages(two, values, lam) for lam in (0.0, 0.5, 1.0)}
    for column in range(2):
        rows = cells[there[:, column], column]
        after = np.append(values[rows[1:]], 0.0)
        delta = reward[rows] + after - values[rows]
        assert found[0.0][rows] == pytest.approx(delta)
        assert found[1.0][rows] == pytest.approx(returns_to_go(two)[rows] - values[rows])
        assert found[0.5][rows[-3]] == pytest.approx(delta[-3] + 0.5 * delta[-2] + 0.25 * delta[-1])
    exact = day_advantages(two, returns_to_go(two), 0.95)
    np.testing.assert_allclose(exact[cells[there]], 0.0, atol=1e-9)


def test_a_day_without_a_closing_is_an_error_that_names_it(tmp_path: Path) -> None:
    log = log_of(PENGUIN_FIRST)
    kept = [e for e in log.entries if not (isinstance(e, DayClosedEntry) and e.day == 4)]
    data = data_of(tmp_path, [msgspec.structs.replace(log, entries=kept)])
    with pytest.raises(ValueError, match=r"agent_.*: day 4 was not closed.*collect it again"):
        returns_to_go(data)


def test_a_critic_of_another_horizon_is_refused(two: TournamentData) -> None:
    with pytest.raises(ValueError, match="the critic has horizon 12, the data 40"):
        values_of(two, DayCritic(horizon=12))


def test_a_days_decisions_share_its_advantage(two: TournamentData) -> None:
    critic, micro = DayCritic(), micro_of(two)
    found = outcomes_of(micro, critic, 0.9)
    take = two.tables.store.take
    wanted = day_advantages(two, values_of(two, critic), 0.9)[take("thread.day", micro.thread)]
    assert np.array_equal(found.day, wanted)
    deal = take("thread.deal", micro.thread)
    assert np.array_equal(found.dealt, (deal[:, 0] > 0) & (deal[:, 1] == 0))
    assert found.dealt.any()
    assert (found.deal[~found.dealt] == 0).all()
    assert set(found.level[micro.log == 0]) == {0}
    assert set(found.level[micro.log == 1]) <= {1, 2}
    for thread in np.unique(micro.thread):
        assert len(np.unique(found.deal[micro.thread == thread])) == 1


def outcomes(*rows: tuple[float, float, bool, bool], level: int = 1) -> Outcomes:
    day, deal, dealt, seller = (np.array(column) for column in zip(*rows, strict=True))
    return Outcomes(
        day.astype(np.float64), deal.astype(np.float64), dealt.astype(np.bool_), seller.astype(np.bool_),
        np.full(len(rows), level),
    )  # fmt: skip


def test_weights_by_hand() -> None:
    found = outcomes(
        (0.0, -0.4, True, False), (0.0, -0.2, True, False),  # two purchases: worse and better than their mean of -0.3
        (0.2, 0.6, True, True), (-0.2, 0.0, False, True), (0.0, 0.0, False, False),
    )  # fmt: skip
    fitted = Advantages.fit(found, beta=0.5, max_weight=20.0)
    assert fitted.deal_mean == pytest.approx([-0.3, 0.6])
    wanted = np.array([-0.1, 0.1, 0.2, -0.2, 0.0])
    assert fitted.advantage(found) == pytest.approx(wanted)
    assert fitted.std == pytest.approx([1.0, wanted.std(), 1.0])
    assert fitted.weights(found) == pytest.approx(np.exp(wanted / (0.5 * wanted.std())))
    assert fitted.weights(outcomes((100.0, 0.0, False, True))) == pytest.approx(20.0)
    twice = Advantages.fit(replace_scale(found, 2.0), 0.5, 20.0)
    assert twice.weights(replace_scale(found, 2.0)) == pytest.approx(fitted.weights(found)), "β is in deviations"


def replace_scale(found: Outcomes, factor: float) -> Outcomes:
    return replace(found, day=found.day * factor, deal=found.deal * factor)


def test_levels_are_weighed_each_by_its_own_luck() -> None:
    found = Outcomes(
        np.array([-1.0, 1.0, -0.1, 0.1]),
        np.zeros(4),
        np.zeros(4, np.bool_),
        np.zeros(4, np.bool_),
        np.array([0, 0, 2, 2]),
    )
    weights = Advantages.fit(found).weights(found)
    assert weights == pytest.approx(np.exp([-1, 1, -1, 1]))


def test_trading_as_such_is_neither_rewarded_nor_punished() -> None:
    """With equal days, the decisions of same-day deals have the mean advantage of all others, in both roles."""
    rng = np.random.default_rng(1)
    found = outcomes(
        *((0.0, x, True, i % 2 == 0) for i, x in enumerate(rng.normal(0.3, 0.1, 40))), (0.0, 0.0, False, True)
    )
    advantage = Advantages.fit(found).advantage(found)
    for seller in (False, True):
        assert advantage[found.dealt & (found.seller == seller)].mean() == pytest.approx(0.0, abs=1e-12)
    assert advantage[-1] == 0


def test_senseless_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="beta=0"):
        Advantages(np.zeros(2), np.ones(3), 0, 20)
