"""Sets of entities: their order and what is absent change nothing, in any network; what is there does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from echelon.envs.entities import EntitySet
from echelon.hmasd.networks.entities import EntityLayers, PlaceLayers, SetEncoder, nearness
from tests.hmasd.networks.test_networks import SIZES, high_chunks, lively
from tests.hmasd.small import SKY, make, small
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric

USERS = EntitySet("users", 2, 3, 2, present=8, origin=(0, 1))
"""Of a vector of 12: own position, three users of two numbers, their flags, one more number."""


def vector(rows: int = 4) -> Tensor:
    x = torch.randn(rows, 12, generator=torch.Generator().manual_seed(1))
    x[:, 8:11] = 1.0
    return x


def encoder() -> SetEncoder:
    torch.manual_seed(0)
    return SetEncoder(12, (USERS,), 5)


def test_the_encoder_by_hand() -> None:
    """One entity layer that passes numbers through: the mean of what is present, relative to the observer."""
    net = SetEncoder(12, (USERS,), 2)
    layers = net.layers[0]
    assert isinstance(layers, EntityLayers)
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter.zero_()
        layers.first.weight.copy_(torch.eye(2))
        layers.second.weight.copy_(torch.eye(2))
    x = torch.tensor([[1.0, 2.0, 4.0, 3.0, 2.0, 8.0, 9.0, 9.0, 1.0, 1.0, 0.0, 7.0]])
    # users (4, 3) and (2, 8) of three places: (3, 1) and (1, 6) from (1, 2); the third is absent
    assert net(x).tolist() == [[1.0, 2.0, 7.0, pytest.approx(4 / 3), pytest.approx(7 / 3)]]


def test_order_and_absent_entities_change_nothing() -> None:
    net, x = encoder(), vector()
    turned = x.clone()
    turned[:, 2:8] = x[:, 2:8].view(4, 3, 2)[:, [2, 0, 1]].reshape(4, 6)
    assert_equal_but_for_rounding(net(turned), net(x))
    x[:, 9] = 0.0  # the second user is not there
    other = x.clone()
    other[:, 4:6] = 100.0
    assert torch.equal(net(other), net(x))
    other[:, 2:4] = 100.0  # the first one is
    assert not torch.allclose(net(other), net(x))


def test_the_number_of_entities_is_seen() -> None:
    net, x = encoder(), vector(1)
    x[:, 2:8] = x[:, 2:4].repeat(1, 3)  # three alike
    fewer = x.clone()
    fewer[:, 10] = 0.0
    assert not torch.allclose(net(x), net(fewer))


def test_everything_may_lie_in_sets_and_flags_inside_entities() -> None:
    net = SetEncoder(6, (EntitySet("pairs", 0, 3, 2, present=1, present_step=2),), 4)
    x = torch.tensor([[0.3, 1.0, 0.7, 0.0, 0.9, 1.0]])
    other = x.clone()
    other[0, 2] = 5.0
    assert net(x).shape == (1, 4)
    assert torch.equal(net(other), net(x))
    other[0, 4] = 5.0
    assert not torch.equal(net(other), net(x))


BASES = EntitySet("bases", 2, 2, 3, present=11, origin=(0, 1), place=2)
GUESTS = EntitySet("guests", 8, 1, 3, present=10, present_step=3, origin=(0, 1), place=2)
"""Of a vector of 13: own position, two bases of three numbers, a guest of two and its flag, flags of the bases."""


def placed_vector(rows: int = 4) -> Tensor:
    x = 0.3 + 0.4 * torch.rand(rows, 13, generator=torch.Generator().manual_seed(1))
    x[:, 10:] = 1.0
    return x


def placed() -> SetEncoder:
    torch.manual_seed(0)
    return SetEncoder(13, (BASES, GUESTS), 5)


@torch.no_grad()
def test_maps_by_hand() -> None:
    """Points .05, .2, .. .95, each sees .3 far; an entity at .5 counts 1 there and (1 - .25)^2 at .35 and .65."""
    layers = PlaceLayers(EntitySet("things", 0, 2, 2, place=1), 1)
    assert layers.weigh is not None
    layers.weigh.weight.fill_(1.0)
    places, known = torch.tensor([[[0.5, 0.8]]]), torch.log(torch.tensor([[[3.0, 1.0]]]))  # weights 3/4 and 1/2
    found = layers(places, known, torch.tensor([[True, False]])).view(2, 7)
    near, here = 0.5625, 1.0
    expected = [[0.0, 0.0, c * near / (c * near + 1), c * here / (c * here + 1)] for c in (1.0, 0.75)]
    torch.testing.assert_close(found[:, :4], torch.tensor(expected))
    torch.testing.assert_close(found[:, 4:], found[:, :3].flip(1))
    both = layers(places, known, None).view(2, 7)
    assert both[0, 5] == pytest.approx(0.5)
    assert both[1, 5] == pytest.approx(1 / 3)


@torch.no_grad()
def test_a_map_of_two_axes_is_a_product() -> None:
    """The point (.15, -.3) from the observer, of an entity at (.15, -.15) from it."""
    layers = PlaceLayers(EntitySet("things", 0, 1, 2, origin=(0, 1), place=2), 0)
    counts = layers(torch.tensor([[[0.15], [-0.15]]]), torch.zeros(1, 0, 1), None).view(7, 7)
    assert counts[4, 1] == pytest.approx(0.5625 / 1.5625)
    assert counts[4, 2] == pytest.approx(0.5)
    assert counts[1, 4] == pytest.approx(0.0)


def test_nearness_by_hand() -> None:
    """From (.1, .1) to (.1, .3) it is one range of .2 and two of .1."""
    wide, narrow = nearness(torch.tensor([[[0.1], [0.1]]]), torch.tensor([[[0.1, 0.1], [0.3, 0.1]]]))
    assert wide.flatten().tolist() == pytest.approx([np.exp(-0.5), 1.0])
    assert narrow.flatten().tolist() == pytest.approx([np.exp(-2.0), 1.0])


def test_what_is_known_of_entities_with_a_place() -> None:
    """Its other numbers, how many of the other set are near, and the observer's share of all that are near."""
    net = placed()
    bases = torch.tensor([[[0.2, 0.0], [0.0, 0.0], [7.0, 8.0]]])  # the second is where the observer and the guest are
    guests = torch.tensor([[[0.0], [0.0], [1.0]]])
    of_bases, of_guests = net._known([bases, guests], [None, None])
    e2, e8 = float(np.exp(-0.5)), float(np.exp(-2.0))
    near, share = [[e2, 1.0], [e8, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    expected = [[7.0, 8.0], *([n / (n + 1) for n in line] for line in near), *share]
    torch.testing.assert_close(of_bases[0], torch.tensor(expected), atol=1e-4, rtol=0)
    wide, narrow = 1.0 + e2, 1.0 + e8
    expected = [[1.0], [wide / (wide + 1)], [narrow / (narrow + 1)], [1 / (1 + wide)], [1 / (1 + narrow)]]
    torch.testing.assert_close(of_guests[0], torch.tensor(expected), atol=1e-4, rtol=0)
    without = net._known([bases, guests], [None, torch.tensor([[False]])])[0]
    torch.testing.assert_close(without[0, 1:], torch.tensor([[0.0, 0.0]] * 2 + [[1.0, 1.0]] * 2), atol=1e-4, rtol=0)


def test_order_and_absence_with_places() -> None:
    net, x = placed(), placed_vector()
    assert net(x).shape == (4, 2 + 4 * 49)
    turned = x.clone()
    turned[:, 2:8] = x[:, [5, 6, 7, 2, 3, 4]]
    assert_equal_but_for_rounding(net(turned), net(x))
    x[:, 11] = 0.0  # the first base is not there
    other = x.clone()
    other[:, 2:5] = 0.4
    assert torch.equal(net(other), net(x))
    other[:, 5] += 0.1  # the second one is: also the guest's second map knows that it moved
    guests = slice(2 + 3 * 49, None)
    assert (net(other) - net(x))[:, guests].abs().amax(1).min() > 1e-4


def test_observers_move_and_maps_with_them() -> None:
    net, x = placed(), placed_vector()
    moved = x.clone()
    moved[:, [0, 2, 5, 8]] += 0.25
    torch.testing.assert_close(net(moved)[:, 2:], net(x)[:, 2:], atol=1e-5, rtol=1e-5)


def test_sets_from_different_origins_are_not_compared() -> None:
    apart = SetEncoder(13, (BASES, EntitySet("guests", 8, 1, 3, place=2)), 5)
    assert apart._pairs == []
    assert placed()._pairs == [(0, 1)]


def test_gradients_reach_every_parameter() -> None:
    lists = EntitySet("list", 8, 2, 2)
    net = SetEncoder(13, (EntitySet("bases", 2, 2, 3, origin=(0, 1), place=2), lists), 5)
    for one in (net, placed()):
        one(placed_vector(32)).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in one.parameters())


def test_no_network_of_hmasd_knows_the_order() -> None:
    things = (EntitySet("things", 1, 2, 2),)
    networks = lively(replace(SIZES, observation_sets=things, state_sets=(EntitySet("all", 0, 2, 2),), entity_width=4))
    assert networks.coordinator is not None
    assert networks.team is not None
    assert networks.individual is not None
    state = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    seen = torch.randn(6, 3, 5, generator=torch.Generator().manual_seed(2))
    skills = torch.ones(6, 4, dtype=torch.int64)

    def outputs(state: Tensor, seen: Tensor) -> list[Tensor]:
        assert networks.coordinator is not None
        assert networks.team is not None
        assert networks.individual is not None
        memory = networks.discoverer.initial_memory(6)
        _, _, log_prob, value, _ = networks.discoverer.act(state, seen, skills, memory, torch.full((6, 3), 0.4))
        high = networks.coordinator.evaluate(high_chunks(state, seen, skills))
        guesses = networks.team(state), networks.individual(seen, skills[:, 1:])
        return [log_prob, value, high.log_prob, high.value, *guesses]

    with torch.no_grad():
        before = outputs(state, seen)
        turned = outputs(state[:, [2, 3, 0, 1]], seen[..., [0, 3, 4, 1, 2]])
        for one, other in zip(turned, before, strict=True):
            assert_equal_but_for_rounding(one, other)
        changed = outputs(state + 1.0, seen + 1.0)
    assert all(not torch.allclose(one, other) for one, other in zip(changed, before, strict=True))


def test_an_agent_of_uavs_does_not_know_the_order_of_users() -> None:
    """As training feeds it, with a sensing range and without, through a saved and loaded specification."""
    for options in ((), ("sensing_range=400",)):
        agent, collector = make(small(SKY, env_options=(*SKY.env_options, *options)))
        seen = collector._seen
        listed = agent.spec.observation_sets[1]
        users = seen.observation[..., listed.start : listed.end].reshape(4, 3, 6, 2)
        other = seen.observation.copy()
        other[..., listed.start : listed.end] = users[:, :, ::-1].reshape(4, 3, 12)
        if listed.present is not None:
            flags = slice(listed.present, listed.present + 6)
            assert 0 < seen.observation[..., flags].mean() < 1
            other[..., flags] = seen.observation[..., flags][..., ::-1]
        agent.reset(4, seed=1, greedy=True)
        mine = agent.act(seen.observation, seen.state)
        agent.reset(4, seed=1, greedy=True)
        np.testing.assert_allclose(agent.act(other, seen.state), mine, atol=1e-4)
        other[..., listed.start] += 0.3
        agent.reset(4, seed=1, greedy=True)
        assert np.abs(agent.act(other, seen.state) - mine).max() > 1e-3
