"""Evolution strategies: habits are tried out for whole worlds, and kept if they pay.

A vector holds what evolves: L3's habits (`layers.l3_habits`) and the level of L2's quantities. Each of our seats in a
world deviates from it by a draw of its own, ε; the same world is played again with −ε. Half the difference of a seat's
two scores is what its ε was worth. A regression on all ε, of this generation and earlier ones that count less, tells
the slope of the score along each number, and how sure it is:

    slope   = (Σ ε εᵀ + RIDGE)⁻¹ Σ ε · ½ (score⁺ − score⁻)       of seats, ε = 0 where a seat does not use a number
    sure_j  = slope_j / its standard error
    step_j  = rate · deviation_j · sure_j · min(1, (sure_j / SURE)²)       so what may be chance moves little

A regression, and not the mean of ε · difference: most of what a seat's deviation changes comes from its other numbers
(half the difference deviates by .09 with a deviation of 4, by .02 with one of .3). And both halves of a pair begin each
day with the same random numbers, so that a deal more does not change what all others draw from then on.

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
GOAL_SHARE = 0.2
"""L2's quantities deviate by this part of what habits deviate by: their unit is five pieces."""
SURE = 3.0
"""Standard errors from which on a slope is taken for what it seems to be."""
RIDGE = 16.0
"""Pairs that would show a slope of 0, for each number: with few pairs nothing is known."""
STATE = ("moved", "gram", "moment", "squares", "count")
MOST = 4.0
"""Standard errors beyond which a slope counts no more: the first generations know their errors badly."""


TRADES = np.array([[0, 1], [1, 1], [1, 0]], np.bool_)
"""Whether a seat of the first, a middle and the last level negotiates to buy and to sell.  # (3, 2)"""


def scales(deviation: float) -> Floats:
    """By how much each number deviates.  # (SIZE,)"""
    found: Floats = deviation * np.where(np.arange(SIZE) < HABITS, 1.0, GOAL_SHARE)
    return found


def used_by_place() -> Bools:
    """Which numbers a seat of the first, a middle and the last level plays with.  # (3, SIZE)"""
    kinds = TRADES[:, [0, 1, 1]]
    return np.concatenate([np.repeat(kinds, len(TERMS), axis=1), np.tile(TRADES, GOAL_SIZE // 4)], axis=1)


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
    return play_seats(task, lambda seat: deviated(weights.layers(), trial.of_seat(seat)), chance=trial.seed)


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

    drawn: Floats  # (N, SIZE) ε of each pair of seats; 0 where the seat does not use a number
    worth: Floats  # (N,) half the difference of its scores
    score: float
    """mean of all seats that deviated"""


def evidence_of(
    seeds: Sequence[int], plus: Sequence[list[PlayedSeat] | None], minus: Sequence[list[PlayedSeat] | None]
) -> Evidence:
    """What pairs of plays show; a pair of which one play failed is left out."""
    drawn, worth, place, mean = [], [], [], []
    for seed, ups, downs in zip(seeds, plus, minus, strict=True):
        if ups is None or downs is None:
            continue
        for seat, (up, down) in enumerate(zip(ups, downs, strict=True)):
            drawn.append(epsilon(seed, seat))
            worth.append((up.score - down.score) / 2.0)
            mean.append((up.score + down.score) / 2.0)
            place.append(up.place)
    if not worth:
        raise RuntimeError("no pair of worlds of this generation could be played; see the errors above")
    used = used_by_place()[place]
    return Evidence(np.where(used, np.array(drawn), 0.0), np.array(worth), float(np.mean(mean)))


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
        self.screened = False
        """whether it has begun with what paid alone"""
        self.moved = np.zeros(SIZE)
        """from where it started"""
        self.gram, self.moment = np.zeros((SIZE, SIZE)), np.zeros(SIZE)
        self.squares, self.count = np.zeros(1), np.zeros(1)
        """sums over all pairs of seats so far, earlier ones counting less"""

    def begin_with(self, moved: Floats) -> None:
        """Start from there."""
        self.moved, self.screened = moved, True

    def learn(self, found: Evidence) -> Floats:
        """Take a generation's evidence into account; the slopes in standard errors.  # (SIZE,)"""
        x, y, m = found.drawn, found.worth, self.memory
        self.gram, self.moment = m * self.gram + x.T @ x, m * self.moment + x.T @ y
        self.squares, self.count = m * self.squares + y @ y, m * self.count + len(y)
        sure = self.sureness()
        rate = self.rate * (1.0 - 0.7 * self.generation / max(self.generations, 1))  # smaller steps towards the end
        self.moved = self.moved + rate * scales(self.deviation) * sure * np.minimum(1.0, (sure / SURE) ** 2)
        self.generation += 1
        return sure

    def sureness(self) -> Floats:
        """The slopes of the regression in their standard errors; 0 where nothing is known.  # (SIZE,)"""
        inverse = np.linalg.inv(self.gram + RIDGE * np.eye(SIZE))
        slope = inverse @ self.moment
        left = self.squares - 2.0 * slope @ self.moment + slope @ self.gram @ slope
        free = np.maximum(self.count - np.trace(inverse @ self.gram), 1.0)
        error = np.sqrt(np.maximum(left / free, 0.0) * np.diag(inverse @ self.gram @ inverse))
        found: Floats = np.clip(np.divide(slope, error, out=np.zeros(SIZE), where=error > 0), -MOST, MOST)
        return found

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
        return {name: torch.from_numpy(getattr(self, name).copy()) for name in STATE}

    def load_state_dict(self, state: Mapping[str, Tensor], generation: int) -> None:
        """Continue from a saved state, bit for bit."""
        self.generation = generation
        for name in STATE:
            setattr(self, name, state[name].numpy().copy())
