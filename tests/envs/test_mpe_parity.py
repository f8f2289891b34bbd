"""Our particle worlds and those of mpe2, played side by side: the same places and actions, the same everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from echelon.envs.dense import DenseEnv
from echelon.envs.mpe.speaker_listener import SimpleSpeakerListener
from echelon.envs.mpe.spread import SimpleSpread
from echelon.runtime.arrays import Array

pytest.importorskip("mpe2")

WORLDS, EPISODES = 16, 3


def spread(options: dict[str, Any]) -> tuple[SimpleSpread, Callable[[], Any], Callable[[DenseEnv, int, Any], None]]:
    from mpe2 import simple_spread_v3

    theirs = {"N": options["agents"], "local_ratio": options["local_ratio"], "max_cycles": 30}
    return SimpleSpread(WORLDS, max_steps=30, **options), lambda: simple_spread_v3.parallel_env(**theirs), as_in_spread


def as_in_spread(env: DenseEnv, row: int, world: Any) -> None:
    assert isinstance(env, SimpleSpread)
    env.position[row] = [agent.state.p_pos for agent in world.agents]
    env.landmarks[row] = [landmark.state.p_pos for landmark in world.landmarks]


def speaker(
    options: dict[str, Any],
) -> tuple[SimpleSpeakerListener, Callable[[], Any], Callable[[DenseEnv, int, Any], None]]:
    from mpe2 import simple_speaker_listener_v4

    return SimpleSpeakerListener(WORLDS, **options), simple_speaker_listener_v4.parallel_env, as_in_speaker


def as_in_speaker(env: DenseEnv, row: int, world: Any) -> None:
    assert isinstance(env, SimpleSpeakerListener)
    env.position[row] = world.agents[1].state.p_pos
    env.landmarks[row] = [landmark.state.p_pos for landmark in world.landmarks]
    env.goal[row] = world.landmarks.index(world.agents[0].goal_b)


CASES = {
    "spread": (spread, {"agents": 3, "local_ratio": 0.5}),
    "crowd": (spread, {"agents": 6, "local_ratio": 0.3}),  # who touches whom, and in which order forces are added
    "speaker_listener": (speaker, {}),
}


def drawn(env: DenseEnv, rng: np.random.Generator, t: int) -> Array:
    """Random actions; in the first steps of an episode all move towards the middle, so that they meet."""
    counts = env.spec.actions.counts  # type: ignore[union-attr]
    actions: Array = rng.integers(0, counts, (WORLDS, len(counts)))
    if isinstance(env, SimpleSpread) and t < 20:
        right, up = env.position[..., 0] < 0, env.position[..., 1] < 0
        inwards = np.where(rng.random(actions.shape) < 0.5, np.where(right, 2, 1), np.where(up, 4, 3))
        actions = np.where(rng.random(actions.shape) < 0.7, inwards, actions)
    return actions


@pytest.mark.parametrize("case", CASES)
def test_the_same_actions_give_the_same_worlds(case: str) -> None:
    make, options = CASES[case]
    env, theirs, place = make(options)
    env.autoreset = False
    rng, worlds, touched = np.random.default_rng(1), [theirs() for _ in range(WORLDS)], 0
    for episode in range(EPISODES):
        env.reset(episode)
        for row, other in enumerate(worlds):
            other.reset(seed=1000 * episode + row)
            place(env, row, other.unwrapped.world)
        seen = env._observed()
        for row, other in enumerate(worlds):
            np.testing.assert_allclose(seen.state[row], other.state(), rtol=1e-5, atol=1e-6)
        for t in range(env.spec.max_steps or 0):
            actions = drawn(env, rng, t)
            step = env.step(actions)
            for row, other in enumerate(worlds):
                given = dict(zip(env.spec.agents, map(int, actions[row]), strict=True))
                observations, rewards, terminated, truncated, _ = other.step(given)
                assert list(observations) == list(env.spec.agents)
                for i, agent in enumerate(env.spec.agents):
                    width = env.spec.obs_dims[i]
                    assert observations[agent].shape == (width,)
                    np.testing.assert_allclose(
                        step.final_observation[row, i, :width], observations[agent], rtol=1e-5, atol=1e-6
                    )
                    assert step.agent_reward[row, i] == pytest.approx(rewards[agent], rel=1e-5, abs=1e-6)
                    assert (terminated[agent], truncated[agent]) == (step.terminated[row], step.truncated[row])
                np.testing.assert_allclose(step.final_state[row], other.state(), rtol=1e-5, atol=1e-6)
                assert step.reward[row] == pytest.approx(np.mean(list(rewards.values())), rel=1e-5, abs=1e-6)
        assert step.truncated.all()
        touched += int(step.info["collisions"].sum()) if case != "speaker_listener" else 0
    assert touched > 50 or case == "speaker_listener", "agents must meet, or contact is not compared"


@pytest.mark.parametrize("case", ["spread", "speaker_listener"])
def test_the_same_spaces(case: str) -> None:
    make, options = CASES[case]
    env, theirs, _ = make(options)
    other = theirs()
    other.reset(seed=0)
    assert list(env.spec.agents) == other.possible_agents
    assert list(env.spec.obs_dims) == [other.observation_space(a).shape[0] for a in other.possible_agents]
    assert list(env.spec.actions.counts) == [other.action_space(a).n for a in other.possible_agents]  # type: ignore[union-attr]
    assert env.spec.state_dim == other.state_space.shape[0]


def test_episodes_begin_everywhere_in_the_square() -> None:
    env = SimpleSpread(4000, 3)
    env.reset()
    for places in (env.position, env.landmarks):
        assert places.min() >= -1
        assert places.max() <= 1
        np.testing.assert_allclose(places.mean(0), 0.0, atol=0.05)
        np.testing.assert_allclose(places.std(0), 1 / np.sqrt(3), atol=0.03)
    assert abs(np.corrcoef(env.position[:, 0, 0], env.landmarks[:, 0, 0])[0, 1]) < 0.06
    talk = SimpleSpeakerListener(3000, 3)
    seen = talk.reset()
    np.testing.assert_allclose(np.bincount(talk.goal) / 3000, 1 / 3, atol=0.04)
    assert not seen.observation[:, 1, -3:].any(), "nothing is said before the first step"


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="agents=1 must be at least 2"):
        SimpleSpread(1, agents=1)
    with pytest.raises(ValueError, match=r"local_ratio=1.5 must be in 0 .. 1"):
        SimpleSpread(1, local_ratio=1.5)
