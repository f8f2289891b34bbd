"""What a simulator may do: odd calls, missing calls, bankrupt partners, long negotiations, the last day."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from negmas import ResponseType
from negmas.sao import SAOResponse
from scml.std import StdSyncAgent

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from tests.hrl_xf.play.agent_cases import (
    L1_ALONE,
    assert_safe,
    assert_sound,
    listening,
    ours,
    play,
    signed_by_ours,
    variant,
)

L1_AGENT = variant(**L1_ALONE)


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
