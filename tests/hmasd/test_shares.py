"""Rounds collected in shares: the result does not depend on where the shares run."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.envs.make import make_vector_env
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.shares import LocalShares, RemoteShares
from echelon.onpolicy.batch import Array
from echelon.runtime.executors import NamedExecutor, make_executor
from tests.hmasd.small import SKY, small
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric

CONFIG = small(SKY, collectors=2)


def agent_and_worlds(config: HMASDConfig, executor: NamedExecutor | None) -> tuple[HMASDAgent, object]:
    with make_vector_env(config.env, 1, 0, **config.environment_options()) as env:
        agent = HMASDAgent(config, env.spec)
    version = lambda: agent.version  # noqa: E731
    if executor is None:
        return agent, LocalShares(config, agent.networks, version, agent.count_samples)
    return agent, RemoteShares(config, agent.networks, version, agent.count_samples, executor)


def trained(config: HMASDConfig, executor: NamedExecutor | None) -> dict[str, Array]:
    agent, worlds = agent_and_worlds(config, executor)
    assert isinstance(worlds, LocalShares | RemoteShares)
    for version in range(2):
        agent.update(worlds.collect(version, 80))
        assert agent.samples_learnt == 80 * (version + 1)
    state = {f"worlds.{name}": t.numpy() for name, t in worlds.state_dict().items()}
    return state | {name: t.numpy() for name, t in agent.state_dict().items()}


@pytest.mark.parametrize("spec", ["loky:2", "dask"])
def test_workers_give_the_result_of_one_process_bit_for_bit(spec: str) -> None:
    if spec == "dask":
        pytest.importorskip("distributed")
    alone = trained(CONFIG, None)
    with make_executor(spec) as executor:
        spread = trained(CONFIG, executor)
    assert spread.keys() == alone.keys()
    assert [name for name in alone if not np.array_equal(alone[name], spread[name])] == []


def test_groups_together_are_the_worlds_of_one_group() -> None:
    """Two groups see the episodes that one group of all worlds sees: seeds go by the world's number."""
    _, two = agent_and_worlds(CONFIG, None)
    _, one = agent_and_worlds(small(SKY, collectors=1), None)
    assert isinstance(one, LocalShares)
    assert isinstance(two, LocalShares)
    first, second = (worlds.collect(0, 80)["discoverer"] for worlds in (one, two))
    assert_equal_but_for_rounding(first.observation["state"], second.observation["state"])
    assert_equal_but_for_rounding(first.log_prob, second.log_prob)
    assert one.episodes.lengths.tolist() == two.episodes.lengths.tolist()
