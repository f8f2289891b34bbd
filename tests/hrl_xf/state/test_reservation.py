"""Answers made safe together: by hand, and by laws that hold whatever the day and the wishes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.state.day_batch import day_batch, in_days_ahead
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT, DayState, Issues, Offer, Role
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.reservation import NOTHING, Reservations, Wish
from tests.hrl_xf.state.examples import a_day, commitments, days, deals, ledger_of, reference
from tests.laws import examples

LAYER = L1SafetyLayer()


def book_of(day: DayState, role: Role, signed: list[tuple[Role, Offer]] | None = None) -> Reservations:
    batch = day_batch([day])
    ledger = ledger_of(batch, [signed or []])
    seller = role == "seller"
    return Reservations(LAYER, batch, ledger, seller, batch.sell_issues if seller else batch.buy_issues)


def rejects(*offers: Offer) -> list[Wish]:
    return [Wish(REJECT, offer) for offer in offers]


STOCK = a_day(inventory_input=10)
"""Ten pieces to sell on every day from today (10) on, prices 27 to 33."""


def test_only_an_end_has_no_offer() -> None:
    for op, offer in ((END, (1, 10, 30)), (ACCEPT, None), (REJECT, None)):
        with pytest.raises(ValueError, match="only END"):
            Wish(op, offer)


def test_what_fits_stays_as_it_is() -> None:
    wishes = [*rejects((4, 10, 30), (3, 12, 33)), NOTHING, Wish(ACCEPT, (3, 20, 27))]
    assert book_of(STOCK, "seller").settle(wishes) == wishes


def test_the_first_thread_has_the_first_claim() -> None:
    """Ten pieces a day: 8 wanted, then 5 and 4 of the same day, of which 2 are left; the next day has room for both."""
    settled = book_of(STOCK, "seller").settle(rejects((8, 10, 30), (5, 10, 31), (4, 10, 32)))
    assert settled == rejects((8, 10, 30), (5, 11, 31), (4, 11, 32))


def test_every_day_has_lines_of_its_own() -> None:
    wishes = rejects((10, 10, 30), (10, 11, 31), (10, 20, 32))
    assert book_of(STOCK, "seller").settle(wishes) == wishes


def test_an_offer_for_a_day_without_room_moves_to_the_nearest_open_day() -> None:
    settled = book_of(STOCK, "seller").settle([Wish(ACCEPT, (10, 10, 28)), *rejects((4, 10, 30))])
    assert settled == [Wish(ACCEPT, (10, 10, 28)), *rejects((4, 11, 30))]


def test_a_sale_that_nearly_fits_stays_on_its_day() -> None:
    """Eight of nine pieces on the wanted day are worth 8, nine on the next 7.2; of two and nine it is the other way."""
    for promised, settled in ((2, (8, 15, 30)), (8, (9, 14, 30))):
        book = book_of(STOCK, "seller")
        book.hold([(promised, 15, 30)])
        assert book.settle(rejects((9, 15, 30))) == rejects(settled)


def test_where_only_one_day_is_left_the_first_takes_it() -> None:
    few = a_day(n_steps=11, inventory_input=2, sell_issues=Issues((1, 30), (10, 10), (27, 33)))
    settled = book_of(few, "seller").settle(rejects((2, 10, 30), (2, 10, 30), (2, 10, 30)))
    assert settled == [*rejects((2, 10, 30)), NOTHING, NOTHING]


def test_an_acceptance_is_whole_or_none() -> None:
    """The second acceptance does not fit today; L1's plain offer takes its place: half of the 3 left, at 1.05 of 30."""
    settled = book_of(STOCK, "seller").settle([Wish(ACCEPT, (7, 10, 28)), Wish(ACCEPT, (4, 10, 33))])
    assert settled == [Wish(ACCEPT, (7, 10, 28)), Wish(REJECT, (1, 10, 32))]


def test_where_nothing_is_left_threads_end() -> None:
    last = a_day(n_steps=11, inventory_input=10, sell_issues=Issues((1, 30), (10, 10), (27, 33)))
    settled = book_of(last, "seller").settle(
        [Wish(ACCEPT, (10, 10, 28)), Wish(ACCEPT, (1, 10, 33)), *rejects((1, 10, 30))]
    )
    assert settled == [Wish(ACCEPT, (10, 10, 28)), NOTHING, NOTHING]


def test_what_is_held_is_gone() -> None:
    book = book_of(STOCK, "seller")
    book.hold([(9, 15, 30)])
    assert book.settle(rejects((1, 15, 30), (1, 15, 31))) == rejects((1, 15, 30), (1, 14, 31)), "nine of ten are gone"


def test_a_buyer_spends_money_only_once() -> None:
    """100 free: 3 pieces at 20, then 40 are left, and a piece is left for nobody since it is the last."""
    poor = a_day(balance=1_100.0)
    settled = book_of(poor, "buyer").settle(rejects((3, 11, 20), (3, 12, 20)))
    assert settled == rejects((3, 11, 20), (2, 12, 20))


def test_the_stock_is_filled_only_once() -> None:
    """Ten lines, no stock: a day's work of ten for each day, and ten more in all to fill the stock."""
    settled = book_of(a_day(), "buyer").settle(rejects((16, 11, 20), (16, 12, 20)))
    assert settled == rejects((16, 11, 20), (14, 12, 20)), "six of the first fill the stock, which then lacks four"


def test_a_buyer_without_free_money_takes_what_costs_nothing() -> None:
    """Owing more than it has, it may promise nothing that costs; a price of 0 costs nothing."""
    owing = a_day(balance=0.0, buy_issues=Issues((1, 30), (10, 20), (0, 2)))
    wishes = [*rejects((2, 11, 0)), Wish(ACCEPT, (3, 12, 0))]
    assert book_of(owing, "buyer").settle(wishes) == wishes
    assert book_of(owing, "buyer").settle([Wish(ACCEPT, (3, 12, 1))]) == [NOTHING]


def test_an_illegal_wish_is_made_legal_even_if_limits_allow_it() -> None:
    settled = book_of(STOCK, "seller").settle(rejects((5, 10, 1_000)))
    assert settled == rejects((5, 10, 33))
    settled = book_of(a_day(n_lines=40, inventory_input=90), "seller").settle(rejects((60, 10, 30)))
    assert settled == rejects((30, 10, 30))


def test_deals_of_the_other_side_count_as_l1_counts_them() -> None:
    """Material bought today can be sold on its day; without it there is nothing."""
    wish = rejects((4, 11, 30))
    assert book_of(a_day(), "seller").settle(wish) == [NOTHING]
    assert book_of(a_day(), "seller", [("buyer", (4, 11, 20))]).settle(wish) == wish


@st.composite
def wishes(draw: st.DrawFn, day: DayState, role: Role) -> list[Wish]:
    """Anything: legal, unsafe, illegal; acceptances only of legal offers, as partners make them."""
    bounds = day.sell_issues if role == "seller" else day.buy_issues
    assert bounds is not None
    legal = st.tuples(*(st.integers(*pair) for pair in (bounds.quantity, bounds.time, bounds.price)))
    anything = st.tuples(st.integers(1, 100), st.integers(day.current_step - 3, day.n_steps + 20), st.integers(-5, 200))
    one = (
        st.builds(Wish, st.just(ACCEPT), legal) | st.builds(Wish, st.just(REJECT), legal | anything) | st.just(NOTHING)
    )
    return draw(st.lists(one, max_size=7))


def check_together(day: DayState, role: Role, signed: list[tuple[Role, Offer]], offers: list[Offer]) -> None:
    """If all of them become deals, no room of their days is overdrawn, and a buyer has paid from free money only.

    The last day's purchases are left out: what stays of earlier ones may make them useless, never unsafe.
    """
    buy, sell, _ = reference(day, [*signed, *((role, offer) for offer in offers)])
    _, _, money = reference(day, signed)
    room = sell if role == "seller" else buy
    assert all(room[t - day.current_step] >= 0 for _, t, _ in offers if role == "seller" or t < day.n_steps - 1)
    assert role == "seller" or sum(q * p for q, _, p in offers) <= max(money, 0.0)


@examples(200)
@given(st.data(), st.sampled_from(["buyer", "seller"]))
def test_all_answers_together_are_legal_and_within_the_limits(data: st.DataObject, role: Role) -> None:
    day = data.draw(days(healthy=data.draw(st.booleans())))
    bounds = day.sell_issues if role == "seller" else day.buy_issues
    if bounds is None:
        return
    signed = data.draw(deals(day))
    wanted = data.draw(wishes(day, role))
    held: list[Offer] = []
    for offer in data.draw(
        st.lists(st.tuples(st.integers(1, 9), st.just(bounds.time[1]), st.integers(*bounds.price)), max_size=2)
    ):
        book = book_of(day, role, signed)
        book.hold(held)
        if LAYER.allows(book.view(), in_days_ahead([offer], day.current_step))[0]:
            held.append(offer)  # promised before, and safe then
    book = book_of(day, role, signed)
    book.hold(held)
    settled = book.settle(wanted)
    assert len(settled) == len(wanted)
    for wish, answer in zip(wanted, settled, strict=True):
        assert answer.op == wish.op or wish.op != END
        assert answer.op != ACCEPT or answer == wish, "only what lies on the table can be accepted"
        if answer.offer is not None:
            q, t, p = answer.offer
            assert bounds.quantity[0] <= q <= bounds.quantity[1]
            assert bounds.time[0] <= t <= bounds.time[1]
            assert bounds.price[0] <= p <= bounds.price[1]
    check_together(day, role, signed, [*held, *(a.offer for a in settled if a.offer is not None)])


@examples(100)
@given(st.data())
def test_sales_that_fit_together_fit_one_by_one(data: st.DataObject) -> None:
    """A call that is answered as a whole is answered as if its threads had come one after the other."""
    day = data.draw(days(healthy=True))
    wanted = [w for w in data.draw(wishes(day, "seller")) if w.op != END]
    if book_of(day, "seller").settle(wanted) == wanted:
        book = book_of(day, "seller")
        for wish in wanted:
            assert book.settle([wish]) == [wish]


def test_where_the_day_is_unsafe_at_dawn_nothing_is_promised() -> None:
    """More is sold than can be made, on every day: no wish passes, and no error."""
    late = a_day(inventory_input=5, commitments=commitments([0], [50] * 11))
    assert book_of(late, "seller").settle([*rejects((1, 10, 30)), Wish(ACCEPT, (1, 20, 33))]) == [NOTHING, NOTHING]
