"""Evolution strategies: habits are tried out for whole worlds, and kept if they pay.

A vector holds what evolves: L3's habits (`layers.l3_habits`) and the level of L2's quantities. Each of our seats in a
world deviates from it by a draw of its own, ε; the same world is played again with −ε. Half the difference of a seat's
two scores is what its ε was worth, and the mean of difference · ε is the slope of the score along each number:

    slope_j   = mean of ½ (score⁺ − score⁻) · ε_j over the seats that use number j, with its standard error
    pooled_j  = Σ memory^age · slope_j / sqrt(Σ (memory^age · error_j)²)        in standard errors, over generations
    step_j    = rate · deviation_j · pooled_j · min(1, (pooled_j / SURE)²)       so what may be chance moves little

The score of the layers' modes is what improves, and it is what a tournament counts: no critic and no credit by day.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.layers.l2_play import PlayManager
from echelon.hrl_xf.layers.l3_habits import KINDS, TERMS
from echelon.hrl_xf.layers.l3_play import PlayExecutor
from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.networks.files import layer_bytes
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator
from echelon.hrl_xf.online.worlds import PlayedSeat, Weights, WorldTask, play_seats
from echelon.hrl_xf.state.goals import GOAL_SIZE
from echelon.runtime.arrays import Bools, Floats
from echelon.runtime.seeding import rng

QUANTITIES = tuple(range(0, GOAL_SIZE, 2))
"""Where the quantities are among L2's numbers: by bucket, buy then sell."""
HABITS = len(KINDS) * len(TERMS)
SIZE = HABITS + len(QUANTITIES)
NAMES = (
    *(f"{kind}/{term}" for kind in KINDS for term in TERMS),
    *(f"goal/{side}_{bucket}" for bucket in range(GOAL_SIZE // 4) for side in ("buy", "sell")),
)
GOAL_SHARE = 0.1
"""L2's quantities deviate by this part of what habits deviate by: their unit is five pieces."""
SURE = 3.0
"""Standard errors from which on a slope is taken for what it seems to be."""
MOST = 4.0
"""Standard errors beyond which a slope counts no more: the first generations know their errors badly."""


def scales(deviation: float) -> Floats:
    """By how much each number deviates.  # (SIZE,)"""
    found: Floats = deviation * np.where(np.arange(SIZE) < HABITS, 1.0, GOAL_SHARE)
    return found


def used_by_place() -> Bools:
    """Which numbers a seat of the first, a middle and the last level plays with.  # (3, SIZE)"""
    sides = np.array([[0, 1], [1, 1], [1, 0]], np.bool_)  # place, [buy, sell]
    kinds = sides[:, [0, 1, 1]]
    return np.concatenate([np.repeat(kinds, len(TERMS), axis=1), np.tile(sides, GOAL_SIZE // 4)], axis=1)


@dataclass(frozen=True)
class Trial:
    """How the seats of a world deviate."""

    seed: int
    sign: int
    """+1, or −1 for the other half of the pair"""
    deviation: float

    def of_seat(self, seat: int) -> Floats:
        """ε · deviation of one of our seats, with its sign.  # (SIZE,)"""
        return self.sign * scales(self.deviation) * epsilon(self.seed, seat)


def epsilon(seed: int, seat: int) -> Floats:
    """What a seat drew.  # (SIZE,)"""
    return rng(seed, "habits", seat).standard_normal(SIZE)


def play_trial(task: WorldTask, weights: Weights, trial: Trial) -> list[PlayedSeat]:
    """Play a world in which each of our seats deviates by its own draw."""
    return play_seats(task, lambda seat: deviated(weights.layers(), trial.of_seat(seat)))


def deviated(layers: Layers, by: Floats) -> Layers:
    """Layers with other habits and goals; those given stay as they are."""
    l2, l3 = copy.copy(layers.l2), copy.copy(layers.l3)
    if not isinstance(l2, PlayManager) or not isinstance(l3, PlayExecutor) or l3.habits is None:
        raise ValueError(
            "only learnt layers whose L3 has habits can deviate; use TemporalDecisionTransformer.with_habits"
        )
    l3.habits = l3.habits + by[:HABITS].reshape(l3.habits.shape).astype(np.float32)
    l2.mean = copy.copy(l2.mean)
    l2.mean.bias = l2.mean.bias.copy()
    l2.mean.bias[list(QUANTITIES)] += by[HABITS:].astype(np.float32)
    return replace(layers, l2=l2, l3=l3)


@dataclass(frozen=True)
class Evidence:
    """What a generation showed."""

    slope: Floats  # (SIZE,) of the score, per deviation
    error: Floats  # (SIZE,)
    pairs: int
    score: float
    """mean of all seats that deviated"""
    spread: float
    """standard deviation of half the differences"""


def evidence_of(
    seeds: Sequence[int], plus: Sequence[list[PlayedSeat] | None], minus: Sequence[list[PlayedSeat] | None]
) -> Evidence:
    """The slopes that pairs of plays show; a pair of which one play failed is left out."""
    drawn, half, place, mean = [], [], [], []
    for seed, ups, downs in zip(seeds, plus, minus, strict=True):
        if ups is None or downs is None:
            continue
        for seat, (up, down) in enumerate(zip(ups, downs, strict=True)):
            drawn.append(epsilon(seed, seat))
            half.append((up.score - down.score) / 2.0)
            mean.append((up.score + down.score) / 2.0)
            place.append(up.place)
    if not half:
        raise RuntimeError("no pair of worlds of this generation could be played; see the errors above")
    used, worth = used_by_place()[place], np.array(half)
    each = np.where(used, np.array(drawn) * worth[:, None], 0.0)
    count = np.maximum(used.sum(axis=0), 1)
    slope = each.sum(axis=0) / count
    squares = np.where(used, (each - slope) ** 2, 0.0).sum(axis=0) / np.maximum(count - 1, 1)
    return Evidence(slope, np.sqrt(squares / count), len(half), float(np.mean(mean)), float(worth.std()))


class Evolution:
    """The vector that evolves, the evidence so far, and the layers it stands for."""

    def __init__(
        self,
        l2: HorizonManagerPPO,
        l3: TemporalDecisionTransformer,
        l4: GlobalCoordinator,
        *,
        deviation: float,
        rate: float,
        memory: float,
        generations: int,
    ) -> None:
        self.l2, self.l3, self.l4 = l2, l3.with_habits(), l4
        self.deviation, self.rate, self.memory, self.generations = deviation, rate, memory, generations
        self.generation = 0
        self.moved = np.zeros(SIZE)
        """from where it started"""
        self.slopes, self.variances = np.zeros(SIZE), np.zeros(SIZE)

    def learn(self, found: Evidence) -> Floats:
        """Take a generation's evidence into account; the pooled slopes in standard errors.  # (SIZE,)"""
        self.slopes = self.memory * self.slopes + found.slope
        self.variances = self.memory**2 * self.variances + found.error**2
        pooled = self.slopes / np.sqrt(np.maximum(self.variances, 1e-18))
        pooled = np.where(self.variances > 0, np.clip(pooled, -MOST, MOST), 0.0)
        rate = self.rate * (1.0 - 0.7 * self.generation / self.generations)  # smaller steps towards the end
        self.moved = self.moved + rate * scales(self.deviation) * pooled * np.minimum(1.0, (pooled / SURE) ** 2)
        self.generation += 1
        return pooled

    def layers(self) -> tuple[HorizonManagerPPO, TemporalDecisionTransformer, GlobalCoordinator]:
        """The layers as they are now."""
        l2, l3 = copy.deepcopy(self.l2), copy.deepcopy(self.l3)
        moved = torch.from_numpy(self.moved).float()
        with torch.no_grad():
            assert l3.habits is not None
            l3.habits.add_(moved[:HABITS].view_as(l3.habits))
            l2.mean.bias[list(QUANTITIES)] += moved[HABITS:]
        return l2, l3, self.l4

    def weights(self) -> Weights:
        """The same for workers."""
        l2, l3, l4 = map(layer_bytes, self.layers())
        return Weights(l2, l3, l4)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that changes."""
        arrays = {"moved": self.moved, "slopes": self.slopes, "variances": self.variances}
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    def load_state_dict(self, state: Mapping[str, Tensor], generation: int) -> None:
        """Continue from a saved state, bit for bit."""
        self.generation = generation
        self.moved, self.slopes, self.variances = (state[n].numpy().copy() for n in ("moved", "slopes", "variances"))
