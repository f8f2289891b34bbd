"""Rounds collected in shares: the result does not depend on where the shares run."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.envs.make import make_vector_env
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.shares import LocalShares, RemoteShares
from echelon.runtime.arrays import Array
from echelon.runtime.execution.executors import NamedExecutor, make_executor
from tests.hmasd.small import SKY, small
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric

CONFIG = small(SKY, collectors=2)
Shares = LocalShares | RemoteShares


def agent_and_worlds(config: HMASDConfig, executor: NamedExecutor | None) -> tuple[HMASDAgent, Shares]:
    with make_vector_env(config.env, 1, 0, **config.environment_options()) as env:
        agent = HMASDAgent(config, env.spec)
    version = lambda: agent.version  # noqa: E731
    if executor is None:
        return agent, LocalShares(config, agent.networks, version)
    return agent, RemoteShares(config, agent.networks, version, executor)


def trained(config: HMASDConfig, *executors: NamedExecutor | None) -> dict[str, Array]:
    """After one round on each of the executors (None: this process), each continuing where the one before stopped."""
    agent, worlds = agent_and_worlds(config, executors[0])
    for version, executor in enumerate(executors):
        if version:
            before, (agent, worlds) = (agent, worlds), agent_and_worlds(config, executor)
            for one, other in zip(before, (agent, worlds), strict=True):
                other.load_state_dict(one.state_dict())
        agent.update(worlds.collect(version, 80))
        assert agent.samples_learnt == 80 * (version + 1)
    state = {f"worlds.{name}": t.numpy() for name, t in worlds.state_dict().items()}
    return state | {name: t.numpy() for name, t in agent.state_dict().items()}


@pytest.mark.parametrize("spec", ["loky:2", "dask"])
def test_workers_give_the_result_of_one_process_bit_for_bit(spec: str) -> None:
    if spec == "dask":
        pytest.importorskip("distributed")
    alone = trained(CONFIG, None, None)
    with make_executor(spec) as executor:
        spread, begun_by_workers = trained(CONFIG, executor, executor), trained(CONFIG, executor, None)
    for found in (spread, begun_by_workers):
        assert found.keys() == alone.keys()
        assert [name for name in alone if not np.array_equal(alone[name], found[name])] == []


def test_groups_together_are_the_worlds_of_one_group() -> None:
    """Two groups see the episodes that one group of all worlds sees: seeds go by the world's number."""
    _, two = agent_and_worlds(CONFIG, None)
    _, one = agent_and_worlds(small(SKY, collectors=1), None)
    first, second = (worlds.collect(0, 80)["discoverer"] for worlds in (one, two))
    assert_equal_but_for_rounding(first.observation["state"], second.observation["state"])
    assert_equal_but_for_rounding(first.log_prob, second.log_prob)
    assert one.episodes.lengths.tolist() == two.episodes.lengths.tolist()
