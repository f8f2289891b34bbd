"""Sets of entities: their order and what is absent change nothing, in any network; what is there does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from echelon.envs.entities import EntitySet
from echelon.hmasd.networks.entities import EntityLayers, SetEncoder
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
