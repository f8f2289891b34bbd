"""Habits are tried out for whole worlds, and kept if they pay.

What stands is each number's best level as far as is known: the one with the highest worth less its standard error, if
that is above 0. A seat plays with what stands but for a few numbers, `share` of all: half of these stay as in the
start, for the others it draws a worth of each level from what is known (Thompson) and takes the best. So what may pay
is tried, what is known to lose is not, what stands is compared with what was, and all is measured beside what stands.

The score of the layers' modes is what improves, and it is what a tournament counts: no critic and no credit by day.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.evolve.knowledge import Knowledge, best_levels, played_arms
from echelon.hrl_xf.evolve.numbers import HABITS, LEVELS, QUANTITIES, SIZE, changed, used_by_place, values
from echelon.hrl_xf.networks.files import layer_bytes
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator
from echelon.hrl_xf.online.worlds import PlayedSeat, Weights, WorldTask, play_seats
from echelon.runtime.arrays import Floats, Ints
from echelon.runtime.seeding import rng


@dataclass(frozen=True)
class Play:
    """A world, and the levels that each of our seats plays with."""

    task: WorldTask
    levels: Ints  # (seats, SIZE)


def play_changed(task: WorldTask, weights: Weights, by: Floats) -> list[PlayedSeat]:
    """Play a world in which each of our seats has numbers of its own.  # (seats, SIZE)"""
    return play_seats(task, lambda seat: changed(weights.layers(), by[seat]))


@dataclass(frozen=True)
class Standing:
    """What is known after a generation, number by number."""

    levels: Ints  # (SIZE,) what stands
    worth: Floats  # (SIZE,) of the best level besides 0
    error: Floats  # (SIZE,) its standard deviation


class Evolution:
    """What is known so far, and the layers it stands for."""

    def __init__(
        self,
        l2: HorizonManagerPPO,
        l3: TemporalDecisionTransformer,
        l4: GlobalCoordinator,
        *,
        weight: float,
        share: float,
        memory: float,
    ) -> None:
        self.l2, self.l3, self.l4 = l2, l3.with_habits(), l4
        self.weight, self.share = weight, share
        self.knowledge = Knowledge(memory)
        self.generation = 0

    def plan(self, tasks: Sequence[WorldTask], plays: int, seed: int) -> list[Play]:
        """Each configuration several times, with other levels in every seat."""
        mean, covariance = self.knowledge.posterior()
        root, standing = np.linalg.cholesky(covariance), self.standing().levels
        found = []
        for number, task in enumerate(tasks):
            seats = len(task.configuration().focal)
            for play in range(plays):
                draw = rng(seed, "habits", self.generation, number, play)
                worth = mean + draw.standard_normal((seats, len(mean))) @ root.T
                drawn = np.stack([best_levels(one) for one in worth])
                chance = draw.random((seats, SIZE))
                levels = np.where(chance < self.share / 2, 0, np.where(chance < self.share, drawn, standing))
                found.append(Play(task, levels))
        return found

    def learn(self, plays: Sequence[Play], played: Sequence[list[PlayedSeat] | None]) -> Floats:
        """Take a generation's scores into account; a world that failed is left out. Returns all scores.  # (N,)"""
        levels, places, scores, groups = [], [], [], []
        known: dict[tuple[WorldTask, int], int] = {}
        for play, seats in zip(plays, played, strict=True):
            for number, seat in enumerate(seats or ()):
                levels.append(play.levels[number])
                places.append(seat.place)
                scores.append(seat.score)
                groups.append(known.setdefault((play.task, number), len(known)))
        if not scores:
            raise RuntimeError("no world of this generation could be played; see the errors above")
        arms = played_arms(np.stack(levels), used_by_place()[places])
        self.knowledge.add(arms, np.array(scores), np.array(groups))
        self.generation += 1
        return np.array(scores)

    def standing(self) -> Standing:
        """What stands now."""
        mean, covariance = self.knowledge.posterior()
        error = np.sqrt(np.diag(covariance))
        best = mean.reshape(SIZE, len(LEVELS)).argmax(1) + len(LEVELS) * np.arange(SIZE)
        return Standing(best_levels(mean - error), mean[best], error[best])

    def moved(self) -> Floats:
        """How the numbers differ from those of the start.  # (SIZE,)"""
        return values(self.standing().levels, self.weight)

    def layers(self) -> tuple[HorizonManagerPPO, TemporalDecisionTransformer, GlobalCoordinator]:
        """The layers as they are now."""
        l2, l3 = copy.deepcopy(self.l2), copy.deepcopy(self.l3)
        moved = torch.from_numpy(self.moved()).float()
        with torch.no_grad():
            assert l3.habits is not None
            l3.habits.add_(moved[:HABITS].view_as(l3.habits))
            l2.mean.bias[list(QUANTITIES)] += moved[HABITS:]
        return l2, l3, self.l4

    def weights(self) -> Weights:
        """The same for workers."""
        l2, l3, l4 = map(layer_bytes, self.layers())
        return Weights(l2, l3, l4)

    def start_weights(self) -> Weights:
        """The layers of the start, for workers: with habits that change nothing."""
        return Weights(layer_bytes(self.l2), layer_bytes(self.l3), layer_bytes(self.l4))

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that changes."""
        return self.knowledge.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor], generation: int) -> None:
        """Continue from a saved state, bit for bit."""
        self.generation = generation
        self.knowledge.load_state_dict(state)
