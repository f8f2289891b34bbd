"""Days as arrays, and the ledger of what is signed."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.state.day_batch import DayBatch, Ledger, Offers, day_batch
from echelon.hrl_xf.state.day_state import DayState, Offer, Role
from tests.hrl_xf.state.examples import BUSY, days, deals, ledger_of, same_bits
from tests.laws import examples

DEALS: list[tuple[Role, Offer]] = [("buyer", (5, 12, 20)), ("seller", (3, 10, 30)), ("buyer", (2, 12, 21))]


def assert_same_batch(a: DayBatch, b: DayBatch) -> None:
    for f in fields(DayBatch)[:-1]:
        assert same_bits(getattr(a, f.name), getattr(b, f.name)), f.name
    for f in fields(Offers):
        assert same_bits(getattr(a.offers, f.name), getattr(b.offers, f.name)), f.name


@examples(30)
@given(st.lists(days(), min_size=1, max_size=3), st.lists(st.integers(0, 2), max_size=5))
def test_days_may_be_taken_in_any_order_and_repeated(some: list[DayState], rows: list[int]) -> None:
    rows = [row % len(some) for row in rows]
    taken = day_batch(some).take(np.array(rows, np.int64))
    assert_same_batch(taken, day_batch([some[row] for row in rows]))


def test_a_ledger_holds_quantities_and_money_by_days_ahead() -> None:
    ledger = ledger_of(day_batch([BUSY]), [DEALS])
    assert ledger.q_in[0, :4].tolist() == [0, 0, 7, 0]
    assert ledger.payables[0, :4].tolist() == [0, 0, 142, 0]
    assert ledger.q_out[0, :4].tolist() == [3, 0, 0, 0]
    assert ledger.receivables[0, :4].tolist() == [90, 0, 0, 0]
    assert ledger.q_in.shape == (1, 41)


def assert_same_ledger(a: Ledger, b: Ledger) -> None:
    for f in fields(Ledger):
        np.testing.assert_array_equal(getattr(a, f.name), getattr(b, f.name), err_msg=f.name)


@examples(50)
@given(st.data())
def test_a_ledger_after_n_deals_is_the_ledger_of_those_deals(data: st.DataObject) -> None:
    some = data.draw(st.lists(days(), min_size=1, max_size=3))
    signed = [data.draw(deals(day)) for day in some]
    batch = day_batch(some)
    ledgers, first = Ledger.after_each_deal(batch, signed)
    for i, of_day in enumerate(signed):
        alone = day_batch([some[i]])
        step_by_step = Ledger.empty(alone)
        for n in range(len(of_day) + 1):
            row = ledgers.take(np.array([first[i] + n]))
            assert_same_ledger(row, step_by_step)
            assert_same_ledger(row, ledger_of(alone, [of_day[:n]]))
            if n < len(of_day):
                step_by_step = step_by_step.with_deal(0, *of_day[n])


def test_deals_outside_the_horizon_are_refused() -> None:
    batch = day_batch([BUSY])
    with pytest.raises(ValueError, match=r"not within 0\.\.40"):
        Ledger.empty(batch).with_deal(0, "buyer", (1, 9, 20))
    with pytest.raises(ValueError, match=r"not within 0\.\.40"):
        ledger_of(batch, [[("seller", (1, 51, 20))]])
    with pytest.raises(ValueError, match="deals of 2 days"):
        ledger_of(batch, [[], []])
