"""Collecting: the skill clock, true spans and bootstraps, memories, what is stored with what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from echelon.envs.make import make_vector_env
from echelon.envs.vector import VectorStep
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.rollout import COORDINATOR, DISCOVERER, SkillCollector
from echelon.onpolicy.batch import RolloutBatch, VersionError
from echelon.onpolicy.chunks import to_chunks
from echelon.runtime.arrays import Array
from tests.hmasd.small import SKY, SMALL, make, small
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric

LEVELS = (COORDINATOR, DISCOVERER)


def expected_spans(k: int, steps: int, episode: int, age: int = 0) -> list[int]:
    """Lengths of segments in a round of `steps`, when the running episode is `age` steps old."""
    spans, length = [], 0
    for t in range(steps):
        length, age = length + 1, age + 1
        ended = age == episode
        if ended or length == k or t == steps - 1:
            spans.append(length)
            length = 0
        age = 0 if ended else age
    return spans


@pytest.mark.parametrize("k", [1, 2, 10, 25, 50])
@pytest.mark.parametrize("episode", [23, 100])
def test_skills_switch_exactly_every_k_steps_and_at_episode_ends(k: int, episode: int) -> None:
    config = small(k=k, envs=2, samples_per_update=120, env_options=(f"max_steps={episode}",))
    _, collector = make(config)
    age = 0
    for _ in range(2):
        rollout = collector.collect(0, 120)
        high, low = rollout[COORDINATOR], rollout[DISCOVERER]
        expected = expected_spans(k, 60, episode, age)
        starts = np.cumsum([0, *expected[:-1]])
        for b in range(2):
            assert high.span[high.valid[:, b], b].tolist() == expected
            # the skills in force at each step are those of the segment the step belongs to
            held = np.repeat(high.action["skills"][: len(expected), b], expected, axis=0)
            np.testing.assert_array_equal(low.observation["skills"][:, b], held)
            # and what the coordinator saw is the start of the segment, not its end
            for name in ("state", "observation"):
                np.testing.assert_array_equal(
                    high.observation[name][: len(expected), b], low.observation[name][starts, b]
                )
        age = (age + 60) % episode


BASELINES = [
    *(small(base, algorithm=algorithm) for base in (SMALL, SKY) for algorithm in ("mappo", "ippo", "mat")),
    small(algorithm="ippo", recurrent=False),
    small(SKY, algorithm="mat", state_noise=True),
]


@pytest.mark.parametrize(
    "config",
    [
        SMALL, SKY, small(SKY, state_noise=True), small(recurrent=False), small(critic_sees_skills=True), *BASELINES,
    ],
)  # fmt: skip
def test_before_the_first_update_every_ratio_of_both_levels_is_one(config: HMASDConfig) -> None:
    agent, collector = make(config)
    collector.collect(0, 80)
    rollout = collector.collect(0, 80)  # in the middle of episodes
    for level, batch in rollout.items():
        chunks = to_chunks(batch, batch.reward, batch.reward)
        policy = agent.networks.coordinator if level == COORDINATOR else agent.networks.discoverer
        assert policy is not None
        with torch.no_grad():
            now = policy.evaluate(chunks)
        assert chunks.acts.sum() == batch.acts.sum() > 0
        assert_equal_but_for_rounding(now.log_prob[chunks.acts], chunks.log_prob[chunks.acts])
        assert_equal_but_for_rounding(now.value[chunks.acts], chunks.value[chunks.acts])
        assert chunks.log_prob[chunks.acts].std() > 0.05


def test_segment_rewards_are_the_sums_and_none_is_thrown_away() -> None:
    _, collector = make(SKY)
    rollout = collector.collect(0, 80)
    high, low = rollout[COORDINATOR], rollout[DISCOVERER]
    np.testing.assert_allclose(high.reward.sum(0)[:, 0], low.reward.sum(0)[:, 0], rtol=1e-5)
    assert (high.span.sum(0) == 20).all()
    _, sparse = make()  # no reward anywhere
    silent = sparse.collect(0, 80)[COORDINATOR]
    assert not silent.reward.any()
    # round of 20, k = 5, first episode of 17: 5, 5, 5, 2 | 3
    assert silent.valid.sum(0).tolist() == [5] * 4


def last_of_segments(high: RolloutBatch, column: int) -> Array:
    return np.cumsum(high.span[high.valid[:, column], column]) - 1


def test_cut_segments_bootstrap_from_what_really_followed() -> None:
    agent, collector = make()
    rollout = collector.collect(0, 80)
    high, low = rollout[COORDINATOR], rollout[DISCOVERER]
    assert agent.networks.coordinator is not None
    state, observation = (torch.from_numpy(low.extra[f"next_{n}"]) for n in ("state", "observation"))
    for b in range(4):
        ends = last_of_segments(high, b)
        true = agent.networks.coordinator.value(state[ends, b], observation[ends, b]).numpy()
        assert_equal_but_for_rounding(high.next_value[: len(ends), b], true)
        assert ends.tolist() == [4, 9, 14, 16, 19]
        assert high.done[:5, b, 0].tolist() == [False, False, False, True, False]
    assert not high.terminated.any()  # the time limit is not a termination


def test_low_level_truncation_bootstraps_from_the_true_last_state() -> None:
    agent, collector = make(small(recurrent=False))
    low = collector.collect(0, 80)[DISCOVERER]
    assert not low.terminated.any()
    assert low.done[:, 0, 0].nonzero()[0].tolist() == [16]
    skills = torch.from_numpy(low.observation["skills"][16])
    memory = agent.networks.discoverer.initial_memory(4)["critic"]
    state, seen = (torch.from_numpy(low.extra[name][16]) for name in ("next_state", "next_observation"))
    true = agent.networks.discoverer.value(state, seen, skills, memory)
    assert_equal_but_for_rounding(low.next_value[16], true)
    assert not np.allclose(low.next_value[16], low.value[17])  # which is of the next episode
    np.testing.assert_allclose(low.next_value[:16], low.value[1:17])


MORTAL = small(env="tests.envs.odd_envs:mortal", env_options=(), envs=2, samples_per_update=24)
"""Agent 1 dies in step 2, agent 2 is born in step 3, all terminate in step 5; every step pays 2."""


def test_the_return_of_a_dead_agent_continues_to_the_end_of_the_episode() -> None:
    agent, collector = make(MORTAL)
    rollout = collector.collect(0, 24)
    low, high = rollout[DISCOVERER], rollout[COORDINATOR]
    assert low.alive[:5, 0].tolist() == [[1, 1, 0], [1, 1, 0], [1, 0, 0], [1, 0, 1], [1, 0, 1]]
    for batch in (low, high):
        assert batch.earning[batch.valid].all()
        np.testing.assert_array_equal(batch.terminated, batch.done)
        assert (batch.terminated.all(-1) == batch.terminated.any(-1)).all()
        assert (batch.next_value[batch.terminated] == 0).all()
    assert low.terminated[:, 0, 0].nonzero()[0].tolist() == [4, 9]
    assert (low.reward == 2).all()
    learner = agent.learner.levels.levels[DISCOVERER]
    _, target = learner.advantages(low)
    np.testing.assert_allclose(target[4], 2.0, rtol=1e-6)  # of the dead, too: the last step pays 2
    assert agent.learner.update(rollout).discoverer.ratio_error < 1e-4


def test_with_the_other_reading_the_return_ends_with_the_agent() -> None:
    agent, collector = make(MORTAL)
    collector.death_ends_return = True
    rollout = collector.collect(0, 24)
    low, high = rollout[DISCOVERER], rollout[COORDINATOR]
    np.testing.assert_array_equal(low.earns, low.alive)
    assert low.terminated[:5, 0].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0], [1, 1, 1]]
    assert (low.next_value[low.terminated] == 0).all()
    assert high.alive[0, 0].tolist() == [True, True, True, False]
    assert high.terminated[0, 0].all()
    agent.learner.update(rollout)


@pytest.mark.parametrize("death_ends_return", [False, True])
def test_an_agent_cut_alone_is_bootstrapped_alone(death_ends_return: bool) -> None:
    """Agent b leaves after step 3 of 10; k = 5."""
    config = small(env="tests.envs.learnable:lone_cut", env_options=(), envs=2, samples_per_update=24, recurrent=False)
    agent, collector = make(config)
    collector.death_ends_return = death_ends_return
    rollout = collector.collect(0, 24)
    low, high = rollout[DISCOVERER], rollout[COORDINATOR]
    assert not low.terminated.any()
    assert low.done[:4, 0].tolist() == [[0, 0], [0, 0], [0, 1], [0, 0]]
    state, seen = (torch.from_numpy(low.extra[name][2]) for name in ("next_state", "next_observation"))
    skills = torch.from_numpy(low.observation["skills"][2])
    memory = agent.networks.discoverer.initial_memory(2)["critic"]
    true = agent.networks.discoverer.value(state, seen, skills, memory)
    np.testing.assert_allclose(low.next_value[2], true, atol=1e-6)
    assert high.done[0, 0].tolist() == [False, False, death_ends_return]
    assert not (high.terminated & high.earning).any()
    agent.learner.update(rollout)


def test_nothing_is_learnt_from_the_partial_episode_of_a_crashed_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """World 1 crashes in its eighth step: both levels leave out what it did before, and only that."""
    _, collector = make()
    env, taken = collector.env, 0

    def step(actions: Array) -> VectorStep:
        nonlocal taken
        taken += 1
        now, crashed = type(env).step(env, actions), np.arange(4) == 1
        return now if taken != 8 else replace(now, dropped=crashed, truncated=now.truncated | crashed)

    monkeypatch.setattr(env, "step", step)
    rollout = collector.collect(0, 80)
    low, high = rollout[DISCOVERER], rollout[COORDINATOR]
    assert low.acts[:, 1].any(-1).tolist() == [False] * 8 + [True] * 12
    assert low.acts[:, [0, 2, 3]].all()
    np.testing.assert_array_equal(low.earning, low.acts)
    spans, used = high.span[:, 1], high.acts[:, 1].any(-1)  # segments of 5 steps; the second ends with the crash
    assert (spans[~used & high.valid[:, 1]].tolist(), spans[used].tolist()) == ([5, 3], [5, 4, 3])
    assert high.acts[:, 0][high.valid[:, 0]].all()


def test_next_observations_are_of_the_same_episode() -> None:
    _, collector = make()
    low = collector.collect(0, 80)[DISCOVERER]
    ended = low.done[:, :, 0]
    for name in ("observation", "state"):
        after, following = low.extra[f"next_{name}"][:-1], low.observation[name][1:]
        same = (after == following).reshape(19, 4, -1).all(-1)
        assert same[~ended[:-1]].all()
        assert not same[ended[:-1]].any()
    # Alice's place is in both state and observation: the pair is of one moment
    np.testing.assert_array_equal(low.observation["state"][:, :, :2], low.observation["observation"][:, :, 0, :2])


def test_memories_start_at_zero_with_each_episode_and_are_those_of_the_replay() -> None:
    agent, collector = make()
    low = collector.collect(0, 80)[DISCOVERER]
    assert low.reset[:, 0].nonzero()[0].tolist() == [0, 17]
    assert low.state["actor"].shape == (4, 4, 2, 16)  # chunks at 0, 6, 12, 18; worlds; agents; width
    memory = agent.networks.discoverer.initial_memory(4)
    for t in range(20):
        if t == 17:
            memory = agent.networks.discoverer.initial_memory(4)
        if t % 6 == 0:
            assert_equal_but_for_rounding(low.state["actor"][t // 6], memory["actor"])
            assert_equal_but_for_rounding(low.state["critic"][t // 6], memory["critic"])
        state, seen, skills = (torch.from_numpy(low.observation[n][t]) for n in ("state", "observation", "skills"))
        *_, memory = agent.networks.discoverer.act(state, seen, skills, memory, None)
    actor = low.state["actor"][2]
    assert len(np.unique(actor.reshape(-1, 16).round(6), axis=0)) == 8  # one for each (world, agent)


def test_a_sample_is_one_joint_step_and_rounds_are_of_equal_shares() -> None:
    _, collector = make()
    low = collector.collect(0, 80)[DISCOVERER]
    assert low.decisions == 80
    assert low.valid.sum(0).tolist() == [20] * 4
    with pytest.raises(ValueError, match="steps=81 is not a multiple of envs=4; use 80 or 84"):
        collector.collect(0, 81)


def test_another_version_is_refused_before_anything_is_collected() -> None:
    _, collector = make()
    with pytest.raises(VersionError, match="asked to collect with policy version 1, but the networks hold 0"):
        collector.collect(1, 80)


def test_a_world_does_the_same_whatever_worlds_are_beside_it() -> None:
    agent, together = make()
    whole = together.collect(0, 80)[DISCOVERER]
    seeds = [int(s) for s in make_seeds(0, 4)]
    alone = SkillCollector(
        agent.networks, make_vector_env("alice_and_bob", 2, seeds[2:], max_steps=17), 5, 6, [2, 3], lambda: 0
    )
    part = alone.collect(0, 40)[DISCOVERER]
    np.testing.assert_array_equal(part.action["action"], whole.action["action"][:, 2:])
    assert_equal_but_for_rounding(part.log_prob, whole.log_prob[:, 2:])


def make_seeds(seed: int, count: int) -> list[int]:
    from echelon.envs.random_streams import world_seeds

    return world_seeds(seed, count)


def test_a_saved_collector_continues_bit_for_bit() -> None:
    for config in (SMALL, SKY):
        agent, collector = make(config)
        collector.collect(0, 40)
        saved = collector.state_dict()
        expected = collector.collect(0, 80)
        _, other = make(config, seed=5)
        other.networks.load_state_dict(agent.networks.state_dict())
        other.load_state_dict(saved)
        again = other.collect(0, 80)
        for level in LEVELS:
            for name in ("log_prob", "value", "next_value", "reward", "span", "done"):
                np.testing.assert_array_equal(getattr(again[level], name), getattr(expected[level], name))


def test_episodes_are_reported_with_their_results() -> None:
    _, collector = make()
    collector.collect(0, 80)
    assert collector.episodes.lengths.tolist() == [17] * 4
    assert collector.episodes.success is not None
    assert collector.episodes.success.shape == (4,)
    collector.collect(0, 40)
    assert collector.episodes.returns.shape == (0,)


def test_actions_fit_bounds_that_are_not_one() -> None:
    config = replace(SMALL, env="tests.envs.odd_envs:two_boxes", env_options=(), envs=2, samples_per_update=8)
    env = make_vector_env(config.env, 2, 0, workers=0)
    agent = HMASDAgent(config, env.spec)
    low, high = agent.actions.to_env(torch.full((2, 2, env.spec.actions.width), -1.0)), None
    high = agent.actions.to_env(torch.full((2, 2, env.spec.actions.width), 1.0))
    np.testing.assert_allclose(low[0], env.spec.actions.low_array)  # type: ignore[union-attr]
    np.testing.assert_allclose(high[0], env.spec.actions.high_array)  # type: ignore[union-attr]
