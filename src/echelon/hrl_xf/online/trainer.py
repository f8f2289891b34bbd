"""The online trainer: collector, learners and loop, and all that a checkpoint must hold.

    training = OnlineTraining(options, executor)
    for done in training.loop:
        log(done.stats)

The body of the `for` runs between rounds, when nothing is half done.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.networks.day_critic import load_critic
from echelon.hrl_xf.networks.files import layer_bytes, load_layer, save_layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator
from echelon.hrl_xf.online.collector import RoundCollector
from echelon.hrl_xf.online.critic import CriticLearner, CriticStats, MomentCritic
from echelon.hrl_xf.online.policies import L2Policy, L3Policy, L4Policy, LayerPolicy
from echelon.hrl_xf.online.worlds import Weights
from echelon.hrl_xf.options.online import LEVELS, OnlineOptions
from echelon.hrl_xf.weights import BUNDLED, CLONED, PLAYED, layer_in
from echelon.onpolicy.batch import Rollout, RolloutBatch
from echelon.onpolicy.chunks import to_chunks
from echelon.onpolicy.loop import LevelLearner, TrainingLoop
from echelon.onpolicy.optimizer import JointAdam
from echelon.onpolicy.options import PPOOptions
from echelon.onpolicy.ppo import PPOLearner, PPOStats, part_of_state
from echelon.runtime.execution.executors import NamedExecutor
from echelon.runtime.seeding import task_seed

FIRST_CRITIC_EPOCHS = 20
"""A new critic learns from its first round for longer: all that follows leans on it."""
PIECE = 16384


@dataclass(frozen=True)
class RoundStats:
    """What one update did."""

    levels: Mapping[str, PPOStats]
    """of the levels that learnt"""
    clone_kl: Mapping[str, float]
    """mean of log π − log π of the start over the round's decisions, of every level"""
    critic: CriticStats
    l2_deviation: float
    l4_deviation: float


def initial_folder(init: str) -> Path:
    """Where the layers are that `--init` names."""
    folder = {"bundled": BUNDLED, "played": PLAYED, "cloned": CLONED, "l1": CLONED}.get(init, Path(init))
    if not folder.is_dir():
        raise FileNotFoundError(f"--init {init} is no training's folder, nor one of cloned, played, bundled and l1")
    return folder


def initial_layers(init: str) -> tuple[HorizonManagerPPO, TemporalDecisionTransformer, GlobalCoordinator]:
    """The layers to start from; `l1` is an untrained L3 between cloned others."""
    folder = initial_folder(init)
    l3 = (
        TemporalDecisionTransformer()
        if init == "l1"
        else load_layer(TemporalDecisionTransformer, layer_in(folder, "l3"))
    )
    return (
        load_layer(HorizonManagerPPO, layer_in(folder, "l2")),
        l3,
        load_layer(GlobalCoordinator, layer_in(folder, "l4")),
    )


class OnlineLearner:
    """PPO of three levels and the fit of their critic."""

    def __init__(self, options: OnlineOptions) -> None:
        self.options = options
        torch.manual_seed(task_seed(options.seed, "online weights") % 2**32)  # new heads: critic, untrained L3
        l2, l3, l4 = initial_layers(options.init)
        self.l2, self.l3 = L2Policy(l2, options.l2_deviation), L3Policy(l3)
        self.l4 = L4Policy(l4, options.l4_deviation)
        self.policies: dict[str, LayerPolicy] = {"l2": self.l2, "l3": self.l3, "l4": self.l4}
        self.start = {name: copy.deepcopy(policy).requires_grad_(False) for name, policy in self.policies.items()}
        self.averaged = {name: copy.deepcopy(policy.layer) for name, policy in self.policies.items()}
        """the layers to play with: a running mean over rounds, steadier than the last ones"""
        self.rates = {"l2": options.l2_lr, "l3": options.l3_lr, "l4": options.l4_lr}
        self.levels = LevelLearner(
            {
                name: PPOLearner(
                    policy,
                    [JointAdam(policy.parameters(), self.rates[name])],
                    self._ppo(name, 1),
                    task_seed(options.seed, "minibatches", name) % 2**63,
                )
                for name, policy in self.policies.items()
            }
        )
        critic = MomentCritic(None if options.critic is None else load_critic(options.critic))
        self.critic = CriticLearner(
            critic, options.critic_lr, options.critic_epochs, options.minibatch // 2,
            task_seed(options.seed, "critic") % 2**63,
        )  # fmt: skip
        self.collector: RoundCollector | None = None
        """whose last round the critic learns from"""

    def _ppo(self, level: str, decisions: int) -> PPOOptions:
        o = self.options
        return PPOOptions(
            gamma=1.0, gae_lambda=1.0, epochs=o.epochs, minibatches=max(1, math.ceil(decisions / o.minibatch)),
            clip=o.clip, value_clip=None, value_coef=0.0, entropy_coef=o.entropy if level == "l3" else 0.0,
            max_grad_norm=1.0, kl_stop=o.kl_stop, normalize_advantage=False, normalize_value=False,
        )  # fmt: skip

    @property
    def version(self) -> int:
        """Rounds learnt so far."""
        return self.levels.version

    def weights(self) -> Weights:
        """What workers need to play the current version with draws."""
        l2, l3, l4 = (layer_bytes(self.policies[name].layer) for name in LEVELS)
        return Weights(l2, l3, l4, float(self.l4.log_std.detach()))

    def averaged_weights(self) -> Weights:
        """The layers that are validated and saved, to be played by their modes."""
        l2, l3, l4 = (layer_bytes(self.averaged[name]) for name in LEVELS)
        return Weights(l2, l3, l4)

    def frozen(self, round_: int) -> frozenset[str]:
        """The levels that learn nothing in this round: stage A is L4 alone, stage B all that are asked for."""
        o = self.options
        if round_ < o.critic_rounds:
            return frozenset(LEVELS)
        learning = ("l4",) if round_ < o.critic_rounds + o.l4_rounds else o.learning
        return frozenset(LEVELS) - frozenset(learning)

    def update(self, rollout: Rollout, /) -> RoundStats:
        """Learn from one round: the policies, then the critic."""
        assert self.collector is not None
        assert self.collector.last is not None
        data, round_ = self.collector.last, self.version
        weight = self.options.kl_weight * max(0.0, 1.0 - round_ / self.options.rounds)
        self.levels.frozen = self.frozen(round_)
        held, clone_kl = {}, {}
        for name, batch in rollout.items():
            held[name], clone_kl[name] = self._held(name, batch, weight)
            self.levels.levels[name].options = self._ppo(name, batch.columns)
            self.levels.levels[name].optimizers[0].lr = self.rates[name] * self.lr_share(round_)
        stats = self.levels.update(held)
        self.average(round_)
        new = round_ < self.options.critic_rounds and self.options.critic is None
        critic = self.critic.fit(
            data.table, data.moments.target, data.moments.value, FIRST_CRITIC_EPOCHS if new else None
        )
        return RoundStats(stats, clone_kl, critic, self.l2.typical_deviation(), float(self.l4.log_std.detach().exp()))

    def lr_share(self, round_: int) -> float:
        """What remains of the layers' learning rates in this round."""
        o = self.options
        return 1.0 - (1.0 - o.final_lr_share) * min(1.0, round_ / max(o.rounds - 1, 1))

    @torch.no_grad()
    def average(self, round_: int) -> None:
        """Take the new weights into the running mean; a plain mean of all rounds until there are enough of them."""
        learnt = max(0, round_ - self.options.critic_rounds)
        share = min(self.options.average, learnt / (learnt + 1))
        for name, policy in self.policies.items():
            for mean, new in zip(self.averaged[name].parameters(), policy.layer.parameters(), strict=True):
                mean.lerp_(new, 1.0 - share)

    def _held(self, name: str, batch: RolloutBatch, weight: float) -> tuple[RolloutBatch, float]:
        """The batch with each decision charged for being more probable than at the start; and the mean difference."""
        chunks = to_chunks(batch, batch.reward, batch.reward)
        start = []
        with torch.no_grad():
            for at in torch.split(torch.arange(len(chunks)), PIECE):
                start.append(self.start[name].evaluate(chunks.select(at)).log_prob[0, :, 0])
        further = batch.log_prob[0, :, 0] - torch.cat(start).numpy()
        reward = batch.reward - (weight * further).astype(np.float32)[None, :, None]
        return replace(batch, reward=reward), float(further.mean())

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that changes; flat."""
        state = {f"levels.{name}": tensor for name, tensor in self.levels.state_dict().items()}
        for level, layer in self.averaged.items():
            state |= {f"averaged.{level}.{name}": tensor for name, tensor in layer.state_dict().items()}
        return state | {f"critic.{name}": tensor for name, tensor in self.critic.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Tensor], /) -> None:
        """Continue from a saved state, bit for bit."""
        self.levels.load_state_dict(part_of_state(state, "levels."))
        self.critic.load_state_dict(part_of_state(state, "critic."))
        for level, layer in self.averaged.items():
            layer.load_state_dict(part_of_state(state, f"averaged.{level}."))


class OnlineTraining:
    """Collector, learner and loop of one run."""

    def __init__(self, options: OnlineOptions, executor: NamedExecutor) -> None:
        self.options, self.learner = options, OnlineLearner(options)
        l3 = self.learner.l3.layer
        self.collector = RoundCollector(
            options, executor, self.learner.weights, self.learner.critic.critic, l3.horizon, l3.mode
        )
        self.learner.collector = self.collector
        self.loop: TrainingLoop[RoundStats] = TrainingLoop(
            self.collector, self.learner, options.rounds * options.worlds, options.worlds
        )

    def save_layers(self, folder: Path) -> None:
        """Write the three layers, means over rounds, as l2_ppo, l3_ppo, l4_ppo."""
        note = {"trained by": "echelon hrl online", "rounds": self.learner.version, "worlds": self.loop.env_steps}
        for name in LEVELS:
            save_layer(
                self.learner.averaged[name],
                folder / f"{name}_ppo",
                note | {"init": self.options.init, "field": self.options.field},
            )
