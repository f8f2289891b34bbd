"""The terms of L3's habits, computed by hand; numpy against torch is in test_l3_play."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from echelon.hrl_xf.layers.l3_habits import (
    KINDS,
    LARGE,
    TERMS,
    HabitInputs,
    answer_terms,
    day_terms,
    kinds_of,
    price_terms,
    quantity_terms,
)
from echelon.hrl_xf.networks.l3_executor import load_l3
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.weights import CLONED, layer_in
from tests.hrl_xf.layers.examples import played
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE

DAYS = np.arange(3, dtype=np.float32)


def inputs(term: str, *, seller: bool = True, time: float = 0.25, asked: int = 8) -> HabitInputs:
    """One thread with weight 1 on one term: 4 pieces in 2 days at 13 of 10..20 on the table; day 1 has most room.

    The goal wants 6 more pieces, 2 of them from this thread; others offer 3 at better prices.
    """
    weight = np.zeros((1, len(TERMS)), np.float32)
    weight[0, TERMS.index(term)] = 1.0
    return HabitInputs(
        weight, np.array([seller], np.float32), np.array([time], np.float32), np.array([asked], np.float32),
        np.array([[4, 2, 13]], np.float32), np.array([[10]], np.float32), np.array([[20]], np.float32),
        np.array([[2, 10, 0]], np.float32),
        np.array([[1]], np.float32), np.array([[9]], np.float32),
        np.array([6], np.float32), np.array([2], np.float32), np.array([3], np.float32),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("term", "seller", "accept"),
    [
        ("accept", True, 1.0),
        ("accept_early", True, 0.75),
        ("accept_good_price", True, 0.3),
        ("accept_good_price", False, 0.7),
        ("accept_far", True, -2 / 3),
        ("accept_much", True, 0.4),
        ("day_room", True, 0.0),
    ],
)
def test_accepting(term: str, seller: bool, accept: float) -> None:
    found = answer_terms(np, inputs(term, seller=seller), DAYS)
    assert found[0].tolist() == pytest.approx([accept, 0.0, 0.0])


def test_patience_waits_for_a_share_of_what_fits_that_falls_with_time() -> None:
    """Of the 8 pieces 6.4 fit, a day later; a patience of 8 wants all of it at first, 4.8 of it at a time of .25."""
    x = inputs("patience")
    cases = ((8, 0.25, True), (6.8, 0.25, True), (6.6, 0.25, False), (8, 0.4, False), (-9, 0.0, False))
    for weight, time, waits in cases:
        now = x._replace(weight=weight * x.weight, time=np.array([time], np.float32))
        assert answer_terms(np, now, DAYS)[0].tolist() == ([-50.0, 0.0, -50.0] if waits else [0.0, 0.0, 0.0])
    now = x._replace(weight=9 * x.weight, most=0 * x.most)
    assert not answer_terms(np, now, DAYS).any(), "no offer can be made"
    assert not answer_terms(np, x._replace(weight=9 * x.weight, seen=0 * x.seen), DAYS).any(), "nothing is on the table"


def test_ending_counts_where_an_offer_could_be_made() -> None:
    x = inputs("end")
    assert answer_terms(np, x, DAYS)[0].tolist() == [0.0, 0.0, -1.0]
    assert answer_terms(np, x._replace(most=0 * x.most), DAYS)[0].tolist() == [0.0, 0.0, 0.0]


def test_what_is_within_the_goal() -> None:
    """3 better pieces and these 4 are more than the 6 that are wanted; with 2 better ones they are just enough."""
    x = inputs("accept_in_goal", seller=False)
    assert answer_terms(np, x, DAYS)[0].tolist() == [-1.0, 0.0, 0.0]
    assert answer_terms(np, x._replace(better=x.better - 1), DAYS)[0].tolist() == [1.0, 0.0, 0.0]
    x = inputs("end_without_goal", seller=False)
    assert answer_terms(np, x, DAYS)[0].tolist() == [0.0, 0.0, 0.0]
    assert answer_terms(np, x._replace(need=0 * x.need), DAYS)[0].tolist() == [0.0, 0.0, 1.0]


def test_days_quantities_and_prices() -> None:
    assert day_terms(np, inputs("day_room"), DAYS)[0].tolist() == pytest.approx([3 * 2 / 8, 3 * 0.8, 0.0])
    assert day_terms(np, inputs("day_far"), DAYS)[0].tolist() == pytest.approx([0.0, -0.2, -0.4])
    places = np.array([0, 7, 15], np.float32)  # 1, 8 and 16 pieces; prices 9, 16 and 24
    two, eight = math.log(2), math.log(8)
    assert quantity_terms(np, inputs("quantity_asked"), places)[0].tolist() == pytest.approx([-eight, 0.0, -two])
    assert quantity_terms(np, inputs("quantity_much"), places)[0].tolist() == pytest.approx([-eight, 0.0, two])
    assert quantity_terms(np, inputs("quantity_unknown"), places)[0].tolist() == [0.0, 0.0, 0.0]
    unknown = quantity_terms(np, inputs("quantity_unknown", asked=0), places)[0]
    assert unknown.tolist() == pytest.approx([-math.log(5), -math.log(8 / 5), -math.log(16 / 5)])
    share = quantity_terms(np, inputs("quantity_share"), places)[0]
    assert share.tolist() == pytest.approx([-two, -math.log(4), -eight])
    assert price_terms(np, inputs("price_high"), places)[0].tolist() == pytest.approx([0.0, 1.2, 2.0])
    assert price_terms(np, inputs("price_late"), places)[0].tolist() == pytest.approx([0.0, 0.6, 1.0])
    falling = price_terms(np, inputs("price_falling", time=0.45), places)[0]
    assert falling.tolist() == pytest.approx([-1.0, -0.2, -1.0])  # half of the way is where it should be


def test_kinds_of_threads_and_a_layer_with_new_habits_plays_as_before() -> None:
    layer = load_l3(layer_in(CLONED, "l3"))
    habitual = layer.with_habits()
    assert habitual.habits is not None
    assert habitual.with_habits() is habitual
    for path, kinds in ((PENGUIN_FIRST, [4]), (PENGUIN_MIDDLE, [0, 6])):
        s = played(path, L1SafetyLayer()).situation
        assert (s.asked == 0).all(), "logs do not tell"
        assert set(kinds_of(s).tolist()) == set(kinds)
        large, small = (kinds_of(replace(s, asked=s.asked + pieces)) for pieces in (LARGE, LARGE - 1))
        assert (large == kinds_of(s) + 1).all()
        assert (small == kinds_of(s)).all()
        state = np.zeros((len(s), layer.width), np.float32)
        before, after = layer.act(state, s), habitual.act(state, s)
        assert np.array_equal(before.offer, after.offer)
        assert np.array_equal(before.op, after.op)
        with torch.no_grad():
            habitual.habits[kinds, TERMS.index("end")] = -50.0
        assert (habitual.act(state, s).op == 2).all(), "whoever ends by habit"
        with torch.no_grad():
            habitual.habits.zero_()
    assert len(KINDS) == 8
    last = replace(s, both_sides=~s.both_sides)
    assert set(kinds_of(last).tolist()) == {2, 4}, "a last level's buyer, a first level's seller"
