"""The agent: the synchronous cycle, and acting from a checkpoint without the trainer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from echelon.envs.alice_and_bob import parallel_env
from echelon.envs.make import make_vector_env
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.config import HMASDConfig
from echelon.runtime.checkpoint import save_checkpoint
from tests.hmasd.small import SKY, SMALL, make, small

pytestmark = pytest.mark.numeric


def saved(agent: HMASDAgent, folder: Path) -> Path:
    return save_checkpoint(folder, "one", tensors={"agent": agent.state_dict()}, state={}, config=agent.header())


def test_the_synchronous_cycle() -> None:
    agent, collector = make()
    assert (agent.policy_version, agent.samples_collected_this_round) == (0, 0)
    assert not agent.should_sync_update()
    with pytest.raises(ValueError, match="no round is stored"):
        agent.sync_update()
    rollout = collector.collect(0, 80)
    agent.store_round(rollout)
    assert agent.samples_collected_this_round == 80
    assert agent.should_sync_update()
    with pytest.raises(ValueError, match="a round is waiting already"):
        agent.store_round(rollout)
    agent.sync_update()
    assert (agent.policy_version, agent.samples_collected_this_round) == (1, 0)
    assert not agent.should_sync_update()
    with pytest.raises(ValueError, match="must be of policy version 1"):
        agent.store_round(rollout)


def test_a_short_round_is_not_ready() -> None:
    agent, collector = make()
    agent.store_round(collector.collect(0, 40))
    assert not agent.should_sync_update()


@pytest.mark.parametrize(
    "config", [SMALL, SKY, small(SKY, state_noise=True), small(algorithm="mappo"), small(algorithm="mat")]
)
def test_a_loaded_agent_acts_as_the_one_that_was_saved(config: HMASDConfig, tmp_path: Path) -> None:
    agent, collector = make(config)
    agent.update(collector.collect(0, 80))
    loaded = HMASDAgent.load(saved(agent, tmp_path))
    with make_vector_env(config.env, 3, 1, **config.environment_options()) as env:
        seen = env.reset()
        for played in (agent, loaded):
            played.reset(3, seed=4)
        for _ in range(8):
            actions = agent.act(seen.observation, seen.state)
            np.testing.assert_array_equal(loaded.act(seen.observation, seen.state), actions)
            seen = env.step(actions)


def test_it_plays_a_parallel_env_by_name_without_being_given_the_state(tmp_path: Path) -> None:
    agent, _ = make()
    loaded = HMASDAgent.load(saved(agent, tmp_path))
    env = parallel_env(max_steps=6)
    observations, _ = env.reset(seed=1)
    loaded.reset()
    while env.agents:
        actions = loaded.act(observations)
        assert set(actions) == set(env.agents)
        observations, *_ = env.step(actions)


@pytest.mark.parametrize("config", [SMALL, SKY, small(SKY, env="uav1")])
def test_the_state_follows_from_the_observations_of_our_environments(config: HMASDConfig) -> None:
    agent, _ = make(config)
    with make_vector_env(config.env, 3, 1, **config.environment_options()) as env:
        seen = env.reset()
        seen = env.step(np.zeros(env.spec.action_shape(3), env.spec.action_dtype))
        np.testing.assert_array_equal(agent.spec.state_from(seen.observation), seen.state)


def test_where_it_does_not_follow_the_agent_asks_for_it() -> None:
    agent, _ = make(small(SKY, env_options=(*SKY.env_options, "sensing_range=300")))
    seen = np.zeros((1, agent.sizes.agents, agent.sizes.obs), np.float32)
    with pytest.raises(ValueError, match="does not follow from its observations; give state="):
        agent.act(seen)
    assert agent.act(seen, np.zeros((1, agent.sizes.state))).shape == (1, 3, 3)


def test_skills_hold_for_k_steps_and_change_with_the_episode() -> None:
    agent, _ = make(small(k=3, agent_skills=50))
    seen = np.zeros((1, 2, 6), np.float32)
    agent.reset(1, seed=0)
    held = []
    for t in range(8):
        if t == 4:
            agent.restart(np.array([True]))
        agent.act(seen)
        held.append(tuple(agent.skills[0].tolist()))
    switches = [t for t in range(1, 8) if held[t] != held[t - 1]]
    assert switches == [3, 4, 7]


def test_a_greedy_agent_does_not_depend_on_the_seed_and_a_drawing_one_does() -> None:
    agent, _ = make()
    seen = np.zeros((64, 2, 6), np.float32)
    played = {}
    for greedy in (True, False):
        for seed in (1, 2):
            agent.reset(64, seed, greedy)
            played[greedy, seed] = agent.act(seen)
    np.testing.assert_array_equal(played[True, 1], played[True, 2])
    assert (played[False, 1] != played[False, 2]).any()
    assert (played[True, 1] == played[True, 1][0]).all()  # all worlds see the same


def test_episodes_without_a_seed_have_noise_of_their_own() -> None:
    agent, _ = make()
    seen = np.zeros((64, 2, 6), np.float32)
    played = []
    for seed in (5, None, 5):
        agent.reset(64, seed)
        played.append(agent.act(seen))
    np.testing.assert_array_equal(played[0], played[2])
    assert (played[0] != played[1]).any()


def test_wrong_shapes_and_agents_are_named() -> None:
    agent, _ = make()
    agent.reset(2)
    with pytest.raises(ValueError, match=r"must be \(2, 2, 6\)"):
        agent.act(np.zeros((3, 2, 6), np.float32))
    with pytest.raises(ValueError, match=r"unknown agents \['carol'\]"):
        agent.act({"carol": np.zeros(6)})


def test_a_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, "other", tensors={"policy": {"w": torch.zeros(1)}}, state={}, config={})
    with pytest.raises(ValueError, match="not one of HMASD"):
        HMASDAgent.load(path)


def test_loading_needs_neither_trainer_nor_environment(tmp_path: Path) -> None:
    agent, _ = make()
    path = saved(agent, tmp_path)
    code = (
        "import sys; from echelon.hmasd.agent import HMASDAgent; import numpy as np;"
        f"a = HMASDAgent.load({str(path)!r}); print(a.act(np.zeros((2, 6))).shape);"
        "assert a._learner is None; assert not {'echelon.hmasd.commands.train', 'echelon.envs.make'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "(2,)"), done.stderr
