"""The simulator is the judge of L1: agents that trade to its limits in real worlds, and the worlds' own books."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.play.day import DayPlay, Question
from echelon.hrl_xf.state.day_batch import in_days_ahead
from echelon.hrl_xf.state.day_state import ACCEPT, REJECT
from echelon.hrl_xf.state.reservation import NOTHING, Wish
from tests.hrl_xf.play.agent_cases import assert_sound, ours, play
from tests.hrl_xf.state.examples import books


class ToTheLimit(LitaAgentHRL):
    """Our agent without layers: it takes every offer that L1 allows, and else offers all the room of a day.

    Days take turns, so that every day of the horizon is sold out or bought up; prices are the best for the partner.
    """

    buys = sells = True
    turn = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, l2="heuristic", l3="l1", l4="heuristic", **kwargs)

    def _answer(self, play: DayPlay, questions: list[Question]) -> dict[str, Wish]:
        answers: dict[str, Wish] = {}
        for question in questions:
            seller = play.threads[question.partner].seller
            play.promised.pop(question.partner, None)
            wish = self._all_of_it(play, question, seller) if (self.sells if seller else self.buys) else NOTHING
            if wish.offer is not None:
                play.promised[question.partner] = wish.offer
            answers[question.partner] = wish
        return answers

    def _all_of_it(self, play: DayPlay, question: Question, seller: bool) -> Wish:
        book = play.book(seller)
        out = book.view()
        if question.offer is not None and book.layer.allows(out, in_days_ahead([question.offer], play.step))[0]:
            return Wish(ACCEPT, question.offer)
        open_days = np.flatnonzero(out.open[0])
        if not len(open_days):
            return NOTHING
        self.turn += 1
        ahead = int(open_days[self.turn % len(open_days)])
        price = float(out.issues[0, 4] if seller else out.issues[0, 5])
        offer = book.layer.clip(out, np.array([[1e6, ahead, price]])).outcome(0, play.step)
        return NOTHING if offer is None else Wish(REJECT, offer)


class BuysOnly(ToTheLimit):
    sells = False


def deliveries(world: Any, agent: Any, side: str) -> list[int]:
    """Pieces the agent has contracted for each day of the world, exogenous contracts included."""
    found = [0] * world.n_steps
    for contract in world.saved_contracts:
        if contract[side] == agent.id:
            found[contract["delivery_time"]] += contract["quantity"]
    return found


FIELDS = {
    "champions": ["PenguinAgent", "SBD", "AS0"],
    "fill-ups": ["GreedyStdAgent", "SyncRandomStdAgent", "RandomStdAgent"],
}


@pytest.mark.parametrize("field", FIELDS)
def test_who_trades_all_that_is_safe_is_never_short(field: str) -> None:
    """On the last level nobody can refuse the exogenous sales; on the others every promise is the agent's own."""
    world = play([ToTheLimit, *FIELDS[field]], seed=3, n_steps=20, levels=3, per_level=4)
    assert_sound(world)
    promised = 0
    for agent in ours(world):
        if not agent.awi.is_last_level:
            promised += sum(deliveries(world, agent, "seller"))
            assert world.stats[f"shortfall_quantity_{agent.id}"] == [0] * world.n_steps
            assert world.stats[f"shortfall_penalty_{agent.id}"] == [0] * world.n_steps
    assert promised > 50, "or the test shows nothing"


@pytest.mark.parametrize("kind", [ToTheLimit, BuysOnly])
def test_buying_all_that_is_safe_never_leaves_more_than_a_full_stock(kind: type[ToTheLimit]) -> None:
    """What a factory cannot process on its day adds up to a day's work at most, and a full stock buys nothing."""
    world = play([kind, *FIELDS["champions"]], seed=4, n_steps=20, levels=3, per_level=4)
    assert_sound(world)
    bought = 0
    for agent in ours(world):
        if agent.awi.is_first_level:
            continue  # raw material comes by exogenous contracts
        L, arrivals = agent.awi.n_lines, deliveries(world, agent, "buyer")
        bought += sum(arrivals)
        assert books(0, arrivals, [L] * world.n_steps, L).stock[-1] <= L
        stock_at_dawn = [0, *world.stats[f"inventory_input_{agent.id}"]]
        bought_on = {c["signed_at"] for c in world.saved_contracts if c["buyer"] == agent.id}
        assert all(stock_at_dawn[day] < L for day in bought_on)
    assert bought > 10, "or the test shows nothing"
