"""What the constants of the rules mean, on the situations of recorded worlds."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_a_strict_trader_accepts_only_what_is_as_good_as_its_own_price(world: Played) -> None:
    s = world.situation
    low, high = s.issues[:, 4], s.issues[:, 5]
    own = np.where(s.seller, np.sqrt(1 - s.relative_time), s.relative_time) * (high - low) + low
    own = np.floor(own + 1e-9)
    offered = s.seen[:, 2]
    as_good = np.where(s.seller, offered >= own, offered <= own)
    easy = HeuristicExecutor().act(None, s).op == ACCEPT
    strict = HeuristicExecutor(RuleConstants(ask_least=1.0, bid_most=1.0)).act(None, s).op == ACCEPT
    assert np.array_equal(strict, easy & as_good)
    assert (easy & ~as_good).any()


def test_powers_bend_the_way_of_prices_and_a_share_makes_offers_smaller(world: Played) -> None:
    s = world.situation
    plain = HeuristicExecutor().act(None, s)
    late = HeuristicExecutor(RuleConstants(ask_power=4.0, bid_power=0.25)).act(None, s)
    half = HeuristicExecutor(RuleConstants(sell_share=0.5)).act(None, s)
    offers = (plain.op == REJECT) & (late.op == REJECT)
    middle = offers & (s.relative_time > 0.1) & (s.relative_time < 0.9)
    sellers, buyers = middle & s.seller, middle & ~s.seller
    assert (late.offer[sellers, 2] <= plain.offer[sellers, 2]).all()
    assert (late.offer[buyers, 2] >= plain.offer[buyers, 2]).all()
    if sellers.any():
        assert (late.offer[sellers, 2] < plain.offer[sellers, 2]).any()
        assert np.array_equal(half.offer[sellers, 0], np.ceil(plain.offer[sellers, 0] / 2))
    assert np.array_equal(half.offer[buyers], plain.offer[buyers])


def test_a_factory_fills_up_below_its_hold_and_not_when_it_is_late() -> None:
    entries = [e.data for e in log_of(PENGUIN_MIDDLE).entries if isinstance(e, DailyStatusEntry)]
    days = day_batch(entries)
    wanted = HeuristicManager().goals_of_days(days)[:, 0]
    never = HeuristicManager(constants=RuleConstants(hold=0.0)).goals_of_days(days)[:, 0]
    too_late = HeuristicManager(constants=RuleConstants(late=10_000)).goals_of_days(days)[:, 0]
    assert np.array_equal(never, too_late)
    assert (wanted >= never).all()
    assert (wanted > never).any()
