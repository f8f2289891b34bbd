"""Environments by name, and one clear message for each wrong one."""

import numpy as np
import pytest

from echelon.envs.alice_and_bob import AliceAndBob
from echelon.envs.foreign.vector import SerialVectorEnv
from echelon.envs.foreign.workers import WorkerVectorEnv
from echelon.envs.foreign.world import EnvSetupError
from echelon.envs.make import BUILT_IN, KITCHENS, make_vector_env
from echelon.envs.overcooked.env import Overcooked
from echelon.envs.overcooked.layouts import MAPS
from echelon.envs.uav.config import PRESETS
from echelon.envs.uav.env import UAVEnv


@pytest.mark.parametrize("name", ["uav1", "uav2", "uav2-relay"])
def test_uav_presets_by_name(name: str) -> None:
    env = make_vector_env(name, 3, 1)
    assert isinstance(env, UAVEnv)
    assert env.spec.name == name
    assert env.config == PRESETS[name]
    assert env.num_envs == 3


def test_kitchens_by_name() -> None:
    assert tuple(MAPS) == KITCHENS
    for name in (n for n in BUILT_IN if n.startswith("overcooked:")):
        env = make_vector_env(name, 2, max_steps=9)
        assert isinstance(env, Overcooked)
        assert (env.spec.name, env.spec.max_steps) == (name, 9)


def test_options_reach_the_environment() -> None:
    sky = make_vector_env("uav1", 2, num_users=7, user_distribution="cluster")
    assert sky.spec.state_dim == 3 * 5 + 2 * 7 + 1
    room = make_vector_env("alice_and_bob", 2, max_steps=9)
    assert isinstance(room, AliceAndBob)
    assert room.spec.max_steps == 9
    with make_vector_env("odd_envs:counter", 2, workers=0, length=4) as serial:
        assert isinstance(serial, SerialVectorEnv)
        serial.reset()
        assert [serial.step(np.zeros((2, 2), dtype=int)).truncated[0] for _ in range(4)] == [False] * 3 + [True]
    with make_vector_env("odd_envs:counter", 2, workers=1, team_reward="sum") as workers:
        assert isinstance(workers, WorkerVectorEnv)
        assert workers.team_reward == "sum"


def test_the_seed_of_construction_counts() -> None:
    a, b, c = (make_vector_env("alice_and_bob", 8, seed).reset().observation for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        (
            "uav3",
            {},
            "unknown environment 'uav3'; use uav1, uav2, uav2-relay, alice_and_bob, overcooked:cramped_room",
        ),
        ("alice_and_bop", {}, r"Did you mean alice_and_bob\?"),
        ("overcooked:cramped", {}, "Did you mean overcooked:cramped_room or"),
        ("overcooked:cramped_room", {"workers": 2}, "without workers"),
        ("overcooked:cramped_room", {"size": 9}, "no option size; it has max_steps, old_dynamics, random_starts"),
        ("odd_env:counter", {}, "there is no module odd_env"),
        ("mpe2.simple_spred_v3:parallel_env", {}, r"did you mean mpe2\.simple_spread_v3:parallel_env"),
        ("nowhere.at_all:env", {}, "No module named 'nowhere'"),
        ("odd_envs:", {}, "must be package.module:factory"),
        ("odd_envs:countr", {"workers": 0}, "odd_envs has no countr"),
        ("uav1", {"workers": 2}, "without workers"),
        ("alice_and_bob", {"size": 9}, "no option size; it has max_steps, terminate_on_success"),
        ("uav1", {"nusers": 9}, "no option nusers; it has num_uavs"),
    ],
)
def test_wrong_names_and_options(name: str, kwargs: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_vector_env(name, 2, **kwargs)


def test_the_number_of_worlds_must_be_positive() -> None:
    for name in ("alice_and_bob", "odd_envs:counter"):
        with pytest.raises(ValueError, match="num_envs=0 must be at least 1"):
            make_vector_env(name, 0)
    assert issubclass(EnvSetupError, ValueError)
