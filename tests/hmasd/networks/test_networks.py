"""The networks: one teacher-forced pass equals acting in turns; who sees what."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from echelon.hmasd.networks.coordinator import SkillCoordinator
from echelon.hmasd.networks.discoverer import SkillDiscoverer
from echelon.hmasd.networks.networks import HMASDNetworks
from echelon.hmasd.networks.sizes import Sizes
from echelon.hmasd.networks.transformer import TransformerPolicy
from echelon.onpolicy.chunks import Chunks
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric

SIZES = Sizes(
    agents=3, obs=5, state=4, actions=2, continuous=False, team_skills=3, agent_skills=4, hidden=16, encoder_layers=2,
    decoder_layers=2, heads=4, recurrent=True, critic_sees_skills=False, state_noise=False,
)  # fmt: skip


def lively(sizes: Sizes = SIZES) -> HMASDNetworks:
    networks = HMASDNetworks.seeded(sizes, 3)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in networks.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.4)
    return networks


def coordinator() -> SkillCoordinator:
    found = lively().coordinator
    assert found is not None
    return found


def seen(rows: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, 4, generator=generator), torch.randn(rows, 3, 5, generator=generator)


def high_chunks(state: Tensor, observation: Tensor, skills: Tensor) -> Chunks:
    blank = torch.zeros(1, *skills.shape)
    return Chunks(
        {"state": state[None], "observation": observation[None]}, {"skills": skills.clone()[None]}, {}, {},
        torch.zeros(1, len(state), dtype=torch.bool), blank, blank, blank, blank, blank.bool(), blank.bool(),
    )  # fmt: skip


def test_the_teacher_forced_pass_gives_the_log_probabilities_of_acting_in_turns() -> None:
    net = coordinator()
    state, observation = seen(64)
    uniform = torch.rand(64, 4, generator=torch.Generator().manual_seed(2))
    skills, log_prob, value = net.act(state, observation, uniform)
    now = net.evaluate(high_chunks(state, observation, skills))
    assert_equal_but_for_rounding(now.log_prob[0], log_prob)
    assert_equal_but_for_rounding(now.value[0], value)
    assert log_prob.std() > 0.1  # the choices are not all alike: the comparison means something
    assert min(len(set(skills[:, i].tolist())) for i in range(4)) > 1


def test_every_skill_sees_the_earlier_ones_and_none_of_the_later() -> None:
    net = coordinator()
    state, observation = seen(1)
    base = torch.zeros(1, 4, dtype=torch.long)

    def log_probs(skills: Tensor) -> Tensor:
        return net.evaluate(high_chunks(state, observation, skills)).log_prob[0, 0].detach()

    before = log_probs(base)
    for changed in range(4):
        other = base.clone()
        other[0, changed] = 1
        moved = (log_probs(other) - before).abs() > 1e-6
        assert not moved[:changed].any()
        assert moved[changed:].all()


def test_every_skill_sees_the_whole_state_and_all_observations() -> None:
    """The encoder is not masked: even Z, chosen first, depends on the last agent's observation."""
    net = coordinator()
    state, observation = seen(1)
    skills = torch.zeros(1, 4, dtype=torch.long)
    before = net.evaluate(high_chunks(state, observation, skills))
    observation[0, 2, 0] += 1.0
    after = net.evaluate(high_chunks(state, observation, skills))
    assert ((after.log_prob - before.log_prob).abs() > 1e-6).all()
    assert ((after.value - before.value).abs() > 1e-6).all()


def test_the_greedy_choice_is_the_most_probable_in_turn() -> None:
    net = coordinator()
    state, observation = seen(8)
    greedy, log_prob, _ = net.act(state, observation, None)
    for i, classes in enumerate((3, 4, 4, 4)):
        for choice in range(classes):
            other = greedy.clone()
            other[:, i] = choice
            scored = net.evaluate(high_chunks(state, observation, other)).log_prob[0, :, i]
            assert (scored <= log_prob[:, i] + 1e-5).all()


def test_sampling_is_by_the_given_numbers_and_has_the_right_frequencies() -> None:
    net = coordinator()
    state, observation = (x.expand(4000, *x.shape[1:]) for x in seen(1))
    uniform = torch.rand(4000, 4, generator=torch.Generator().manual_seed(0))
    skills, log_prob, _ = net.act(state, observation, uniform)
    again, _, _ = net.act(state, observation, uniform)
    assert torch.equal(skills, again)
    share = (skills[:, 0] == 1).float().mean()
    expected = log_prob[skills[:, 0] == 1, 0][0].exp()
    assert abs(share - expected) < 4 * (expected * (1 - expected) / 4000) ** 0.5


def value_of(net: SkillDiscoverer | TransformerPolicy, skills: Tensor) -> Tensor:
    seen = torch.ones(1, SIZES.agents, SIZES.obs)
    return net.value(torch.ones(1, 4), seen, skills, net.initial_memory(1)["critic"])[0]


def test_the_critic_sees_the_team_skill_and_not_the_agents() -> None:
    net = lively().discoverer
    base = value_of(net, torch.tensor([[0, 0, 0, 0]]))
    assert torch.equal(base, value_of(net, torch.tensor([[0, 1, 2, 3]])))
    assert not torch.equal(base, value_of(net, torch.tensor([[1, 0, 0, 0]])))
    assert (base == base[0]).all()


def test_with_the_option_the_critic_sees_all_skills_and_values_agents_apart() -> None:
    net = lively(replace(SIZES, critic_sees_skills=True)).discoverer
    base = value_of(net, torch.tensor([[0, 0, 0, 0]]))
    assert len(set(base.tolist())) == 3
    for i in range(4):
        other = torch.zeros(1, 4, dtype=torch.long)
        other[0, i] = 1
        assert not torch.equal(base, value_of(net, other))


def test_the_actor_sees_its_own_skill_only() -> None:
    net = lively().discoverer
    state, observation = seen(1)
    memory = net.initial_memory(1)

    def log_probs(skills: list[int]) -> Tensor:
        _, _, log_prob, _, _ = net.act(state, observation, torch.tensor([skills]), memory, torch.full((1, 3), 0.01))
        return log_prob[0]

    base, other = log_probs([0, 0, 0, 0]), log_probs([2, 0, 3, 0])
    assert (base != other).tolist() == [False, True, False]


def test_memories_belong_to_the_agent() -> None:
    net = lively().discoverer
    state, observation = seen(1)
    memory = net.initial_memory(1)
    skills = torch.zeros(1, 4, dtype=torch.long)
    _, _, _, _, after = net.act(state, observation, skills, memory, None)
    observation[0, 1] += 1.0
    _, _, _, _, changed = net.act(state, observation, skills, memory, None)
    assert (after["actor"] != changed["actor"]).any(-1)[0].tolist() == [False, True, False]
    assert torch.equal(after["critic"], changed["critic"])


def test_continuous_actions_are_bounded_and_forbidden_ones_never_taken() -> None:
    net = lively(replace(SIZES, continuous=True)).discoverer
    state, observation = (100 * x for x in seen(50))
    memory, skills = net.initial_memory(50), torch.zeros(50, 4, dtype=torch.long)
    _, action, log_prob, _, _ = net.act(state, observation, skills, memory, 5 * torch.randn(50, 3, 2))
    assert action.abs().max() <= 1.0
    assert torch.isfinite(log_prob).all()
    discrete = lively().discoverer
    mask = torch.tensor([True, False]).expand(50, 3, 2)
    stored, _, _, _, _ = discrete.act(state, observation, skills, memory, torch.rand(50, 3), mask)
    assert (stored == 0).all()


def test_nothing_is_random_but_the_draws() -> None:
    networks = lively()
    assert not [m for m in networks.modules() if isinstance(m, nn.Dropout)]
    assert networks.training
    net = coordinator()
    state, observation = seen(4)
    uniform = torch.full((4, 4), 0.3)
    torch.testing.assert_close(net.act(state, observation, uniform)[1], net.eval().act(state, observation, uniform)[1])


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(0)
    before = torch.rand(1)
    torch.manual_seed(0)
    a = HMASDNetworks.seeded(SIZES, 4).state_dict()
    assert torch.equal(torch.rand(1), before)
    torch.manual_seed(99)
    b = HMASDNetworks.seeded(SIZES, 4).state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert any(not torch.equal(a[name], t) for name, t in HMASDNetworks.seeded(SIZES, 5).state_dict().items())


def test_an_untrained_critic_values_all_places_alike() -> None:
    """Else advantages of the first rounds are its opinions, and every skill goes where it happens to see value."""
    networks = HMASDNetworks.seeded(SIZES, 4)
    state, observation = seen(64)
    skills = torch.zeros(64, 1 + SIZES.agents, dtype=torch.long)
    memory = networks.discoverer.initial_memory(64)
    _, _, _, value, _ = networks.discoverer.act(state, observation, skills, memory, None)
    assert value.std(0).max() < 0.05


def test_discriminators_are_distributions_and_the_individual_one_knows_the_team_skill() -> None:
    networks = lively()
    assert networks.team is not None
    assert networks.individual is not None
    state, observation = seen(6)
    torch.testing.assert_close(networks.team(state).exp().sum(-1), torch.ones(6))
    zeros = torch.zeros(6, 3, dtype=torch.long)
    own = networks.individual(observation, zeros)
    torch.testing.assert_close(own.exp().sum(-1), torch.ones(6, 3))
    assert not torch.allclose(own, networks.individual(observation, zeros + 1))


def test_without_skills_there_is_only_the_policy() -> None:
    networks = HMASDNetworks.seeded(replace(SIZES, team_skills=0, agent_skills=0), 0)
    assert (networks.coordinator, networks.team, networks.individual) == (None, None, None)
    state, observation = seen(2)
    _, _, log_prob, value, _ = networks.discoverer.act(
        state, observation, None, networks.discoverer.initial_memory(2), None
    )
    assert log_prob.shape == value.shape == (2, 3)


@pytest.mark.parametrize("noise", [False, True])
def test_noise_depends_on_what_an_agent_sees_if_it_may(noise: bool) -> None:
    """The same normal draw moves the action by another amount from another observation, or by the same."""
    net = lively(replace(SIZES, continuous=True, recurrent=False, state_noise=noise)).discoverer
    observation = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1))
    skills, memory = torch.zeros(2, 4, dtype=torch.int64), net.initial_memory(2)
    without, drawn = (
        net.act(torch.zeros(2, 4), observation, skills, memory, draws)[0] for draws in (None, torch.ones(2, 3, 2))
    )
    moved = drawn - without  # the deviation, (worlds, agents, numbers)
    assert torch.allclose(moved, moved[:1, :1].expand_as(moved), atol=1e-6) is not noise
    assert (moved > 0).all()


def low_chunks(observation: Tensor, stored: Tensor) -> Chunks:
    blank = torch.zeros(1, *observation.shape[:2])
    return Chunks(
        {"state": torch.zeros(1, len(observation), 4), "observation": observation[None]}, {"action": stored[None]}, {},
        {}, torch.zeros(1, len(observation), dtype=torch.bool), blank, blank, blank, blank, blank.bool(), blank.bool(),
    )  # fmt: skip


PLAIN = replace(SIZES, team_skills=0, agent_skills=0, recurrent=False)


def test_an_independent_critic_values_an_agent_by_what_it_sees_alone() -> None:
    own, shared = (lively(replace(PLAIN, own_critic=alone)).discoverer for alone in (True, False))
    state, observation = seen(1)
    other, elsewhere = observation.clone(), state + 1
    other[:, 1] += 1
    for net, changed in ((own, [False, True, False]), (shared, [False, False, False])):
        memory = net.initial_memory(1)["critic"]
        before, after = (net.value(state, o, None, memory)[0] for o in (observation, other))
        assert (before != after).tolist() == changed
        moved = net.value(elsewhere, observation, None, memory)[0]
        assert (moved != before).all() == (net is shared)
    assert len({x.item() for x in own.value(state, observation, None, own.initial_memory(1)["critic"])[0]}) == 3


@pytest.mark.parametrize("continuous", [False, True])
def test_a_transformer_scores_in_one_pass_what_it_chose_in_turns(continuous: bool) -> None:
    net = lively(replace(PLAIN, transformer=True, continuous=continuous)).discoverer
    state, observation = seen(64)
    generator = torch.Generator().manual_seed(2)
    draws = torch.randn(64, 3, 2, generator=generator) if continuous else torch.rand(64, 3, generator=generator)
    stored, action, log_prob, value, _ = net.act(state, observation, None, net.initial_memory(64), draws)
    now = net.evaluate(low_chunks(observation, stored.clone()))
    assert_equal_but_for_rounding(now.log_prob[0], log_prob)
    assert_equal_but_for_rounding(now.value[0], value)
    assert action.shape == stored.shape
    # an agent sees what the earlier ones chose, never what later ones do
    altered = stored.clone()
    altered[:, 1] = altered[:, 1] + 1.0 if continuous else 1 - altered[:, 1]
    after = net.evaluate(low_chunks(observation, altered)).log_prob[0]
    assert_equal_but_for_rounding(after[:, 0], log_prob[:, 0])
    assert (after[:, 2] - log_prob[:, 2]).abs().min() > 1e-6


def test_one_agent_alone_is_a_transformer_too() -> None:
    net = lively(replace(PLAIN, transformer=True, agents=1)).discoverer
    observation = torch.ones(4, 1, 5)
    stored, *_ = net.act(torch.zeros(4, 4), observation, None, net.initial_memory(4), None)
    net.evaluate(low_chunks(observation, stored.clone())).log_prob.sum().backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for name, parameter in net.named_parameters() if "value" not in name)
