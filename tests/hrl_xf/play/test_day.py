"""A day in play, call by call: one outcome whatever the order, and nothing said twice, too late or too much."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.layers.rules import BaselineExecutor, HeuristicCoordinator, HeuristicManager
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator
from echelon.hrl_xf.play.choice import plain_layers
from echelon.hrl_xf.play.day import BadLayerError, DayPlay, Question
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT, DayState, Issues, Offer, Role
from echelon.hrl_xf.state.goals import open_goal
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.reservation import NOTHING, Wish
from tests.hrl_xf.layers.examples import wild
from tests.hrl_xf.play.agent_cases import AcceptingExecutor, actions
from tests.hrl_xf.state.examples import a_day, days, last_day, ledger_of, same_bits
from tests.laws import examples
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric

LAYER = L1SafetyLayer()
L3 = wild(TemporalDecisionTransformer(), 7, 0.2)
LEARNT = Layers(HeuristicManager(), L3, GlobalCoordinator().eval())
TRADER = a_day(inventory_input=8, needed_supplies=12, needed_sales=9)


def day_of(state: DayState, partners: dict[str, Role], layers: Layers | None = None) -> DayPlay:
    return DayPlay(state, layers or plain_layers(), LAYER, partners)


def ask(partner: str, offer: Offer | None = None, round_: int = 0) -> Question:
    return Question(partner, offer, round_, (round_ + 1) / 21)


# -- order --

NAMES = ["a", "b", "c", "d", "e", "f"]


@st.composite
def questions(draw: st.DrawFn, state: DayState, roles: dict[str, Role]) -> list[Question]:
    """An offer within the issues in some threads, none in others."""
    asked = []
    for name, role in roles.items():
        bounds = state.sell_issues if role == "seller" else state.buy_issues
        assert bounds is not None
        legal = st.tuples(*(st.integers(*pair) for pair in (bounds.quantity, bounds.time, bounds.price)))
        asked.append(ask(name, draw(st.none() | legal), draw(st.integers(0, 3))))
    return asked


@examples(30)
@given(st.data())
def test_answers_do_not_depend_on_the_order_of_threads_and_questions(data: st.DataObject) -> None:
    state = data.draw(days(healthy=True))
    roles: dict[str, Role] = {name: data.draw(st.sampled_from(["buyer", "seller"])) for name in NAMES}
    first, second = data.draw(questions(state, roles)), data.draw(questions(state, roles))
    shuffled = data.draw(st.permutations(NAMES))
    plays = [day_of(state, roles, LEARNT), day_of(state, {name: roles[name] for name in shuffled}, LEARNT)]
    for asked in (first, second):
        by_name = {question.partner: question for question in asked}
        answers = [plays[0].answer(asked), plays[1].answer([by_name[name] for name in shuffled])]
        assert answers[0] == answers[1]
        for play, order in zip(plays, (NAMES, shuffled), strict=True):
            for name in order:  # offers leave one by one, in whatever order the simulator steps
                offer = answers[0][name].offer
                if offer is not None and answers[0][name].op == REJECT:
                    play.said(name, offer)


@examples(30)
@given(st.data())
def test_other_names_give_the_same_answers_under_the_other_names(data: st.DataObject) -> None:
    """Nothing is in a name, unless two threads have the same α to the last digit."""
    state = data.draw(days(healthy=True))
    roles: dict[str, Role] = {name: data.draw(st.sampled_from(["buyer", "seller"])) for name in NAMES}
    asked = data.draw(questions(state, roles))
    other = dict(zip(NAMES, data.draw(st.permutations(NAMES)), strict=True))
    layers = Layers(HeuristicManager(), L3, HeuristicCoordinator())
    play, renamed = day_of(state, roles, layers), day_of(state, {other[n]: roles[n] for n in NAMES}, layers)
    answers = play.answer(asked)
    assert play.last_call is not None
    alpha = np.sort(play.last_call.alpha)
    assume(np.diff(alpha).min() > 1e-5)
    again = renamed.answer([Question(other[q.partner], q.offer, q.round, q.relative_time) for q in asked])
    assert again == {other[name]: answer for name, answer in answers.items()}


def test_sampling_follows_its_generator() -> None:
    partners: dict[str, Role] = dict.fromkeys(("s0", "s1", "s2", "s3"), "buyer")
    partners |= dict.fromkeys(("c0", "c1", "c2", "c3"), "seller")
    asked = [ask(name) for name in partners]

    def once(seed: int) -> dict[str, Wish]:
        generator = np.random.default_rng(seed)
        return day_of(TRADER, partners, LEARNT).answer(asked, greedy=False, generator=generator)

    assert once(0) == once(0)
    assert any(once(0) != once(seed) for seed in range(1, 5))


# -- what is promised --


def test_offers_of_one_call_share_what_is_safe_and_later_calls_the_rest() -> None:
    """Three pieces, and L1 offers half of them to everyone, who get what is left in turn."""
    few = last_day(3)
    play = day_of(few, {"x": "seller", "y": "seller", "z": "seller", "w": "seller"})
    first = play.answer([ask("x"), ask("y")])
    promised = sum(wish.offer[0] for wish in first.values() if wish.offer)
    assert promised == 2, "L1 offers half of three pieces, one, to each"
    rest = play.answer([ask("z"), ask("w")])
    assert [rest[name] for name in ("w", "z")] == [Wish(REJECT, (1, 10, 32)), NOTHING]


def test_a_failed_offer_is_released_and_a_signed_one_is_not() -> None:
    few = last_day(2)
    play = day_of(few, {"x": "seller", "y": "seller", "z": "seller"})
    for name in ("x", "y"):
        assert play.answer([ask(name)])[name].offer == (1, 10, 32)
    assert play.answer([ask("z")]) == {"z": NOTHING}
    play.failed("x")
    assert play.answer([ask("z")]) == {"z": Wish(REJECT, (1, 10, 32))}
    play.signed("z", (1, 10, 32))
    play.failed("y")
    assert play.book(True).view().safe[0, 0] == 1, "of two pieces one is sold"


def test_a_thread_that_has_ended_is_not_answered_and_holds_nothing() -> None:
    """scml still lists it among the negotiators."""
    play = day_of(last_day(2), {"x": "seller", "y": "seller"})
    play.answer([ask("x"), ask("y")])
    play.failed("x")
    play.signed("y", (1, 10, 32))
    assert play.answer([ask("x"), ask("y")]) == {}
    assert play.promised == {}
    assert not play.is_open("x")
    assert not play.is_open("y")


def test_strangers_are_not_answered() -> None:
    play = day_of(TRADER, {"x": "seller"})
    assert play.answer([ask("nobody", (1, 10, 30))]) == {}
    play.failed("nobody")
    assert set(play.answer([ask("nobody"), ask("x")])) == {"x"}


def test_accepting_both_of_two_offers_that_fit_only_one_by_one() -> None:
    layers = Layers(HeuristicManager(), AcceptingExecutor(), HeuristicCoordinator())
    play = day_of(last_day(10), {"x": "seller", "y": "seller"}, layers)
    answers = play.answer([ask("x", (8, 10, 33)), ask("y", (8, 12, 33))])
    assert [answers[name].op for name in ("x", "y")] == [ACCEPT, REJECT], "the nearer delivery has the larger α"
    assert answers["y"].offer == (1, 10, 32)


def test_threads_with_one_alpha_but_for_rounding_are_settled_by_name() -> None:
    class Nearly:
        def alpha(self, thread_feat: Any, *_: Any) -> Any:
            return np.array([[0.3333333, 0.3333333, 0.3333334]], np.float32)

    layers = Layers(HeuristicManager(), BaselineExecutor(), Nearly())
    answers = day_of(last_day(2), dict.fromkeys("xyz", "seller"), layers).answer([ask(n) for n in "xyz"])
    assert [answers[name].op for name in "xyz"] == [REJECT, REJECT, END]


# -- closed sides --

CLOSED: dict[str, tuple[DayState, Role]] = {
    "no lines free": (a_day(inventory_input=400), "buyer"),
    "no money": (a_day(balance=900.0), "buyer"),
    "nothing to sell": (a_day(), "seller"),
    "the last day, too late to process": (a_day(current_step=49, inventory_input=10), "buyer"),
}


@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_side_ends_its_threads(name: str) -> None:
    """Whoever decides, with an offer on the table or without."""
    state, role = CLOSED[name]
    today = state.current_step
    issues = Issues((1, 30), (today, min(today + 10, 49)), (18, 33))
    state = replace(state, buy_issues=issues, sell_issues=issues)
    partners: dict[str, Role] = {"x": role, "y": role}
    asked = [ask("x"), ask("y", (3, today, 20))]
    for layers in (plain_layers(), LEARNT, Layers(HeuristicManager(), AcceptingExecutor(), HeuristicCoordinator())):
        assert day_of(state, partners, layers).answer(asked) == {"x": NOTHING, "y": NOTHING}


def test_a_game_without_horizon_trades_for_today_only() -> None:
    today = Issues((1, 30), (10, 10), (18, 33))
    state = a_day(horizon=0, inventory_input=9, buy_issues=today, sell_issues=today)
    answers = day_of(state, {"x": "seller", "y": "buyer"}, LEARNT).answer([ask("x"), ask("y")])
    assert {wish.offer[1] for wish in answers.values() if wish.offer} <= {10}
    plain = day_of(state, {"x": "seller", "y": "buyer"}).answer([ask("x"), ask("y")])
    assert all(wish.op == REJECT for wish in plain.values())


# -- history --


def test_the_history_holds_the_offers_that_were_exchanged() -> None:
    """Partner, agent, the same offer of the partner twice in a row (one token), agent, partner."""
    play = day_of(TRADER, {"x": "seller"}, LEARNT)
    told: list[tuple[int, int, int, int]] = []
    for offer, reply in [
        ((5, 12, 28), (4, 12, 33)),
        ((5, 13, 28), None),
        ((5, 13, 28), (3, 11, 31)),
        ((6, 13, 29), None),
    ]:
        play.answer([ask("x", offer)])
        token = (offer[0], offer[1], offer[2], 0)
        if not told or told[-1] != token:
            told.append(token)
        if reply is not None:
            play.said("x", reply)
            told.append((*reply, 1))
    tokens = torch.tensor([[[q, (p - 27) / 6, t - 10, mine] for q, t, p, mine in told]], dtype=torch.float32)
    assert tokens.shape[1] == 5
    assert play.last_call is not None
    rows = torch.tensor([0])
    expected = L3.states(tokens, torch.ones(1, 5, dtype=torch.bool), rows, torch.tensor([5]))
    assert_equal_but_for_rounding(play._states([play.threads["x"]]), expected)
    assert play.last_call.situation.own.tolist() == [[3, 1, 31]]
    assert play.last_call.situation.seen.tolist() == [[6, 3, 29]]


def test_the_other_threads_in_sight() -> None:
    play = day_of(TRADER, {"x": "seller", "y": "seller", "z": "buyer"}, LEARNT)
    play.answer([ask("x", (5, 12, 28)), ask("y", (7, 12, 31)), ask("z", (2, 12, 20))])
    assert play.last_call is not None
    assert play.last_call.partners == ["x", "y", "z"]
    assert play.last_call.situation.others.tolist() == [[1, 7, 1], [1, 5, 0], [0, 0, 0]]


@examples(20)
@given(st.data())
def test_the_view_of_l1_is_that_of_the_deals_so_far(data: st.DataObject) -> None:
    """It is kept from call to call, and computed again after each deal."""
    state = data.draw(days(healthy=True))
    roles: dict[str, Role] = {name: data.draw(st.sampled_from(["buyer", "seller"])) for name in NAMES}
    play, signed, left = day_of(state, roles), list[tuple[Role, Offer]](), dict(roles)
    batch = day_batch([state])
    for asked in (data.draw(questions(state, roles)) for _ in range(4)):
        play.answer(asked)
        assert play.last_call is not None
        rows = np.zeros(len(left), np.int64)
        sells = np.array([left[name] == "seller" for name in sorted(left)])
        ledger = ledger_of(batch, [signed])
        wanted = LAYER.compute(batch.take(rows), ledger.take(rows), sells)
        for f in fields(wanted):
            assert same_bits(getattr(play.last_call.l1, f.name), getattr(wanted, f.name)), f.name
        assert same_bits(play.last_call.situation.open_goal, open_goal(play.goal, ledger)[rows])
        base = LAYER.legal_baseline(wanted)
        assert np.array_equal(play.last_call.situation.legal_baseline, base.offer)
        name = data.draw(st.sampled_from(sorted(left)))
        deal = (data.draw(st.integers(1, 5)), state.current_step, 20)
        signed.append((left.pop(name), deal))
        play.signed(name, deal)


def test_the_open_goal_counts_what_is_signed() -> None:
    """9 pieces to sell; .75 of the 4 sold for the day after tomorrow are of the first bucket."""
    play = day_of(TRADER, {"x": "seller", "y": "seller"}, LEARNT)
    play.answer([ask("x")])
    assert play.last_call is not None
    before = play.last_call.situation.open_goal[0, :, 1]
    play.signed("y", (4, 12, 30))
    play.answer([ask("x", (1, 10, 30))])
    after = play.last_call.situation.open_goal[0, :, 1]
    assert before[0] - after[0] == pytest.approx(3.0, abs=1e-5)


# -- layers that fail --


def test_bad_goals_are_refused_at_dawn() -> None:
    class Bad:
        def goals_of_days(self, _: Any) -> Any:
            return np.full((1, 16), np.inf, np.float32)

    with pytest.raises(BadLayerError, match=r"\(1, 16\) and finite"):
        day_of(TRADER, {"x": "seller"}, Layers(Bad(), L3, HeuristicCoordinator()))


def test_after_a_failure_the_plain_layers_answer_the_same_call() -> None:
    class Bad:
        def act(self, *_: Any, **__: Any) -> Any:
            return actions([REJECT], [[0, 20, 1]])

    play = day_of(TRADER, {"x": "seller"}, Layers(HeuristicManager(), Bad(), HeuristicCoordinator()))
    plain = day_of(TRADER, {"x": "seller"})
    question = [ask("x", (5, 12, 28))]
    with pytest.raises(BadLayerError, match="at least 1"):
        play.answer(question)
    assert play.promised == {}
    play.continue_with(plain_layers())
    assert play.answer(question) == plain.answer(question)
    assert play.threads["x"].told == plain.threads["x"].told, "the partner's offer is heard once"


def test_end_is_the_answer_where_an_acceptance_has_nothing_to_accept() -> None:
    class Eager:
        def act(self, *_: Any, **__: Any) -> Any:
            return actions([ACCEPT], [[0, 0, 0]])

    play = day_of(TRADER, {"x": "seller"}, Layers(HeuristicManager(), Eager(), HeuristicCoordinator()))
    assert play.answer([ask("x")]) == {"x": Wish(END, None)}
