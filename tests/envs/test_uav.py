"""The UAV scenarios: rewards worked out by hand, observations, users, and the specification's figures by real runs."""

import math
from dataclasses import replace

import numpy as np
import pytest

from echelon.envs.uav.config import PRESETS, UAVConfig, uav_config
from echelon.envs.uav.env import BASE_STATION, IDLE, RELAY, UAVEnv
from echelon.envs.vector import VectorStep


def place(config: UAVConfig, uavs: list[list[float]], users: list[list[float]]) -> tuple[UAVEnv, VectorStep]:
    """One world with everything where we want it, after a step in which nobody moves."""
    env = UAVEnv(replace(config, num_uavs=len(uavs), num_users=len(users)), 1)
    env.reset()
    env.position[0], env.users[0] = uavs, users
    return env, env.step(np.zeros((1, len(uavs), 3)))


def mbit(power_dbm: float, distance: float) -> float:
    """20 MHz · log2(1 + SNR) in free space, without interference."""
    snr_db = power_dbm - (20 * math.log10(distance) + 40.05) + 104
    return 20.0 * math.log2(1 + 10 ** (snr_db / 10))


def test_reward_of_scenario_1_by_hand() -> None:
    # Distances 100 and √(200² + 100²): power ratio 5, so SINR = 5 less a little noise = 6.99 dB, quality .2329.
    _, step = place(PRESETS["uav1"], [[400, 500, 100], [600, 500, 100]], [[400, 500]])
    near, far, noise = 10 ** (-6.005), 10 ** (-6.005) / 5, 10 ** (-10.4)
    quality = 10 * math.log10(near / (far + noise)) / 30
    assert quality == pytest.approx(0.2329, abs=1e-4)
    assert step.reward[0] == pytest.approx(0.7 + 0.3 * quality - 0.1 * 0.5, abs=1e-6)
    assert step.info["coverage_ratio"][0] == 1.0
    assert step.info["served_users"][0] == 1
    assert step.info["users_per_uav"][0].tolist() == [1, 0]
    assert step.info["throughput"][0, 0] == pytest.approx(20 * math.log2(1 + near / (far + noise)))


def test_nobody_served_and_quality_capped() -> None:
    _, far = place(replace(PRESETS["uav1"], min_sinr=60.0), [[0, 0, 150]], [[1000, 1000]])
    assert far.reward[0] == pytest.approx(-0.1)
    _, near = place(PRESETS["uav1"], [[500, 500, 50]], [[500, 500]])
    assert near.reward[0] == pytest.approx(1.0)  # .7 + .3, lowest altitude


def test_capacity_limits_coverage() -> None:
    users = [[500.0 + i, 500.0] for i in range(16)]
    _, step = place(PRESETS["uav1"], [[500, 500, 50]], users)
    assert step.info["served_users"][0] == 10
    assert step.info["coverage_ratio"][0] == 10 / 16


def test_reward_of_scenario_2_by_hand() -> None:
    # One UAV 130 m above the centre: its user's 277 Mbit/s fit through the 358 Mbit/s to ground, and are capped at 1.
    env, step = place(PRESETS["uav2"], [[500, 500, 130]], [[500, 500]])
    assert step.info["throughput"][0, 0] == pytest.approx(mbit(20, 130))
    assert step.reward[0] == pytest.approx(0.4 + 0.2 + 0.2 + 0.2 - 0.1 / 3)
    assert env.network.role[0].tolist() == [BASE_STATION]


def test_throughput_part_below_its_cap() -> None:
    _, step = place(PRESETS["uav2"], [[500, 500, 130], [520, 500, 130], [0, 0, 50]], [[0, 0]])
    delivered = step.info["throughput"][0]
    assert delivered[:2].tolist() == [0.0, 0.0]
    assert 0 < delivered[2] < 199.3
    assert step.info["reward_throughput"][0] == pytest.approx(0.2 * delivered[2] / (3 * 199.3))


def test_relaying_by_hand() -> None:
    # Ground station at (1000, 1000, 30). UAV 0 is 308 m from it, UAV 1 554 m (too far) but 250 m from UAV 0.
    uavs = [[1000.0, 1300.0, 100.0], [1000.0, 1550.0, 100.0], [100.0, 100.0, 100.0]]
    env, step = place(PRESETS["uav2-relay"], uavs, [[1000.0, 1550.0]])
    assert step.info["hops"][0].tolist() == [1, 2, 0]
    assert env.network.next_hop[0].tolist() == [-1, 0, -1]
    assert env.network.ground_link[0, :, 0].tolist() == [True, False, False]
    assert step.info["roles"][0].tolist() == [RELAY, BASE_STATION, IDLE]
    bottleneck = min(mbit(20, 250), mbit(30, math.hypot(300, 70)))
    assert step.info["throughput"][0, 1] <= bottleneck / 2 + 1e-9
    assert step.info["reward_connectivity"][0] == pytest.approx(0.2 * 2 / 3)
    assert step.info["reward_hops"][0] == pytest.approx(-0.1 * 1.5 / 3)
    extra = step.observation[0, :, -5:]  # role one-hot, ground link, hop fraction
    expected = np.array([[0, 0, 1, 1, 1 / 3], [0, 1, 0, 0, 2 / 3], [1, 0, 0, 0, 0]])
    np.testing.assert_allclose(extra, expected, atol=1e-6)


def test_a_relays_throughput_is_halved_by_two_hops() -> None:
    uavs = [[1000.0, 1300.0, 100.0], [1000.0, 1570.0, 100.0]]
    _, step = place(PRESETS["uav2-relay"], uavs, [[1000.0, 1570.0 + i] for i in range(10)])
    slowest = min(mbit(20, 270), mbit(30, math.hypot(300, 70)))
    assert step.info["throughput"][0, 1] == pytest.approx(slowest / 2)  # ten users could fill more


def test_in_one_kilometre_every_uav_is_always_linked_and_in_two_it_is_not() -> None:
    for preset, linked in (("uav2", 1.0), ("uav2-relay", 0.21)):
        env = UAVEnv(PRESETS[preset], 200)
        env.reset(0)
        assert (env.network.hops > 0).mean() == pytest.approx(linked, abs=0.05)


def test_parts_sum_to_the_reward() -> None:
    for preset in PRESETS:
        env = UAVEnv(PRESETS[preset], 8)
        env.reset(1)
        step = env.step(np.ones((8, 5, 3)))
        parts = [v for k, v in step.info.items() if k.startswith("reward_")]
        np.testing.assert_allclose(np.sum(parts, axis=0), step.reward, atol=1e-6)


def test_moves_are_clipped_to_the_speed_and_the_volume() -> None:
    env = UAVEnv(PRESETS["uav1"], 1)
    env.reset()
    env.position[0] = [[500, 500, 100], [10, 990, 145], [500, 500, 55], [500, 500, 100], [500, 500, 100]]
    actions = np.zeros((1, 5, 3))
    actions[0, 0] = [0.5, -1.0, 0.1]
    actions[0, 1] = [-1, 1, 1]
    actions[0, 2] = [0, 0, -1]
    actions[0, 3] = [100, 0, 0]
    env.step(actions)
    expected = [[515, 470, 103], [0, 1000, 150], [500, 500, 50], [530, 500, 100], [500, 500, 100]]
    np.testing.assert_allclose(env.position[0], expected, atol=1e-4)


def test_observation_layout_by_hand() -> None:
    config = replace(PRESETS["uav1"], max_steps=10)
    _, step = place(config, [[100, 200, 60], [900, 1000, 150]], [[250, 750], [0, 500], [1000, 1000]])
    uavs, users = [0.1, 0.2, 0.1, 0.9, 1.0, 1.0], [0.25, 0.75, 0.0, 0.5, 1.0, 1.0]
    np.testing.assert_allclose(step.observation[0, 0], [*uavs[:3], *users, *uavs, 0.1], atol=1e-6)
    np.testing.assert_allclose(step.observation[0, 1], [*uavs[3:], *users, *uavs, 0.1], atol=1e-6)
    np.testing.assert_allclose(step.state[0], [*uavs, *users, 0.1], atol=1e-6)


def test_sensing_range_hides_what_is_far_and_flags_it() -> None:
    config = replace(PRESETS["uav1"], sensing_range=150.0)
    _, step = place(config, [[500, 500, 100], [600, 500, 100], [900, 900, 100]], [[500, 600], [500, 650]])
    seen = step.observation[0, 0]  # user 0 is 141 m away, user 1 180 m; UAV 1 100 m, UAV 2 566 m
    np.testing.assert_allclose(seen[3:7], [0.5, 0.6, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(seen[7:16], [0.5, 0.5, 0.5, 0.6, 0.5, 0.5, 0, 0, 0], atol=1e-6)
    assert seen[-5:].tolist() == [1, 0, 1, 1, 0]
    np.testing.assert_allclose(step.state[0, :9].reshape(3, 3)[2], [0.9, 0.9, 0.5], atol=1e-6)


def test_users_stay_for_the_episode_and_are_new_in_the_next() -> None:
    env = UAVEnv(replace(PRESETS["uav1"], max_steps=3), 2)
    first = env.reset(0)
    steps = [env.step(np.zeros((2, 5, 3))) for _ in range(3)]
    users = slice(15, 115)
    for step in steps:
        np.testing.assert_array_equal(step.final_state[:, users], first.state[:, users])
    assert (steps[-1].state[:, users] != first.state[:, users]).any()


def test_distributions_of_users() -> None:
    def draw(distribution: str) -> np.ndarray:
        env = UAVEnv(uav_config("uav1", user_distribution=distribution), 300)
        env.reset(5)
        return env.users

    uniform, cluster, hotspot = draw("uniform"), draw("cluster"), draw("hotspot")
    for users in (uniform, cluster, hotspot):
        assert users.min() >= 0.0
        assert users.max() <= 1000.0
    assert np.abs(uniform.mean(axis=(0, 1)) - 500).max() < 10
    # Users of one group of five are spread by σ = 100 m (less what the edge cuts off), the whole by more.
    within = cluster.reshape(300, 10, 5, 2).std(axis=1, ddof=1).mean()
    assert 80 < within < 100
    assert cluster.std(axis=1).mean() > 200
    # 35 of 50 lie in one disc of radius 333 m, so no two of them are further apart than its diameter.
    inner = hotspot[:, :35]
    assert np.linalg.norm(inner[:, :, None] - inner[:, None], axis=3).max() <= 2000 / 3 + 1e-6
    assert np.linalg.norm(hotspot[:, 35:, None] - hotspot[:, None, 35:], axis=3).max() > 1000


def test_shadowing_is_drawn_again_in_each_step() -> None:
    env = UAVEnv(uav_config("uav1", channel="3gpp-36777"), 4)
    env.reset(0)
    rewards = np.array([env.step(np.zeros((4, 5, 3))).reward for _ in range(6)])
    assert (rewards.std(axis=0) > 0).all()


@pytest.mark.parametrize(("preset", "expected"), [("uav1", 0.284), ("uav2", 0.494)])
def test_random_play_gets_what_the_specification_says(preset: str, expected: float) -> None:
    env, rng = UAVEnv(PRESETS[preset], 256), np.random.default_rng(0)
    env.reset(1)
    rewards = [env.step(rng.uniform(-1, 1, (256, 5, 3))).reward.mean() for _ in range(150)]
    assert np.mean(rewards) == pytest.approx(expected, abs=0.008)


def best_static(preset: str, users_seed: int, rounds: int, candidates: int = 128) -> float:
    """Hill climbing over placements of one world's UAVs: the best reward per step of all that were tried."""
    env, rng = UAVEnv(PRESETS[preset], candidates), np.random.default_rng(users_seed)
    env.reset([users_seed] * candidates)
    low, high = env._floor, env._ceiling
    still = np.zeros((candidates, 5, 3))
    env.position = rng.uniform(low, high, (candidates, 5, 3))
    for k in range(rounds):
        here, reward = env.position.copy(), env.step(still).reward
        scale = 0.25 * 0.01 ** (k / rounds)
        moved = rng.random((candidates, 5, 1)) < 0.4
        env.position = np.clip(here + moved * rng.normal(0, scale, here.shape) * (high - low), low, high)
        worse = env.step(still).reward < reward
        env.position[worse] = here[worse]
        if k % 40 == 39:  # the worse half starts again from the better half
            order = np.argsort(-np.where(worse, reward, env.step(still).reward))
            env.position[order[candidates // 2 :]] = env.position[order[: candidates // 2]]
    return float(env.step(still).reward.max())


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "expected"), [("uav1", 0.70), ("uav2", 0.77)])
def test_static_search_finds_the_known_level(preset: str, expected: float) -> None:
    """The best a still fleet can do. In uav2 all parts but coverage and quality are at their maximum there."""
    found = [best_static(preset, seed, rounds=600) for seed in range(6)]
    assert np.mean(found) == pytest.approx(expected, abs=0.02)


def test_frames() -> None:
    for preset in PRESETS:
        env = UAVEnv(PRESETS[preset], 2, name=preset)
        env.reset(0)
        env.position[0] = [0.0, 0.0, 150.0]  # all in a corner: nobody is served, and with relays nobody has a route
        env.step(np.zeros((2, 5, 3)))
        frame = env.render(1)
        assert frame.shape == (720, 900, 3)
        assert (frame != env.render(0)).any()


def test_options_check_themselves() -> None:
    with pytest.raises(ValueError, match="max_hops=2 must be 3, 4 or 5"):
        uav_config("uav2", max_hops=2)
    with pytest.raises(ValueError, match=r"uav1 has no option users; it has num_uavs, num_users"):
        uav_config("uav1", users=3)
    with pytest.raises(ValueError, match="channel='rural'"):
        uav_config("uav1", channel="rural")
    with pytest.raises(ValueError, match="min_height=90 must be above 0 and below max_height=80"):
        uav_config("uav1", min_height=90, max_height=80)
