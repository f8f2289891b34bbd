"""`LitaAgentHRL` in real worlds: safe whatever its layers say, the same whatever the order, and it really trades."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from negmas import ResponseType
from scml.std import SCML2024StdWorld

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from tests.hrl_xf.conftest import contracts_of
from tests.hrl_xf.layers.examples import wild
from tests.hrl_xf.play.agent_cases import (
    L1_ALONE,
    AcceptingExecutor,
    RandomExecutor,
    assert_safe,
    assert_sound,
    listening,
    ours,
    play,
    signed_by_ours,
    variant,
)

L1_AGENT = variant(**L1_ALONE)
FIELD = ["PenguinAgent", "RandomStdAgent", "SyncRandomStdAgent"]


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
