"""Declared sets of entities are checked, travel with the specification and come from third-party environments too."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from echelon.envs.entities import EntitySet, check_sets, declared_sets, joined_sets
from echelon.envs.foreign.vector import SerialVectorEnv
from echelon.envs.foreign.world import EnvSetupError
from echelon.envs.make import make_vector_env
from echelon.envs.mpe.spread import SimpleSpread
from echelon.hmasd.networks.sizes import spec_from_json, spec_to_json


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"count": 0}, "count and width at least 1"),
        ({"start": -1}, "start must be at least 0"),
        ({"present": 3, "present_step": 0}, "present_step at least 1"),
        ({"origin": (0, 1, 2)}, "at most width=2"),
        ({"width": 3, "place": 3}, "place must be 0, 1 or 2"),
        ({"origin": (0,), "place": 2}, "with an origin at most its length"),
    ],
)
def test_a_set_checks_itself(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EntitySet(**{"name": "users", "start": 3, "count": 2, "width": 2, **wrong})


def test_sets_lie_inside_the_vector_and_apart() -> None:
    users, uavs = EntitySet("users", 0, 2, 2), EntitySet("uavs", 4, 1, 3, present=7)
    check_sets((users, uavs), 8, "it")
    with pytest.raises(ValueError, match="'uavs' of it reaches to 8, but there are 7"):
        check_sets((users, uavs), 7, "it")
    with pytest.raises(ValueError, match="number 3 of it is in the sets 'users' and 'others'"):
        check_sets((users, EntitySet("others", 3, 1, 1)), 8, "it")
    with pytest.raises(ValueError, match="different names"):
        check_sets((users, EntitySet("users", 4, 1, 1)), 8, "it")


@pytest.mark.parametrize("options", [{}, {"sensing_range": 300.0}])
def test_the_sets_of_uavs_are_where_the_numbers_are(options: dict[str, Any]) -> None:
    with make_vector_env("uav2", 3, 5, num_uavs=3, num_users=4, **options) as env:
        seen, spec = env.reset(), env.spec
        uavs, users = spec.observation_sets
        rows = seen.observation[:, :, uavs.start : uavs.end].reshape(3, 3, 3, 3)
        for agent in range(3):  # each sees itself in its place of the list
            assert (rows[:, agent, agent] == seen.observation[:, agent, :3]).all()
        whole = {s.name: seen.state[:, s.start : s.end] for s in spec.state_sets}
        told = seen.observation[:, :, users.start : users.end]
        if options:
            flags = seen.observation[:, :, users.flags.start : users.flags.stop]
            assert set(flags.flatten()) == {0.0, 1.0}
            assert (told.reshape(3, 3, 4, 2)[flags == 0.0] == 0.0).all()
        else:
            assert (told == whole["users"][:, None]).all()
            assert (rows.reshape(3, 3, 9) == whole["uavs"][:, None]).all()
        assert spec_from_json(spec_to_json(spec)) == spec


def test_the_sets_of_simple_spread_are_where_the_numbers_are() -> None:
    env = SimpleSpread(3, 5, agents=4)
    seen, spec = env.reset(), env.spec
    others, landmarks = spec.observation_sets
    for agent in range(4):
        apart = env.landmarks - env.position[:, agent, None]
        own = seen.observation[:, agent]
        np.testing.assert_allclose(own[:, landmarks.start : landmarks.end], apart.reshape(3, -1), atol=1e-6)
        away = np.delete(env.position, agent, 1) - env.position[:, agent, None]
        np.testing.assert_allclose(own[:, others.start : others.end], away.reshape(3, -1), atol=1e-6)
        for one, name in ((others, "others"), (landmarks, "landmarks")):
            whole = next(s for s in spec.state_sets if s.name == f"agent_{agent}.{name}")
            assert (seen.state[:, whole.start : whole.end] == own[:, one.start : one.end]).all()
    plain = SimpleSpread(1, sets=False).spec
    assert (plain.observation_sets, plain.state_sets) == ((), ())


def test_a_third_party_environment_declares_them_in_its_metadata() -> None:
    spec = SerialVectorEnv("odd_envs:crowd", 1).spec
    others = EntitySet("others", 1, 2, 1)
    assert spec.observation_sets == (others,)
    # it has no state of its own: all observations side by side, three numbers each
    assert [(s.name, s.start, s.count) for s in spec.state_sets] == [("a.others", 1, 2), ("b.others", 4, 2)]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"observations": []}, "under 'observation' and 'state'"),
        ({"observation": [{"name": "x", "start": 0, "count": 9, "width": 1}]}, "reaches to 9, but there are 3"),
        ({"observation": [{"name": "x", "begin": 0}]}, "has no begin"),
        ({"state": [{"name": "x", "start": 0, "count": 1, "width": 1}]}, "there is no state"),
    ],
)
def test_wrong_declarations_are_one_clear_error(told: dict[str, Any], message: str) -> None:
    with pytest.raises((EnvSetupError, ValueError), match=message):
        SerialVectorEnv("odd_envs:crowd", 1, kwargs={"told": told})


def test_sets_of_joined_observations_are_moved_with_flags_and_origins() -> None:
    one = EntitySet("foes", 2, 2, 2, present=6, origin=(0, 1), place=2)
    moved = EntitySet("b.foes", 11, 2, 2, present=15, origin=(9, 10), place=2)
    assert joined_sets((one,), ("a", "b"), (9, 8))[1] == moved
    assert declared_sets({"entity_sets": {"state": [asdict(one)]}}) == ((), (one,))
    assert declared_sets({}) == ((), ())
