"""The planner of benchmarks/uav_limits.py values places as worlds do in which the UAV is really there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from echelon.envs.uav.config import uav_config
from echelon.envs.uav.env import UAVEnv


def limits() -> ModuleType:
    file = Path(__file__).parents[2] / "benchmarks" / "uav_limits.py"
    spec = importlib.util.spec_from_file_location("uav_limits", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("scenario", ["uav1", "uav2"])
def test_the_planners_values_are_the_rewards_terms_of_the_real_world(scenario: str) -> None:
    module, env = limits(), UAVEnv(uav_config(scenario), 4, 3, name=scenario)
    env.reset()
    values, spots, still = module.spot_values(env, 2), module.ring_offsets(), np.zeros((4, 5, 3))
    assert values.shape == (4, len(spots)) == (4, 85)
    start = env.position.copy()
    for spot in (0, 7, 40, 84):
        env.position = start.copy()
        env.position[:, 2, :2] = np.clip(start[:, 2, :2] + 1000.0 * spots[spot], 0.0, 1000.0)
        info = env.step(still).info
        np.testing.assert_allclose(values[:, spot], info["reward_coverage"] + info["reward_quality"], atol=1e-9)
