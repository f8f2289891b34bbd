"""The outlook of UAVs: by hand, and against the rewards of worlds in which the UAV really stands there."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from echelon.envs.uav.config import OUTLOOK, PRESETS, SPOT_DIRECTIONS, UAVConfig, uav_config
from echelon.envs.uav.env import UAVEnv
from echelon.envs.uav.views import GAIN_SHOWN, OFFSETS
from echelon.envs.vector import Array

SPOTS = OUTLOOK - 3
FAR = [[0.0, 0.0]]


def look(config: UAVConfig, uavs: list[list[float]], users: list[list[float]]) -> Array:
    """What each UAV is shown of its outlook, (n, OUTLOOK)."""
    env = UAVEnv(replace(config, view="outlook", num_uavs=len(uavs), num_users=len(users)), 1)
    env.reset()
    env.position[0], env.users[0] = uavs, users
    seen: Array = env.step(np.zeros((1, len(uavs), 3))).observation[0, :, -OUTLOOK:]
    return seen


def gains(seen: Array) -> Array:
    """The changes of the reward behind what is shown for the spots; precise while they are below .1."""
    return np.asarray(GAIN_SHOWN * np.arctanh(np.clip(2.0 * seen[..., :SPOTS] - 1.0, -0.999, 0.999)))


def test_the_way_to_a_user_out_of_reach_by_hand() -> None:
    # 45 dB over the noise reach 88.6 m, from 50 m up 73 m over ground. One user of 50 is 100 m to the east: too far.
    seen = look(replace(PRESETS["uav1"], min_sinr=45.0), [[500, 500, 50]], [[600, 500], *FAR * 49])[0]
    quality = (83.95 - 20 * math.log10(math.hypot(70, 50)) - 45) / 30
    ring = np.arange(0, SPOTS, SPOT_DIRECTIONS)  # the first spot of each; of rings 0, 2, 4, 6 it lies due east
    assert gains(seen)[ring[0]] == pytest.approx(0.7 / 50 + 0.3 * quality, abs=1e-4)  # 30 m nearer
    assert gains(seen)[ring[4]] == pytest.approx(0.0, abs=1e-6)  # 140 m beyond
    assert gains(seen)[6] == pytest.approx(0.0, abs=1e-6)  # 30 m to the west
    assert seen[:SPOTS].argmax() == ring[2]  # over its head
    np.testing.assert_allclose(seen[-3:-1], [1.0, 0.5])  # a full step to the east
    worth = gains(seen)[ring[2]] * 0.97 ** (100 / 30)
    assert seen[-1] == pytest.approx(0.5 + 0.5 * math.tanh(worth / GAIN_SHOWN), abs=1e-4)


def test_a_way_shorter_than_a_step_is_shown_in_its_length() -> None:
    fast = replace(PRESETS["uav1"], min_sinr=45.0, max_speed=60.0)
    seen = look(fast, [[500, 500, 50]], [[530, 500]])[0]
    np.testing.assert_allclose(seen[-3:-1], [0.75, 0.5])  # 30 m of 60


def test_over_its_user_a_uav_has_nowhere_better_to_go() -> None:
    seen = look(replace(PRESETS["uav1"], min_sinr=40.0), [[500, 500, 50]], [[500, 500]])[0]
    assert seen[:SPOTS].max() < 0.5
    np.testing.assert_allclose(seen[-3:-1], [0.5, 0.5])
    assert seen[-1] < 0.5


def test_capacity_limits_what_there_is_to_gain() -> None:
    # As in the first test, with three users to the east: whether the third counts depends on the room for it.
    config = replace(PRESETS["uav1"], min_sinr=45.0)
    users = [[580.0, 500.0]] * 3 + FAR * 47
    wide, narrow = (
        gains(look(replace(config, capacity=capacity), [[500, 500, 50]], users)[0])[0] for capacity in (3, 2)
    )
    assert wide - narrow == pytest.approx(0.7 / 50, abs=1e-4)


@pytest.mark.parametrize("scenario", ["uav1", "uav2"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"channel": "urban", "uav_power": 40.0},
        {"min_sinr": -6.0},
        {"min_sinr": 3.0, "area": 500.0},
        {"channel": "3gpp-36777"},
    ],
    ids=lambda options: ",".join(f"{name}={value}" for name, value in options.items()) or "as given",
)
def test_gains_are_those_of_worlds_in_which_the_uav_stands_there(scenario: str, options: dict[str, Any]) -> None:
    # Room for all, so that quality is exact too. The shadowing of links is left out of both.
    config = uav_config(scenario, view="outlook", capacity=50, **options)
    env = UAVEnv(config, 8, 3)
    env.streams.normal = lambda worlds, count: np.zeros((8, count))  # type: ignore[method-assign]
    env.reset()
    still = np.zeros((8, 5, 3))
    rng = np.random.default_rng(1)
    env.position[..., 2] = 50.0
    now = env.step(still)
    end = config.obs_dim - config.relay_dim
    seen = now.observation[..., end - OUTLOOK : end]
    before = {name: now.info[f"reward_{name}"].copy() for name in ("coverage", "quality")}
    start, compared = env.position.copy(), 0
    for uav in range(5):
        for spot in rng.choice(SPOTS, 12, replace=False):
            env.position = start.copy()
            env.position[:, uav, :2] = np.clip(start[:, uav, :2] + OFFSETS[1 + spot] * config.area, 0.0, config.area)
            then = env.step(still).info
            gain = np.sum([then[f"reward_{name}"] - value for name, value in before.items()], axis=0)
            small = np.abs(gain) < 0.1
            np.testing.assert_allclose(gains(seen[:, uav])[small, spot], gain[small], atol=1e-4)
            compared += int(small.sum())
    assert compared > 200


def test_only_what_is_in_sensing_range_counts() -> None:
    near = replace(PRESETS["uav1"], sensing_range=150.0)
    uavs, users = (
        [[500.0, 500.0, 100.0], [600.0, 500.0, 100.0], [900.0, 900.0, 100.0]],
        [[500.0, 600.0], [500.0, 650.0]],
    )
    seen = look(near, uavs, users)[0]  # user 0 is 141 m away, user 1 180 m; UAV 1 100 m, UAV 2 566 m
    far_things_moved = look(near, [*uavs[:2], [100.0, 900.0, 60.0]], [users[0], [300.0, 650.0]])[0]
    np.testing.assert_array_equal(seen, far_things_moved)
    assert not np.array_equal(seen, look(near, uavs, [[520.0, 600.0], users[1]])[0])
    assert not np.array_equal(seen, look(near, [uavs[0], [600.0, 520.0, 100.0], uavs[2]], users)[0])
    everything = look(PRESETS["uav1"], uavs, users)[0]
    assert not np.array_equal(seen, everything)
