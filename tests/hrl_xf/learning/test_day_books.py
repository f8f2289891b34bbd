"""The books of a day: by hand, and the simulator's own profit on every day of real logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.dataset.tournament import TournamentData, open_tournament
from echelon.hrl_xf.learning.day_books import Books, books_of, deal_differences, deliveries_of
from echelon.hrl_xf.state.schema import AgentLog, DayClosedEntry
from echelon.runtime.arrays import Floats, Ints
from tests.hrl_xf.log_examples import LOGS, log_of

Side = list[tuple[float, float]]


def books(buys: Side, sales: Side, *, balance: float = 1000.0, lines: float = 10.0) -> Books:
    """One day: pieces cost 2 to make, 5 when short, 1 when left over; contracts are (quantity, price)."""
    (q_in, p_in), (q_out, p_out) = (
        np.array(side, np.float64).reshape(-1, 2).T[:, None] for side in (buys or [(0, 0)], sales or [(0, 0)])
    )
    money, n, cost, penalty, storage = (np.array([x], np.float64) for x in (balance, lines, 2.0, 5.0, 1.0))
    return Books(money, n, cost, penalty, storage, q_in, p_in, q_out, p_out)


@pytest.mark.parametrize(
    ("buys", "sales", "profit"),
    [
        ([], [], 0.0),
        ([(6, 10)], [(6, 20)], 6 * 20 - 6 * 10 - 6 * 2),
        ([(6, 10)], [], -60 - 6),  # nothing sold: nothing made, all of it stored
        ([(4, 0)], [(4, 20)], 80 - 8),  # from stock
        ([(8, 10)], [(5, 20)], 100 - 80 - 10 - 3),
        ([(3, 10)], [(5, 20)], 60 - 30 - 6 - 2 * 5),  # two short: not paid for, and a penalty each
        ([(12, 10)], [(12, 20)], 200 - 120 - 20 - 2 * 5 - 2),  # ten lines
        ([(3, 10)], [(2, 20), (2, 30)], 60 + 20 - 30 - 6 - 5),  # the best-paid pieces are delivered first
    ],
)
def test_profit_by_hand(buys: Side, sales: Side, profit: float) -> None:
    assert books(buys, sales).profit()[0] == pytest.approx(profit)


def test_who_cannot_pay_processes_what_he_can_pay_and_owes_the_rest() -> None:
    # 40 of money: four at 5 (20 and 8 to make); then floor(20 / (10 + 2)) = 1 of those at 10
    assert books([(3, 10), (4, 5)], [(7, 20)], balance=40).profit()[0] == pytest.approx(5 * 20 - 50 - 10 - 2 * 5 - 2)
    assert books([(4, 5)], [(4, 20)], balance=-1).profit()[0] == pytest.approx(-20 - 4 * 5 - 4)


def test_what_a_deal_changed_by_hand() -> None:
    day = books([(5, 0), (3, 10)], [(4, 20), (2, 30)])  # stock of five, a purchase, two sales: 6 made, 2 left
    several = day.take(np.zeros(3, np.int64))
    found = several.differences(np.array([False, True, True]), np.array([1, 0, 1]))
    # without the purchase five are made: one less at 20 and its cost, one short, nothing left, no purchase to pay
    assert found[0] == pytest.approx((80 + 60 - 30 - 12 - 2) - (60 + 60 - 10 - 5))
    assert found[1] == pytest.approx(4 * (20 - 2 + 1))  # a sale saves the storage of what it uses
    assert found[2] == pytest.approx(2 * (30 - 2 + 1))
    full = books([(10, 0)], [(10, 20), (3, 15)])
    assert full.differences(np.array([True]), np.array([1]))[0] == pytest.approx(-3 * 5)  # beyond the lines: penalties


def test_a_purchase_for_stock_costs_its_day_price_and_storage() -> None:
    assert books([(0, 0), (4, 10)], []).differences(np.array([False]), np.array([1]))[0] == pytest.approx(-40 - 4)


# Where money is short the game pays equal prices in the order of signing, so prices differ here.
_side = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 40)), max_size=4, unique_by=lambda deal: deal[1])


@given(_side, _side, st.integers(1, 12), st.integers(0, 600))
def test_padding_and_order_change_nothing(buys: Side, sales: Side, lines: int, balance: int) -> None:
    one = books(buys, sales, lines=lines, balance=balance)
    zeros = np.zeros((1, 2))
    padded = replace(
        one,
        buy_quantity=np.hstack([zeros, one.buy_quantity[:, ::-1]]),
        buy_price=np.hstack([zeros, one.buy_price[:, ::-1]]),
        sell_quantity=np.hstack([one.sell_quantity, zeros]),
        sell_price=np.hstack([one.sell_price, zeros]),
    )
    assert padded.profit()[0] == pytest.approx(one.profit()[0])


@pytest.fixture(scope="module")
def everyone(cache: Path) -> TournamentData:
    return open_tournament(LOGS, "all", 1, cache_dir=cache, quiet=True)


def closed_of(data: TournamentData) -> tuple[Floats, Ints]:
    """What each day's closing says: profit, and pieces received and delivered by contract."""
    entries = [entry for log in _logs(data) for entry in log.entries if isinstance(entry, DayClosedEntry)]
    executed = [(entry.data.executed_input, entry.data.executed_output) for entry in entries]
    return np.array([entry.data.profit for entry in entries]), np.array(executed)


def _logs(data: TournamentData) -> list[AgentLog]:
    return [log_of(LOGS / record.file.path) for record in data.records]


def test_the_simulators_profit_on_every_day_of_real_logs(everyone: TournamentData) -> None:
    """Days of shortfalls and of stock left over among them. Where a partner's bankruptcy made contracts void, fewer
    pieces were delivered than were due; only there may the books differ."""
    days = everyone.rows("day")
    due = deliveries_of(everyone, days)
    found = books_of(everyone, days, due)
    profit, executed = closed_of(everyone)
    stock = everyone.tables.days(days, offers=False).inventory_input
    as_signed = (found.buy_quantity.sum(axis=1) - stock == executed[:, 0]) & (
        found.sell_quantity.sum(axis=1) == executed[:, 1]
    )
    assert (~as_signed).sum() == 2
    np.testing.assert_allclose(found.profit()[as_signed], profit[as_signed], rtol=1e-6, atol=1e-3)
    outcome = everyone.tables.store.take("day.outcome", days)
    assert (outcome[:, 1] > 0).sum() > 10, "there are shortfalls in it"
    assert (outcome[:, 2] > 0).sum() > 100, "and storage"


def test_a_deal_is_credited_to_its_own_thread(everyone: TournamentData) -> None:
    take, threads = everyone.tables.store.take, everyone.rows("thread")
    deal, worth = take("thread.deal", threads), deal_differences(everyone)[threads]
    same_day = (deal[:, 0] > 0) & (deal[:, 1] == 0)
    assert same_day.sum() > 50
    assert (worth[~same_day] == 0).all()
    assert (worth[same_day] != 0).all()
    sold = worth[same_day & (take("thread.seller", threads) == 1)]
    assert (sold > 0).mean() > 0.8, "a sale that can be delivered earns money"
    assert (sold < 0).any(), "one that cannot costs money"
