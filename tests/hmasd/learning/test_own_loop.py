"""A user's own environment loop: the guide's names, and nothing else, train a toy; the round is that of the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.envs.foreign.world import spec_of
from echelon.envs.make import make_vector_env
from echelon.envs.random_streams import episode_seed, world_seeds
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.rollout import SkillCollector
from echelon.runtime.seeding import task_seed
from tests.envs import learnable
from tests.hmasd.small import enliven, small
from tests.hmasd.test_learns import QUICK


def loop(agent: HMASDAgent, envs: list[Any], rounds: int) -> list[float]:
    """As the guide has it; returns the mean reward of a step in each round."""
    observations = [env.reset(seed=i)[0] for i, env in enumerate(envs)]
    agent.start_collection(observations)
    means = []
    for _ in range(rounds):
        earned: list[float] = []
        while not agent.should_sync_update():
            for i, (env, actions) in enumerate(zip(envs, agent.next_actions(), strict=True)):
                assert set(actions) == set(env.agents)
                step = env.step(actions)
                first = None if env.agents else env.reset(seed=len(earned))[0]
                assert agent.store_transition(i, *step, first=first)
                earned.append(float(np.mean(list(step[1].values()))))
        version = agent.policy_version
        agent.sync_update()
        assert (agent.policy_version, agent.samples_collected_this_round) == (version + 1, 0)
        means.append(float(np.mean(earned)))
    return means


@pytest.mark.parametrize(
    ("name", "at_least"), [("sacrifice", 0.95), pytest.param("lone_cut", 0.6, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("algorithm", ["mappo", "hmasd"])
def test_the_guides_loop_learns_a_toy(algorithm: str, name: str, at_least: float, tmp_path: Path) -> None:
    envs = [getattr(learnable, name)() for _ in range(8)]
    config = {**QUICK.to_json(), "env": f"tests.envs.learnable:{name}", "envs": 8, "samples_per_update": 320}
    agent = HMASDAgent(HMASDConfig(**{**config, "env_options": (), "algorithm": algorithm}), spec_of(envs[0]))
    assert agent.sync_mode
    assert agent.sync_batch_size == 320
    means = loop(agent, envs, 30)
    assert np.mean(means[-3:]) > at_least  # at best 1 and .7
    loaded = HMASDAgent.load(agent.save(tmp_path))
    observations, _ = envs[0].reset(seed=1)
    assert set(loaded.act(observations)) == {"a", "b"}


def test_the_round_is_that_of_the_command() -> None:
    """The same worlds, once behind the protocol and once stepped by hand: the same rounds."""
    config = small(env="tests.envs.learnable:lone_cut", env_options=(), envs=3, samples_per_update=36)
    seeds = world_seeds(task_seed(0, "worlds"), 3)
    with make_vector_env(config.env, 3, seeds, workers=0) as worlds:
        agent = HMASDAgent(config, worlds.spec)
        enliven(agent)
        choices = world_seeds(task_seed(0, "choices"), 3)
        collector = SkillCollector(agent.networks, worlds, config.k, config.recurrent_chunk, choices, lambda: 0)
        expected = [collector.collect(0, 36) for _ in range(2)]
    envs = [learnable.lone_cut() for _ in range(3)]
    episode = [0, 0, 0]
    agent.start_collection([env.reset(seed=s)[0] for env, s in zip(envs, seeds, strict=True)])
    assert agent._loop is not None
    for wanted in expected:
        for _ in range(12):
            for i, (env, actions) in enumerate(zip(envs, agent.next_actions(), strict=True)):
                step = env.step(actions)
                first = None
                if not env.agents:
                    episode[i] += 1
                    first = env.reset(seed=episode_seed(seeds[i], episode[i]))[0]
                agent.store_transition(i, *step, first=first)
        found = agent._loop.take_round()
        for level, batch in wanted.items():
            for name in ("log_prob", "value", "next_value", "reward", "done", "terminated", "alive", "earns"):
                np.testing.assert_allclose(getattr(found[level], name), getattr(batch, name), 0, 1e-5, err_msg=name)


def test_what_is_stored_out_of_turn_is_refused() -> None:
    env = learnable.lone_cut()
    config = small(env="x:y", env_options=(), envs=1, samples_per_update=2, k=2)
    agent = HMASDAgent(config, spec_of(env))
    with pytest.raises(ValueError, match=r"call start_collection\(\)"):
        agent.next_actions()
    with pytest.raises(ValueError, match="observations of 2 worlds, but envs=1"):
        agent.start_collection([{}, {}])
    observations, _ = env.reset(seed=0)
    agent.start_collection([observations])
    step = env.step(agent.next_actions()[0])
    agent.disable_data_collection()
    assert not agent.collection_enabled
    assert agent.store_transition(0, *step) is False
    agent.enable_data_collection()
    with pytest.raises(ValueError, match=r"worlds \[0\] have not stored"):
        agent.next_actions()
    assert agent.store_transition(0, *step) is True
    assert agent.store_transition(0, *step) is False  # nothing was asked since
    with pytest.raises(ValueError, match="no round is stored"):
        agent.sync_update()
    agent.store_transition(0, *env.step(agent.next_actions()[0]))
    assert agent.should_sync_update()
    with pytest.raises(ValueError, match="the round is complete"):
        agent.next_actions()
    assert agent.sync_update().discoverer.decisions == 2
    over = env.step(agent.next_actions()[0])
    ended = dict.fromkeys(("a", "b"), True)
    with pytest.raises(ValueError, match="the episode of world 0 is over; give first="):
        agent.store_transition(0, over[0], over[1], ended, {})


def test_a_team_reward_and_one_flag_for_all_will_do() -> None:
    env = learnable.lone_cut()
    agent = HMASDAgent(small(env="x:y", env_options=(), envs=1, samples_per_update=2, k=2), spec_of(env))
    observations, _ = env.reset(seed=0)
    agent.start_collection([observations])
    for _ in range(2):
        step = env.step(agent.next_actions()[0])
        agent.store_transition(0, step[0], 0.5, False, False)
    assert agent.sync_update().rewards is not None
