"""A round in several shares: groups of worlds that collect by themselves, in this process or on workers.

The worlds are divided into `collectors` groups of equal size, each with its own seeds by the worlds' numbers. What a
group collects depends on its worlds, the weights and the version, never on where it runs: a single process computes the
groups one after the other in the same shapes, from operands that are aligned alike (`onpolicy.aligned`), so any
executor gives its result, bit for bit. A worker keeps nothing between rounds: state goes out with the weights and comes
back with the share, under one version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from echelon.envs.random_streams import world_seeds
from echelon.envs.vector import VectorEnv
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.episodes import Episodes
from echelon.hmasd.learning.rollout import SkillCollector
from echelon.hmasd.networks.networks import HMASDNetworks
from echelon.hmasd.networks.sizes import Sizes
from echelon.hmasd.worlds import make_worlds
from echelon.onpolicy.batch import Rollout, join_rounds, with_zero_inputs, without_inputs
from echelon.onpolicy.groups import Groups
from echelon.onpolicy.ppo import part_of_state
from echelon.runtime.arrays import Array
from echelon.runtime.execution.executors import NamedExecutor, WorkerDied
from echelon.runtime.seeding import task_seed

State = dict[str, Tensor]
Sent = dict[str, Array]
"""A state as it travels: arrays, since torch would send its tensors through shared memory of one machine."""


SHOWN = ("skills",)
"""what the log tells about the round of all processes"""


@dataclass(frozen=True)
class Share:
    """What one group collected, and its state afterwards."""

    rollout: Rollout
    episodes: Episodes
    state: Sent


def group_seeds(config: HMASDConfig, group: int, what: str) -> list[int]:
    """One seed for each world of a group, by the worlds' numbers."""
    size = config.envs // config.collectors
    return world_seeds(task_seed(config.seed, what), config.envs)[group * size : (group + 1) * size]


def group_env(config: HMASDConfig, group: int, workers: int | None) -> VectorEnv:
    """The worlds of one group."""
    seeds = group_seeds(config, group, "worlds")
    return make_worlds(config, len(seeds), seeds, workers)


def group_collector(
    config: HMASDConfig, group: int, networks: HMASDNetworks, env: VectorEnv, version_of: Callable[[], int]
) -> SkillCollector:
    """The collector of one group."""
    return SkillCollector.of(config, networks, env, group_seeds(config, group, "choices"), version_of)


class LocalShares:
    """All groups in this process, one after the other; or those of `groups` that are this process's."""

    def __init__(
        self,
        config: HMASDConfig,
        networks: HMASDNetworks,
        version_of: Callable[[], int],
        env_workers: int | None = None,
        groups: Groups | None = None,
    ) -> None:
        self._all = Groups(config.collectors) if groups is None or groups.count == 1 else groups
        self.groups = {
            i: group_collector(config, i, networks, group_env(config, i, env_workers), version_of)
            for i in self._all.mine
        }
        self.episodes = Episodes.join([])

    def collect(self, version: int, steps: int) -> Rollout:
        """A round of equal shares; every process gets the whole."""
        share = steps // self._all.count
        own = {i: group.collect(version, share) for i, group in self.groups.items()}
        rounds = own if len(own) == self._all.count else self._with_others(own)
        ended = [group.episodes for group in self.groups.values()]
        self.episodes = Episodes.join([episodes for process in self._all.exchange(ended) for episodes in process])
        return rounds[0] if len(rounds) == 1 else join_rounds([rounds[i] for i in sorted(rounds)], version)

    def _with_others(self, own: dict[int, Rollout]) -> dict[int, Rollout]:
        """The rounds of all groups; those of other processes have zeros for what only their learner looks at."""
        sent = {
            i: {level: without_inputs(batch, SHOWN) for level, batch in rollout.items()} for i, rollout in own.items()
        }
        like = next(iter(own.values()))
        rounds = dict(own)
        for process in self._all.exchange(sent):
            for i, rollout in process.items():
                if i not in own:
                    rounds[i] = {level: with_zero_inputs(batch, like[level]) for level, batch in rollout.items()}
        return rounds

    def state_dict(self) -> State:
        """States of all groups; all processes must ask together."""
        own: Sent = {
            f"{i}.{name}": t.numpy() for i, group in self.groups.items() for name, t in group.state_dict().items()
        }
        everywhere = [item for process in self._all.exchange(own) for item in process.items()]
        return {name: torch.from_numpy(array) for name, array in everywhere}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue the groups of this process."""
        for i, group in self.groups.items():
            group.load_state_dict(part_of_state(state, f"{i}."))

    def close(self) -> None:
        """Give back the worlds."""
        for group in self.groups.values():
            group.env.close()


class RemoteShares:
    """Every group as one task per round on an executor."""

    def __init__(
        self,
        config: HMASDConfig,
        networks: HMASDNetworks,
        version_of: Callable[[], int],
        executor: NamedExecutor,
    ) -> None:
        self.config, self.networks, self.version_of, self.executor = config, networks, version_of, executor
        self.episodes = Episodes.join([])
        self._states: list[Sent] = [{} for _ in range(config.collectors)]

    def collect(self, version: int, steps: int) -> Rollout:
        """A round: weights and states go out, shares and states come back."""
        weights = {name: t.detach().numpy() for name, t in self.networks.state_dict().items()}
        groups = range(self.config.collectors)
        holds = self.version_of()

        def submit(group: int) -> Future[Share]:
            name, share = f"group {group} of policy version {version}", steps // len(groups)
            work = (self.config.to_json(), group, weights, self._states[group], holds, version, share)
            return self.executor.start(name, None, collect_share, *work)

        futures = [submit(group) for group in groups]
        shares = [self._result(future, partial(submit, group)) for group, future in enumerate(futures)]
        self._states = [share.state for share in shares]
        self.episodes = Episodes.join([share.episodes for share in shares])
        return join_rounds([share.rollout for share in shares], version)

    def _result(self, future: Future[Share], again: Callable[[], Future[Share]]) -> Share:
        """The share; collected once more if its worker died: a share depends on nothing else."""
        try:
            return future.result()
        except WorkerDied:
            try:
                return again().result()
            except WorkerDied as error:
                raise OSError(f"{error}, twice; the same command resumes from the last checkpoint") from error

    def state_dict(self) -> State:
        """States of all groups."""
        return {f"{i}.{name}": torch.from_numpy(a) for i, state in enumerate(self._states) for name, a in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue all groups."""
        groups = range(self.config.collectors)
        self._states = [{name: t.numpy() for name, t in part_of_state(state, f"{i}.").items()} for i in groups]

    def close(self) -> None:
        """Stop the workers."""
        self.executor.shutdown()


def collect_share(
    options: dict[str, Any],
    group: int,
    weights: Sent,
    state: Sent,
    holds: int,
    version: int,
    steps: int,
) -> Share:
    """Collect the share of one group from its state (empty: from the start); runs on a worker."""
    torch.set_num_threads(1)
    config = HMASDConfig.from_json(options)
    with group_env(config, group, workers=0) as env:
        networks = _networks(Sizes.of(env.spec, config))
        networks.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
        collector = group_collector(config, group, networks, env, lambda: holds)
        if state:
            collector.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
        rollout = collector.collect(version, steps)
        return Share(rollout, collector.episodes, {name: t.numpy() for name, t in collector.state_dict().items()})


@lru_cache(maxsize=4)
def _networks(sizes: Sizes) -> HMASDNetworks:
    """Networks to load weights into: making them costs more than a share of a round."""
    return HMASDNetworks.seeded(sizes, 0)
