"""The PettingZoo view of one world: PettingZoo's own test, whole-episode determinism, equality with the arrays."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from pettingzoo.test import parallel_api_test

from echelon.envs import alice_and_bob
from echelon.envs.make import make_vector_env
from echelon.envs.mpe import speaker_listener, spread
from echelon.envs.overcooked import env as kitchen
from echelon.envs.parallel import SingleWorld
from echelon.envs.uav import env as uav

VIEWS: dict[str, Callable[..., SingleWorld]] = {
    "uav1": lambda **o: uav.parallel_env("uav1", **o),
    "uav2": lambda **o: uav.parallel_env("uav2", **o),
    "uav2-relay": lambda **o: uav.parallel_env("uav2-relay", sensing_range=400.0, **o),
    "uav1-3gpp": lambda **o: uav.parallel_env("uav1", channel="3gpp-36777", **o),
    "alice_and_bob": alice_and_bob.parallel_env,
    "overcooked:cramped_room": lambda **o: kitchen.parallel_env("cramped_room", random_starts=True, **o),
    "simple_spread": spread.parallel_env,
    "simple_speaker_listener": speaker_listener.parallel_env,
}


@pytest.mark.parametrize("view", VIEWS)
def test_pettingzoos_own_test(view: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(VIEWS[view](max_steps=60), num_cycles=100)
        parallel_api_test(VIEWS[view](), num_cycles=30)


@pytest.mark.parametrize("view", VIEWS)
def test_the_view_of_one_world_is_deterministic_over_whole_episodes(view: str) -> None:
    def trace(seed: int) -> list[Any]:
        env, seen = VIEWS[view](max_steps=25), list[Any]()
        for episode in range(3):  # the second and third continue the stream
            observations, _ = env.reset(seed=seed if episode == 0 else None)
            seen.append(observations)
            for t in itertools.count():
                for i, space in enumerate(env.action_spaces.values()):
                    space.seed(1000 * episode + 10 * t + i)
                seen += env.step({a: env.action_space(a).sample() for a in env.agents})[:4]
                assert all(env.observation_space(a).contains(o) for a, o in seen[-4].items())
                assert env.state_space.contains(env.state())
                if not env.agents:
                    break
        return seen

    one, two, other = trace(4), trace(4), trace(5)
    assert all(np.array_equal(a[k], b[k]) for a, b in zip(one, two, strict=True) for k in a)
    assert any(not np.array_equal(a[k], b[k]) for a, b in zip(one, other, strict=True) for k in a)


@pytest.mark.parametrize("view", ["uav2", "alice_and_bob", "overcooked:cramped_room"])
def test_the_view_equals_the_arrays_over_several_episodes(view: str) -> None:
    single, own = VIEWS[view](max_steps=5), {"random_starts": True} if view.startswith("overcooked") else {}
    arrays = make_vector_env(view, 1, [6], max_steps=5, **own)
    seen, _ = single.reset(seed=6)
    row, rng = arrays.reset(), np.random.default_rng(0)
    for t in range(17):
        assert [seen[a].tolist() for a in single.possible_agents] == row.observation[0].tolist()
        actions = rng.uniform(-1, 1, (1, 5, 3)) if view == "uav2" else rng.integers(0, 5, (1, 2))
        row = arrays.step(actions)
        seen, rewards, terminated, truncated, infos = single.step(dict(zip(single.agents, actions[0], strict=True)))
        assert [seen[a].tolist() for a in single.possible_agents] == row.final_observation[0].tolist()
        assert single.state().tolist() == row.final_state[0].tolist()
        assert list(rewards.values()) == row.agent_reward[0].tolist()
        assert set(truncated.values()) == {bool(row.truncated[0])}
        assert set(terminated.values()) == {False}
        info = infos[single.possible_agents[0]]
        assert info.keys() == row.info.keys()
        for key, value in info.items():  # the arrays' info is that of the step, also where a new episode has begun
            np.testing.assert_array_equal(value, row.info[key][0], err_msg=f"{key} at {t}")
        if not single.agents:
            seen, _ = single.reset()


@pytest.mark.parametrize("view", ["uav1", "alice_and_bob", "overcooked:cramped_room"])
def test_rendering_of_the_view(view: str) -> None:
    env = VIEWS[view](render_mode="rgb_array", max_steps=2)
    env.reset(seed=0)
    first = env.render()
    for _ in range(2):
        env.step({a: env.action_space(a).sample() for a in env.agents})
    last = env.render()  # after the end: the last picture of the episode, not the first of another
    assert isinstance(first, np.ndarray)
    assert isinstance(last, np.ndarray)
    assert first.dtype == np.uint8
    assert (first != last).any()
    with pytest.raises(ValueError, match="render_mode"):
        VIEWS[view]().render()
    with pytest.raises(ValueError, match="render_mode='ascii'"):
        VIEWS[view](render_mode="ascii")


@pytest.mark.parametrize("view", ["uav1", "alice_and_bob"])
def test_a_window_follows_the_world(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")  # a window without a screen
    plt = pytest.importorskip("matplotlib.pyplot")
    env = VIEWS[view](render_mode="human")
    env.reset(seed=0)
    (number,) = plt.get_fignums()
    shown = plt.figure(number).axes[0].images[0]
    before = np.asarray(shown.get_array()).copy()
    env.step({a: env.action_space(a).sample() for a in env.agents})
    assert env.render() is None
    after = np.asarray(shown.get_array())
    np.testing.assert_array_equal(after, env.worlds.render())
    assert (before != after).any()
    env.close()
    assert not plt.get_fignums()


@pytest.mark.parametrize("view", VIEWS)
def test_the_view_wants_an_action_of_every_agent(view: str) -> None:
    env = VIEWS[view]()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="must act"):
        env.step({env.agents[0]: env.action_space(env.agents[0]).sample()})
    space = env.action_space(env.agents[0])
    if isinstance(space, Box):
        with pytest.raises(ValueError, match="NaN"):
            env.step({a: np.full(3, np.nan, dtype=np.float32) for a in env.agents})
