"""`LitaAgentHRL` in real worlds: safe whatever its layers say, the same whatever the order, and it really trades."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from negmas import ResponseType
from negmas.sao import SAOResponse
from scml.std import SCML2024StdWorld, StdSyncAgent

from echelon.hrl_xf.agent import LitaAgentHRL, LitaAgentRules
from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.layers.rules import HeuristicCoordinator, HeuristicExecutor, HeuristicManager
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from tests.hrl_xf.conftest import contracts_of
from tests.hrl_xf.layers.examples import wild
from tests.hrl_xf.play.agent_cases import (
    L1_ALONE,
    AcceptingExecutor,
    RandomExecutor,
    actions,
    assert_safe,
    assert_sound,
    listening,
    ours,
    play,
    variant,
)

L1_AGENT = variant(**L1_ALONE)
FIELD = ["PenguinAgent", "RandomStdAgent", "SyncRandomStdAgent"]


def signed_by_ours(world: Any) -> list[tuple[Any, ...]]:
    """Negotiated contracts in which our agents take part."""
    names = {agent.id for agent in ours(world)}
    system = {"SELLER", "BUYER"}
    return [c for c in contracts_of(world) if {c[0], c[1]} & names and not {c[0], c[1]} & system]


# -- safety --

LAYERS: dict[str, Callable[[], dict[str, Any]]] = {
    "bundled": dict,
    "sampling": lambda: {"mode": "sample", "seed": 3},
    "heuristic": lambda: {"l2": "heuristic", "l3": "heuristic", "l4": "heuristic"},
    "l1": lambda: dict(L1_ALONE),
    "random": lambda: {"l3": RandomExecutor(5)},
    "insane": lambda: {"l3": RandomExecutor(6, sane=False)},
}


@pytest.mark.parametrize("layers", LAYERS)
def test_every_answer_is_legal_and_within_what_is_left(layers: str) -> None:
    agent = variant(**LAYERS[layers]())
    with listening() as heard:
        world = play([agent, agent, *FIELD], n_steps=8)
    assert_sound(world, fallbacks=layers == "insane")
    tally = assert_safe(heard, world)
    assert tally.answers > 100
    assert tally.offers > 40
    assert tally.closed > 0


@pytest.mark.slow
@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("levels", [2, 3, 4])
def test_thousands_of_answers_are_legal_and_within_what_is_left(layers: str, levels: int) -> None:
    agent = variant(**LAYERS[layers]())
    field: list[str | type[Any]] = [agent, "PenguinAgent", agent, "AS0", agent, "RandomStdAgent", agent]
    with listening() as heard:
        world = play(field, n_steps=50, levels=levels, per_level=5, seed=levels)
    assert_sound(world, fallbacks=layers == "insane")
    tally = assert_safe(heard, world)
    assert tally.answers > 1000
    assert tally.closed > 0


def test_the_stock_world_is_played_safely_too() -> None:
    with listening() as heard:
        world = play([LitaAgentHRL, "PenguinAgent"], n_steps=5, levels=2, cls=SCML2024StdWorld)
    assert_sound(world)
    assert assert_safe(heard, world).answers > 20


# -- layers that fail --


class Broken:
    """A layer whose answer is another one than it should be."""

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self.answer = answer

    def goals_of_days(self, days: Any) -> Any:
        return self.answer(len(days))

    def act(self, state: Any, situation: Any, *, generator: Any = None, greedy: bool = True) -> Any:
        return self.answer(len(situation))

    def alpha(self, thread_feat: Any, *_: Any) -> Any:
        return self.answer(thread_feat.shape[1])


def raising(_: int) -> Any:
    raise ZeroDivisionError("the layer is broken")


def no_numbers() -> TemporalDecisionTransformer:
    layer = TemporalDecisionTransformer()
    with torch.no_grad():
        layer.op.bias.fill_(float("nan"))
    return layer


NAN = float("nan")
BAD_LAYERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "goals that are not numbers": ("l2", lambda: Broken(lambda n: np.full((n, 16), NAN, np.float32))),
    "goals of another shape": ("l2", lambda: Broken(lambda n: np.zeros((n, 8), np.float32))),
    "an L2 that raises": ("l2", lambda: Broken(raising)),
    "logits that are not numbers": ("l3", no_numbers),
    "negative quantities": ("l3", lambda: Broken(lambda n: actions([1] * n, [[-3, 20, 1]] * n))),
    "half pieces": ("l3", lambda: Broken(lambda n: actions([1] * n, [[2.5, 20.0, 1.0]] * n))),
    "an answer that does not exist": ("l3", lambda: Broken(lambda n: actions([7] * n, [[1, 20, 1]] * n))),
    "too few answers": ("l3", lambda: Broken(lambda n: actions([1] * (n - 1), [[1, 20, 1]] * (n - 1)))),
    "no answers": ("l3", lambda: Broken(lambda n: None)),
    "an L3 that raises": ("l3", lambda: Broken(raising)),
    "alpha that is not a number": ("l4", lambda: Broken(lambda n: np.full((1, n), NAN))),
    "alpha of another shape": ("l4", lambda: Broken(lambda n: np.ones((1, n + 1)))),
    "an L4 that raises": ("l4", lambda: Broken(raising)),
}


@pytest.fixture(scope="module")
def rules_world() -> Any:
    return play([variant(LitaAgentRules), "PenguinAgent", "RandomStdAgent"], n_steps=5, levels=2)


@pytest.mark.parametrize("fault", BAD_LAYERS)
def test_a_layer_that_misbehaves_is_replaced_by_the_rules_for_the_day(
    fault: str, rules_world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails at the first question of each day, so the whole world is that of the rules."""
    which, make = BAD_LAYERS[fault]
    agent = variant(**{which: make()})
    with caplog.at_level(logging.WARNING, "echelon"):
        world = play([agent, "PenguinAgent", "RandomStdAgent"], n_steps=5, levels=2)
    assert_sound(world, fallbacks=True)
    assert contracts_of(world) == contracts_of(rules_world)
    assert signed_by_ours(world)
    assert [a.fallbacks for a in ours(world)] == [5] * len(ours(world)), "once per day, not once per call"
    said = [record for record in caplog.records if "a layer failed" in record.message]
    assert len(said) == len(ours(world)), "logged once by each agent"


class FailingLater(HeuristicExecutor):
    """The rules' answers, until it breaks down for good."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def act(self, *args: Any, **kwargs: Any) -> L3Actions:
        self.left -= 1
        if self.left < 0:
            raise ZeroDivisionError("worn out")
        return super().act(*args, **kwargs)


def test_a_layer_may_fail_in_the_middle_of_a_day(rules_world: Any) -> None:
    agent = variant(l2="heuristic", l3=FailingLater(3), l4="heuristic")
    world = play([agent, "PenguinAgent", "RandomStdAgent"], n_steps=5, levels=2)
    assert_sound(world, fallbacks=True)
    assert all(a.fallbacks for a in ours(world))
    assert contracts_of(world) == contracts_of(rules_world)


def test_should_the_rules_fail_too_l1_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    field = ["PenguinAgent", "RandomStdAgent"]
    l1_world = play([L1_AGENT, *field], n_steps=5, levels=2)
    broken = Layers(HeuristicManager(), Broken(raising), HeuristicCoordinator())
    monkeypatch.setattr("echelon.hrl_xf.agent.rule_layers", lambda: broken)
    world = play([variant(l3=Broken(raising)), *field], n_steps=5, levels=2)
    assert_sound(world, fallbacks=True)
    assert contracts_of(world) == contracts_of(l1_world)


class Stubborn(StdSyncAgent):  # type: ignore[misc]
    """Never accepts, never ends, and always has another offer."""

    said = 0

    def first_proposals(self) -> dict[str, Any]:
        return {partner: self._offer(partner) for partner in self.negotiators}

    def counter_all(self, offers: dict[str, Any], states: dict[str, Any]) -> dict[str, Any]:
        return {partner: SAOResponse(ResponseType.REJECT_OFFER, self._offer(partner)) for partner in offers}

    def _offer(self, partner: str) -> Any:
        self.said += 1
        issues = self.get_nmi(partner).issues
        return 1 + self.said % 3, issues[1].max_value, issues[2].min_value + self.said % 2


def test_negotiations_of_a_hundred_rounds_are_played_by_the_learnt_layers() -> None:
    layer = TemporalDecisionTransformer()
    with torch.no_grad():
        layer.op_prior.zero_()
        layer.op.bias.copy_(torch.tensor([-30.0, 30.0, -30.0]))  # counter whatever may be countered
    seen: list[int] = []

    class Patient(LitaAgentHRL):
        def counter_all(self, offers: dict[str, Any], states: dict[str, Any]) -> dict[str, Any]:
            seen.extend(state.step for state in states.values())
            return super().counter_all(offers, states)

    agent = variant(Patient, l3=layer)
    world = play([agent, Stubborn], n_steps=4, levels=2, per_level=2, neg_n_steps=100)
    assert_sound(world)
    assert max(seen) > 90, "some negotiation lasted to its end"


# -- it trades --


def test_an_acceptance_signs() -> None:
    """Partners' offers are accepted where L1 allows it: contracts with the partner's price, not L1's."""
    agent = variant(l2="heuristic", l3=AcceptingExecutor(), l4="heuristic")
    with listening() as heard:
        world = play([agent, "PenguinAgent", "RandomStdAgent"], n_steps=6, levels=2)
    assert_sound(world)
    tally = assert_safe(heard, world)
    names = {a.id for a in ours(world)}
    accepts = [s for s in heard if s.speaker in names and s.answer == ResponseType.ACCEPT_OFFER]
    accepted = [(s.seller, s.buyer, *(s.offer or ())) for s in accepts]
    signed = {(c[0], c[1], c[2], c[4], c[3]) for c in contracts_of(world)}
    assert tally.accepts == len(accepted) > 5
    assert set(accepted) <= signed


def test_untrained_it_plays_as_l1_alone() -> None:
    untrained = variant(**{**L1_ALONE, "l3": TemporalDecisionTransformer()})
    field = ["PenguinAgent", "RandomStdAgent"]
    worlds = [play([agent, agent, *field], n_steps=5, seed=2) for agent in (L1_AGENT, untrained)]
    assert len(signed_by_ours(worlds[0])) > 10
    assert contracts_of(worlds[0]) == contracts_of(worlds[1])
    assert worlds[0].scores() == worlds[1].scores()


# -- one outcome whatever the order --


class Backwards(LitaAgentHRL):
    """The same agent in a simulator that lists everything the other way round."""

    @property
    def negotiators(self) -> dict[str, Any]:
        return dict(reversed(super().negotiators.items()))

    def counter_all(self, offers: dict[str, Any], states: dict[str, Any]) -> dict[str, Any]:
        answers = super().counter_all(dict(reversed(offers.items())), dict(reversed(states.items())))
        return {name: answers[name] for name in offers} | answers

    def first_proposals(self) -> dict[str, Any]:
        return dict(reversed(super().first_proposals().items()))


@pytest.mark.parametrize("options", [{}, {"mode": "sample", "seed": 5}])
def test_the_order_in_which_threads_are_listed_changes_nothing(options: dict[str, Any]) -> None:
    field = ["PenguinAgent", "RandomStdAgent"]
    agents = variant(**options), variant(Backwards, **options)
    worlds = [play([agent, *field], n_steps=4, seed=2) for agent in agents]
    assert len(signed_by_ours(worlds[0])) > 3
    assert contracts_of(worlds[0]) == contracts_of(worlds[1])


def test_greedy_play_repeats_itself_and_does_not_hear_the_seed() -> None:
    worlds = [play([variant(seed=seed), "PenguinAgent"], n_steps=3, levels=2) for seed in (0, 0, 1)]
    assert signed_by_ours(worlds[0])
    assert contracts_of(worlds[0]) == contracts_of(worlds[1]) == contracts_of(worlds[2])


def test_sampling_repeats_with_its_seed_and_changes_with_another() -> None:
    unsure = wild(TemporalDecisionTransformer(), 3, 0.05)
    agents = [variant(l3=unsure, mode="sample", seed=s) for s in (0, 0, 1)]
    worlds = [play([agent, "PenguinAgent"], n_steps=5, levels=2) for agent in agents]
    assert contracts_of(worlds[0]) == contracts_of(worlds[1])
    assert contracts_of(worlds[0]) != contracts_of(worlds[2])


def test_what_is_drawn_differs_by_seat_and_by_world() -> None:
    draws: dict[tuple[int, str], list[float]] = {}

    class Drawing(LitaAgentHRL):
        """Notes what its generator gives."""

        def before_step(self) -> None:
            super().before_step()
            draws.setdefault((world_seed, self.id), []).append(float(self._generator.random()))

    for world_seed in (1, 2):
        play([variant(Drawing, mode="sample"), "PenguinAgent"], n_steps=3, levels=2, seed=world_seed)
    first = dict(draws)
    assert len(first) == 6
    assert len({tuple(numbers) for numbers in first.values()}) == 6, "no two seats or worlds draw the same"
    draws.clear()
    for world_seed in (1, 2):
        play([variant(Drawing, mode="sample"), "PenguinAgent"], n_steps=3, levels=2, seed=world_seed)
    assert draws == first, "the same world again draws the same"


# -- what a simulator may do --


class Disturbed(LitaAgentHRL):
    """Asked at odd moments, about strangers, twice, and about negotiations that are over."""

    disturbances = vanished = 0

    def before_step(self) -> None:
        LitaAgentHRL.counter_all(self, {}, {})
        LitaAgentHRL.first_proposals(self)
        super().before_step()
        names = {"seller": "nobody", "buyer": self.id}
        LitaAgentHRL.on_negotiation_failure(self, ["nobody", self.id], names, None, None)

    def counter_all(self, offers: dict[str, Any], states: dict[str, Any]) -> dict[str, Any]:
        stranger = {"nobody": (3, self.awi.current_step, 10)}
        state = next(iter(states.values()), None)
        if state is None:
            return super().counter_all(offers, states)
        over = {name: (3, self.awi.current_step, 10) for name in self.negotiators if name not in offers}
        more = super().counter_all({**offers, **over, **stranger}, dict.fromkeys([*offers, *over, *stranger], state))
        assert "nobody" not in more or more["nobody"].outcome is None
        self.disturbances += 1
        return more

    def on_negotiation_failure(self, partners: list[str], *args: Any) -> None:
        """Many negotiations vanish without a word."""
        self.vanished += 1
        if self.vanished % 2:
            super().on_negotiation_failure(partners, *args)

    def step(self) -> None:
        super().step()
        LitaAgentHRL.first_proposals(self)


def test_calls_at_unusual_times_do_not_disturb_play() -> None:
    with listening() as heard:
        world = play([variant(Disturbed, l3="l1"), "PenguinAgent", "RandomStdAgent"], n_steps=12, levels=2)
    assert_sound(world)
    assert assert_safe(heard, world).answers > 20
    assert signed_by_ours(world)
    assert all(agent.disturbances > 5 and agent.vanished > 5 for agent in ours(world))


class Forgetful(LitaAgentHRL):
    """The simulator never says that a day begins."""

    def before_step(self) -> None:
        pass


def test_a_day_without_before_step_is_played() -> None:
    with listening() as heard:
        world = play([variant(Forgetful), "PenguinAgent"], n_steps=4, levels=2)
    assert_sound(world)
    assert assert_safe(heard, world).offers > 10
    assert signed_by_ours(world)


@pytest.mark.slow
def test_bankrupt_partners_and_four_levels() -> None:
    with listening() as heard:
        world = play(["RandomStdAgent", L1_AGENT, "SyncRandomStdAgent"], n_steps=20, levels=4, seed=2)
    assert any(world.is_bankrupt[aid] for aid in world.non_system_agent_ids)
    assert_sound(world)
    assert assert_safe(heard, world).answers > 100


def test_deliveries_on_the_same_day_only() -> None:
    """The game's horizon is 0."""
    with listening() as heard:
        world = play([LitaAgentHRL, "RandomStdAgent"], n_steps=5, levels=2, horizon=0)
    assert {a.awi.horizon for a in ours(world)} == {0}
    assert_sound(world)
    assert assert_safe(heard, world).offers > 5


def test_the_last_day_is_played_and_nothing_is_promised_beyond_it() -> None:
    with listening() as heard:
        world = play([LitaAgentHRL, "RandomStdAgent"], n_steps=3, levels=2)
    assert_safe(heard, world)
    names = {a.id for a in ours(world)}
    last = [s for s in heard if s.speaker in names and s.day == 2 and s.offer is not None]
    assert last
    assert {s.offer[1] for s in last if s.offer is not None and s.answer != ResponseType.END_NEGOTIATION} <= {2}


class Asked(LitaAgentHRL):
    """Asked by negmas for a first offer of its own making, before and after its openings."""

    opened = 0

    def before_step(self) -> None:
        super().before_step()
        assert [self.first_offer(name) for name in self.negotiators] == [None] * len(self.negotiators)
        openings = LitaAgentHRL.first_proposals(self)
        assert {name: self.first_offer(name) for name in openings} == openings
        assert self.first_offer("nobody") is None
        self.opened += sum(offer is not None for offer in openings.values())


def test_the_framework_makes_no_offers_of_its_own() -> None:
    """negmas would offer the best outcome of the utility function, whatever it costs."""
    world = play([variant(Asked), "RandomStdAgent"], n_steps=8, levels=2)
    assert all(agent.opened for agent in ours(world))
