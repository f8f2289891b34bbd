"""One update of everything from one round: both levels by PPO, then the discriminators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.rewards import Discriminators, DiscriminatorStats, IntrinsicRewards
from echelon.hmasd.learning.rollout import COORDINATOR, DISCOVERER
from echelon.hmasd.networks.networks import HMASDNetworks
from echelon.onpolicy.batch import Rollout, check_version
from echelon.onpolicy.groups import Groups
from echelon.onpolicy.loop import LevelLearner
from echelon.onpolicy.optimizer import JointAdam, check_optimizers
from echelon.onpolicy.ppo import PPOLearner, PPOStats, part_of_state
from echelon.runtime.seeding import task_seed


@dataclass(frozen=True)
class UpdateStats:
    """What one synchronous update did."""

    discoverer: PPOStats
    coordinator: PPOStats | None = None
    """None, as the next two, for an algorithm without skills."""
    discriminators: DiscriminatorStats | None = None
    rewards: IntrinsicRewards | None = None


class HMASDLearner:
    """Learns from rounds of its own version only; is one version further after each.

    The order matters: rewards come from the discriminators that existed while collecting, the policies learn from
    them, and only then do the discriminators learn from the round.
    """

    def __init__(self, networks: HMASDNetworks, config: HMASDConfig, groups: Groups | None = None) -> None:
        self.networks, self.config = networks, config
        keep_memory()
        learners = {}
        policies = (
            (COORDINATOR, networks.coordinator, config.coordinator_ppo()),
            (DISCOVERER, networks.discoverer, config.discoverer_ppo()),
        )
        for level, policy, options in policies:
            if policy is not None:
                seed = task_seed(config.seed, "minibatches", level)
                learners[level] = PPOLearner(
                    policy, [JointAdam(policy.parameters(), config.lr)], options, seed, groups=groups
                )
        self.levels = LevelLearner(learners)
        self.discriminators: Discriminators | None = None
        if networks.team is not None and networks.individual is not None:
            self.discriminators = Discriminators(networks.team, networks.individual, config, groups)
        self._optimizers = [o for learner in learners.values() for o in learner.optimizers]
        if self.discriminators is not None:
            self._optimizers.append(self.discriminators.optimizer)
        check_optimizers(dict(networks.named_parameters()), self._optimizers)

    @property
    def version(self) -> int:
        """The policy that must make the next round."""
        return self.levels.version

    def update(self, rollout: Rollout, /) -> UpdateStats:
        """All epochs of everything; a round of another version is refused before anything changes."""
        check_version(rollout, self.version)
        if self.discriminators is None:
            return UpdateStats(self.levels.update(rollout)[DISCOVERER])
        batch, rewards = self.discriminators.rewarded(rollout[DISCOVERER])
        stats = self.levels.update({**rollout, DISCOVERER: batch})
        learnt = self.discriminators.update(batch)
        return UpdateStats(stats[DISCOVERER], stats[COORDINATOR], learnt, rewards)

    def set_lr(self, lr: float) -> None:
        """The learning rate of all networks from now on."""
        for optimizer in self._optimizers:
            optimizer.lr = lr

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that changes: weights, optimisers, value statistics, random streams, version."""
        state = self.levels.state_dict()
        if self.discriminators is not None:
            state |= {f"discriminators.{name}": t for name, t in self.discriminators.state_dict().items()}
        return state

    def load_state_dict(self, state: Mapping[str, Tensor], /) -> None:
        """Continue from a saved state, bit for bit."""
        self.levels.load_state_dict(state)
        if self.discriminators is not None:
            self.discriminators.load_state_dict(part_of_state(state, "discriminators."))


def keep_memory() -> None:
    """Let this process keep the memory that an epoch frees, for the next one.

    glibc hands back what is freed beyond a threshold, to get it again page by page: up to a quarter of an update's
    time. Having freed one block of nearly 32 MB raises the threshold to twice that for good; elsewhere it does nothing.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)
