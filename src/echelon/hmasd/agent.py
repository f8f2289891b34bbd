"""The agent: acts on its own, and provides the synchronous training cycle.

    agent = HMASDAgent.load("runs/x/checkpoints/hmasd_sync_final")
    agent.reset()
    actions = agent.act(observations)          # what a ParallelEnv gives and takes: dicts by agent, any space

Training is a cycle: collect a round, `should_sync_update()`, `sync_update()`; nothing is collected while updating, all
samples of a round are of one `policy_version`, and the round is gone afterwards.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from echelon.envs.vector import EnvSpec
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.learner import HMASDLearner, UpdateStats
from echelon.hmasd.learning.rollout import DISCOVERER
from echelon.hmasd.player import Player
from echelon.onpolicy.batch import Rollout, check_version
from echelon.onpolicy.groups import Groups
from echelon.runtime.checkpoint import save_checkpoint
from echelon.runtime.devices import device_of

if TYPE_CHECKING:
    from echelon.envs.foreign.vector import TeamReward
    from echelon.hmasd.learning.own_loop import OwnLoop

log = logging.getLogger(__name__)


class HMASDAgent(Player):
    """A player that learns."""

    def __init__(self, config: HMASDConfig, spec: EnvSpec, device: str = "cpu", groups: Groups | None = None) -> None:
        super().__init__(config, spec)
        self._groups = Groups(config.learning_groups) if groups is None else groups
        self.device = device_of(device)
        """Where updates are computed; acting, a few numbers at a time, is quicker on the processor."""
        self._learner: HMASDLearner | None = None
        self._pending: Rollout | None = None
        self.samples_collected_this_round = 0
        self.samples_learnt = 0
        self.collection_enabled = True
        self._loop: OwnLoop | None = None

    sync_mode = True
    """Strictly on-policy rounds; there is no other mode."""

    @property
    def learner(self) -> HMASDLearner:
        """Optimisers and all; made when first asked for, so that an agent that only plays has none."""
        if self._learner is None:
            learning = copy.deepcopy(self.networks).to(self.device) if self._is_away else self.networks
            self._learner = HMASDLearner(learning, self.config, self._groups)
        return self._learner

    @property
    def _is_away(self) -> bool:
        """Updates happen on another device than acting."""
        return self.device.type != "cpu"

    def _bring_home(self) -> None:
        """Act with what was learnt on another device."""
        if self.learner.networks is not self.networks:
            learnt = self.learner.networks.state_dict()
            self.networks.load_state_dict({name: tensor.cpu() for name, tensor in learnt.items()})

    @property
    def policy_version(self) -> int:
        """Updates so far; every sample of a round carries it."""
        return self.learner.version

    @property
    def version(self) -> int:
        """The same, by the name the training loop uses."""
        return self.policy_version

    @property
    def round_size(self) -> int:
        """Samples the current round takes."""
        return self.config.round_size(self.samples_learnt)

    @property
    def sync_batch_size(self) -> int:
        """The same, by the guide's name."""
        return self.round_size

    def enable_data_collection(self) -> None:
        """Let transitions be stored."""
        self.collection_enabled = True

    def disable_data_collection(self) -> None:
        """Refuse transitions, as while updating."""
        self.collection_enabled = False

    def start_collection(
        self,
        observations: Sequence[Mapping[Any, Any]],
        states: Sequence[Any] | None = None,
        action_masks: Sequence[Mapping[Any, Any]] | None = None,
        team_reward: TeamReward = "mean",
    ) -> None:
        """Train in your own loop: what the first episode of each of your worlds begins with (see `own_loop`)."""
        from echelon.hmasd.learning.own_loop import OwnLoop

        self._loop = OwnLoop(
            self.config, self.spec, self.networks, lambda: self.policy_version, observations, states, action_masks,
            team_reward,
        )  # fmt: skip

    def next_actions(self) -> list[dict[str, Any]]:
        """For each of your worlds the actions of its agents, by name, as the environment takes them."""
        return self._own_loop().actions(self.policy_version, self.round_size)

    def store_transition(
        self,
        env_id: int,
        next_observations: Mapping[Any, Any],
        rewards: Mapping[Any, float] | float,
        terminations: Mapping[Any, bool] | bool,
        truncations: Mapping[Any, bool] | bool,
        infos: Mapping[Any, Any] | None = None,
        *,
        next_state: Any = None,
        next_action_mask: Mapping[Any, Any] | None = None,
        first: Mapping[Any, Any] | None = None,
        first_state: Any = None,
        first_action_mask: Mapping[Any, Any] | None = None,
    ) -> bool:
        """What the last actions led to in one world: one sample. False, and nothing is kept, if collection is disabled.

        Where its episode is over, `first` is what the next one begins with.
        """
        if not self.collection_enabled:
            return False
        result = (next_observations, rewards, terminations, truncations, infos)
        stored = self._own_loop().store(
            env_id, result, next_state, next_action_mask, (first, first_state, first_action_mask)
        )
        self.samples_collected_this_round += int(stored)
        return stored

    def _own_loop(self) -> OwnLoop:
        if self._loop is None:
            raise ValueError("no worlds were given; call start_collection() with their first observations")
        return self._loop

    def store_round(self, rollout: Rollout) -> None:
        """Take a collected round of the current version; refused if it is of another, or if one is waiting."""
        if self._pending is not None:
            raise ValueError("a round is waiting already; call sync_update() before collecting more")
        self._pending = check_version(rollout, self.policy_version)
        self.samples_collected_this_round = rollout[DISCOVERER].decisions

    def should_sync_update(self) -> bool:
        """The round is complete."""
        whole = self._pending is not None or (self._loop is not None and self._loop.full)
        return whole and self.samples_collected_this_round >= self.round_size

    def sync_update(self) -> UpdateStats:
        """Learn from the round, forget it, and move on by one version."""
        if self._pending is None and self._loop is not None and self._loop.full:
            self.store_round(self._loop.take_round())
        if self._pending is None:
            raise ValueError("no round is stored; collect one and call store_round() first")
        self.disable_data_collection()
        rollout, samples = self._pending, self.samples_collected_this_round
        log.info("sync update begins: %d samples collected, policy version %d", samples, self.policy_version)
        self.learner.set_lr(self.config.learning_rate(self.samples_learnt))
        stats = self.learner.update(rollout)
        self._bring_home()
        self._pending = None
        self.samples_learnt += samples
        self.samples_collected_this_round = 0
        self.enable_data_collection()
        log.info("sync update done: policy version is now %d, sample count is reset", self.policy_version)
        return stats

    def update(self, rollout: Rollout, /) -> UpdateStats:
        """Store a round and learn from it: the training loop's one call."""
        self.store_round(rollout)
        return self.sync_update()

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that training changes."""
        state = {name: tensor.cpu() for name, tensor in self.learner.state_dict().items()}
        return {**state, "samples_learnt": torch.tensor(self.samples_learnt)}

    def load_state_dict(self, state: Mapping[str, Tensor], /) -> None:
        """Continue training from a saved state, bit for bit."""
        self.learner.load_state_dict({name: t for name, t in state.items() if name != "samples_learnt"})
        self._bring_home()
        self.samples_learnt = int(state["samples_learnt"])
        self._pending, self.samples_collected_this_round = None, 0

    def save(self, folder: str | os.PathLike[str], name: str = "hmasd_sync_final") -> Path:
        """A checkpoint that `load` reads: weights, optimisers and counters."""
        counters = {"env_steps": self.samples_learnt, "rounds": self.policy_version, "episodes": 0}
        return save_checkpoint(folder, name, tensors={"agent": self.state_dict()}, state=counters, config=self.header())
