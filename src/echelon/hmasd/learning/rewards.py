"""What the discriminators give: low-level rewards, and their own learning from the round they were just used on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.networks.discriminators import IndividualDiscriminator, TeamDiscriminator
from echelon.onpolicy.aligned import as_tensor
from echelon.onpolicy.batch import RolloutBatch, group_columns, select_columns
from echelon.onpolicy.groups import Groups, sum_in_order
from echelon.onpolicy.optimizer import JointAdam
from echelon.onpolicy.ppo import part_of_state
from echelon.runtime.arrays import Array


@dataclass(frozen=True)
class IntrinsicRewards:
    """The low-level reward r^i = lambda_e r + lambda_D log q_D(Z|s') + lambda_d log q_d(z^i|o'^i,Z), and its parts.

    An agent that is gone while its team continues has the first two terms.
    """

    total: Array  # (T, B, n)
    environment: float
    team: float
    individual: float
    """Means of the three weighted terms over agents that act."""


@dataclass(frozen=True)
class DiscriminatorStats:
    """What one update of both discriminators saw at its first step, before anything was learnt."""

    loss: float
    team_accuracy: float
    individual_accuracy: float


@dataclass(frozen=True)
class SkillData:
    """What skills led to, of every step that counts: N team rows, K agent rows."""

    state: Tensor  # (N, S)
    team_skill: Tensor  # (N,)
    observation: Tensor  # (K, F)
    its_team_skill: Tensor  # (K,)
    agent_skill: Tensor  # (K,)

    @classmethod
    def of(cls, batch: RolloutBatch, device: torch.device | str = "cpu") -> SkillData:
        """Next states and observations of a round, without steps in which no agent acted."""
        acts, skills = batch.acts, batch.observation["skills"]  # (T, B, n), (T, B, n + 1)
        any_acts = acts.any(-1)
        teams = np.broadcast_to(skills[:, :, :1], acts.shape)
        arrays = (
            batch.extra["next_state"][any_acts],
            skills[:, :, 0][any_acts],
            batch.extra["next_observation"][acts],
            teams[acts],
            skills[:, :, 1:][acts],
        )
        return cls(*(as_tensor(array).to(device) for array in arrays))

    def split(self, parts: int) -> list[SkillData]:
        """Equal parts, each with rows from every world and time: part i has rows i, i + parts, …"""
        parts = min(parts, len(self.state))
        return [SkillData(*(rows[i::parts] for rows in vars(self).values())) for i in range(parts)]


UNIT_DECAY, LEAST_UNIT = 0.99, 0.01


class RewardUnit:
    """How large the environment's part of a step's reward is: the mean of its size, over rounds, debiased.

        m <- beta m + (1 - beta) mean |x|,   w <- beta w + (1 - beta),   unit = max(m / w, .01)

    The least unit keeps skills apart where nothing has been earned yet.
    """

    def __init__(self) -> None:
        self._sum, self._weight = 0.0, 0.0

    @property
    def value(self) -> float:
        """1 before the first round."""
        return max(self._sum / self._weight, LEAST_UNIT) if self._weight else 1.0

    def update(self, earned: Array) -> None:
        """Update with the environment's part of every step of a round."""
        self._sum = UNIT_DECAY * self._sum + (1 - UNIT_DECAY) * float(np.abs(earned).mean())
        self._weight = UNIT_DECAY * self._weight + (1 - UNIT_DECAY)

    def state_dict(self) -> dict[str, Tensor]:
        """Both sums."""
        return {"sums": torch.tensor([self._sum, self._weight], dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from saved sums."""
        self._sum, self._weight = state["sums"].tolist()


class Discriminators:
    """q_D and q_d with their optimiser."""

    def __init__(
        self,
        team: TeamDiscriminator,
        individual: IndividualDiscriminator,
        config: HMASDConfig,
        groups: Groups | None = None,
    ) -> None:
        self.team, self.individual, self.config = team, individual, config
        self.groups = Groups() if groups is None else groups
        self.optimizer = JointAdam([*team.parameters(), *individual.parameters()], config.lr)
        self.unit = RewardUnit()
        self.device = self.optimizer.joint.device

    @torch.inference_mode()
    def rewards(self, batch: RolloutBatch) -> IntrinsicRewards:
        """Low-level rewards of a round, with the discriminators as they are now: those it was collected under."""
        config, acts = self.config, batch.acts
        columns = group_columns(batch, self.groups.count)
        mine = [self._terms(select_columns(batch, columns[group])) for group in self.groups.mine]
        everywhere = [pair for process in self.groups.exchange(mine) for pair in process]
        team_term, own_term = (np.concatenate(parts, 1) for parts in zip(*everywhere, strict=True))
        earned = np.float32(config.lambda_e) * batch.reward
        shared = np.broadcast_to(team_term[:, :, None], acts.shape)
        total = np.where(batch.earning, earned + shared + own_term, np.float32(0.0)).astype(np.float32)
        return IntrinsicRewards(
            total, float(earned[acts].mean()), float(shared[acts].mean()), float(own_term[acts].mean())
        )

    def _terms(self, batch: RolloutBatch) -> tuple[Array, Array]:
        """The weighted terms of the team, (T, B), and of each agent, (T, B, n), of one group; 0 where nobody acts."""
        config, data, acts = self.config, SkillData.of(batch, self.device), batch.acts
        team = self.team(data.state).gather(1, data.team_skill[:, None])[:, 0].cpu().numpy()
        guessed = self.individual(data.observation, data.its_team_skill)
        own = guessed.gather(1, data.agent_skill[:, None])[:, 0].cpu().numpy()
        if config.skill_baseline:
            team, own = team + math.log(config.team_skills), own + math.log(config.agent_skills)
        unit = self.unit.value if config.relative_intrinsic else 1.0
        team_term, own_term = np.zeros(acts.shape[:2], np.float32), np.zeros(acts.shape, np.float32)
        team_term[acts.any(-1)], own_term[acts] = unit * config.lambda_team * team, unit * config.lambda_agent * own
        return team_term, own_term

    def rewarded(self, batch: RolloutBatch) -> tuple[RolloutBatch, IntrinsicRewards]:
        """The batch with low-level rewards in place of the environment's."""
        self.unit.update(self.config.lambda_e * batch.reward[batch.acts])
        rewards = self.rewards(batch)
        return replace(batch, reward=rewards.total), rewards

    def update(self, batch: RolloutBatch) -> DiscriminatorStats:
        """Learn from this round alone: a longer memory would hold skills that mean something else by now."""
        groups = [
            SkillData.of(select_columns(batch, columns), self.device).split(self.config.minibatches)
            for columns in group_columns(batch, self.groups.count)
        ]
        first: DiscriminatorStats | None = None
        for parts in list(zip(*groups, strict=True)) * self.config.discriminator_epochs:
            whole = sum(len(part.team_skill) for part in parts), sum(len(part.agent_skill) for part in parts)
            figures = self._gradient([parts[group] for group in self.groups.mine], whole)
            self.optimizer.step()
            if first is None:
                first = DiscriminatorStats(*figures.tolist())
        assert first is not None  # discriminator_epochs is at least 1
        return first

    def _gradient(self, mine: Sequence[SkillData], whole: tuple[int, int]) -> Tensor:
        """Leave the gradient over all groups for the optimiser; loss and both shares of right guesses, (3,)."""
        rows = []
        for data in mine:
            self.optimizer.zero_grad()
            team_loss, team_right = _guesses(self.team(data.state), data.team_skill, whole[0])
            own = self.individual(data.observation, data.its_team_skill)
            own_loss, own_right = _guesses(own, data.agent_skill, whole[1])
            loss = team_loss + own_loss
            loss.backward()  # type: ignore[no-untyped-call]
            rows.append(torch.stack([loss.detach(), team_right, own_right]))
            if self.groups.count > 1:
                rows[-1] = torch.cat([self.optimizer.gather(), rows[-1]])
        if self.groups.count == 1:
            return rows[0]
        total = sum_in_order(self.groups.gather(torch.stack(rows)))
        self.optimizer.put(total[:-3])
        return total[-3:]

    def state_dict(self) -> dict[str, Tensor]:
        """Weights and optimiser."""
        state = {f"team.{name}": t.detach().clone() for name, t in self.team.state_dict().items()}
        state |= {f"individual.{name}": t.detach().clone() for name, t in self.individual.state_dict().items()}
        state |= {f"unit.{name}": t for name, t in self.unit.state_dict().items()}
        return state | {f"optimizer.{name}": t for name, t in self.optimizer.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.team.load_state_dict(part_of_state(state, "team."))
        self.individual.load_state_dict(part_of_state(state, "individual."))
        self.unit.load_state_dict(part_of_state(state, "unit."))
        self.optimizer.load_state_dict(part_of_state(state, "optimizer."))


def _guesses(log_probs: Tensor, truth: Tensor, whole: int) -> tuple[Tensor, Tensor]:
    """What these rows add to the cross-entropy and to the share of right guesses, of `whole` rows."""
    right = log_probs.argmax(1) == truth
    return functional.nll_loss(log_probs, truth, reduction="sum") / whole, right.sum() / whole
