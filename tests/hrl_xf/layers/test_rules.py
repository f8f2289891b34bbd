"""What the constants of the rules mean, on the situations of recorded worlds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from echelon.hrl_xf.layers.l3_situation import P_SIZE, Q_SIZE, legal_arrays
from echelon.hrl_xf.layers.rules import HeuristicExecutor, HeuristicManager, RuleConstants
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.day_state import ACCEPT, REJECT
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.schema import DailyStatusEntry
from tests.hrl_xf.layers.examples import Played, played
from tests.hrl_xf.log_examples import PENGUIN_MIDDLE, RANDOM, log_of

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module", params=[PENGUIN_MIDDLE, RANDOM], ids=["middle", "random"])
def world(request: pytest.FixtureRequest) -> Played:
    return played(request.param, L1SafetyLayer())


def test_a_strict_buyer_accepts_only_what_is_as_good_as_its_own_bid(world: Played) -> None:
    s = world.situation
    low, high = s.issues[:, 4], s.issues[:, 5]
    bid = np.floor(s.relative_time * (high - low) + low + 1e-9)
    as_good = s.seller | (s.seen[:, 2] <= bid)
    easy = HeuristicExecutor().act(None, s).op == ACCEPT
    strict = HeuristicExecutor(RuleConstants(bid_most=1.0)).act(None, s).op == ACCEPT
    assert np.array_equal(strict, easy & as_good)
    assert (easy & ~as_good).any()


def test_powers_bend_the_way_of_prices(world: Played) -> None:
    s = world.situation
    plain = HeuristicExecutor().act(None, s)
    late = HeuristicExecutor(RuleConstants(ask_power=4.0, bid_power=0.25)).act(None, s)
    offers = (plain.op == REJECT) & (late.op == REJECT)
    middle = offers & (s.relative_time > 0.1) & (s.relative_time < 0.9)
    sellers, buyers = middle & s.seller, middle & ~s.seller
    assert (late.offer[sellers, 2] <= plain.offer[sellers, 2]).all()
    assert (late.offer[buyers, 2] >= plain.offer[buyers, 2]).all()
    if sellers.any():
        assert (late.offer[sellers, 2] < plain.offer[sellers, 2]).any()


def test_a_seller_waits_for_what_the_partner_has_asked_for(world: Played) -> None:
    """Of a partner that took ten at once, small offers are refused, and the fewer the later; large ones never."""
    s = world.situation
    on_offer = s.seller & s.acceptable
    first_come = HeuristicExecutor().act(None, s).op == ACCEPT
    assert np.array_equal(first_come & s.seller, on_offer), "nothing is known of anybody: whatever is safe"
    patient = RuleConstants(patience=1.0)
    known = replace(s, asked=np.full(len(s), 10))
    waits = on_offer & (HeuristicExecutor(patient).act(None, known).op != ACCEPT)
    room = np.where(s.open, s.safe, 0.0).max(axis=1)
    enough = s.seen[:, 0] >= np.minimum(room, 10) * (1.0 - s.relative_time)
    assert not (waits & enough).any()
    at_last = replace(known, relative_time=np.ones(len(s), np.float32))
    assert np.array_equal((HeuristicExecutor(patient).act(None, at_last).op == ACCEPT) & s.seller, on_offer)
    assert waits.any() == on_offer.any()


def test_a_seller_offers_what_the_partner_asks_for_on_a_day_that_has_it(world: Played) -> None:
    s = world.situation
    for asked in (1, 4):
        made = HeuristicExecutor().act(None, replace(s, asked=np.full(len(s), asked)))
        offers = (made.op == REJECT) & s.seller
        n = np.flatnonzero(offers)
        legal = legal_arrays(s, "direct", Q_SIZE, P_SIZE)
        most = np.where(legal.day, legal.most, 0)
        assert np.array_equal(made.offer[n, 0], np.minimum(most[n, made.offer[n, 1]], asked))
        today = n[most[n, 0] >= asked]
        assert (made.offer[today, 1] == 0).all(), "all of it can be had today"


def test_a_factory_fills_up_below_its_hold_and_not_when_it_is_late() -> None:
    entries = [e.data for e in log_of(PENGUIN_MIDDLE).entries if isinstance(e, DailyStatusEntry)]
    days = day_batch(entries)
    wanted = HeuristicManager().goals_of_days(days)[:, 0]
    never = HeuristicManager(constants=RuleConstants(hold=0.0)).goals_of_days(days)[:, 0]
    too_late = HeuristicManager(constants=RuleConstants(late=10_000)).goals_of_days(days)[:, 0]
    assert np.array_equal(never, too_late)
    assert (wanted >= never).all()
    assert (wanted > never).any()
