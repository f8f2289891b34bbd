"""The numbers that evolve: weights of L3's habits for each kind of thread, and the level of L2's quantities.

Each number has a few levels besides 0, by which it may differ from the layers of the start.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from echelon.hrl_xf.layers.l2_play import PlayManager
from echelon.hrl_xf.layers.l3_habits import BUYERS, KINDS, TERMS
from echelon.hrl_xf.layers.l3_play import PlayExecutor
from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.state.goals import GOAL_SIZE
from echelon.runtime.arrays import Bools, Floats, Ints

QUANTITIES = tuple(range(0, GOAL_SIZE, 2))
"""Where the quantities are among L2's numbers: by bucket, buy then sell."""
HABITS = len(KINDS) * len(TERMS)
SIZE = HABITS + len(QUANTITIES)
NAMES = (
    *(f"{kind}/{term}" for kind in KINDS for term in TERMS),
    *(f"goal/{side}_{bucket}" for bucket in range(GOAL_SIZE // 4) for side in ("buy", "sell")),
)
LEVELS = np.array([-1.0, -1 / 3, 1 / 3, 1.0])
"""Besides 0; 1 is the largest weight that is tried."""
GOAL_SHARE = 0.1
"""L2's quantities change by this part of what habits change by: their unit is five pieces."""
KIN = 0.6
"""Correlation of what a term is worth to two kinds of buyers, or of sellers."""
TRADES = np.array([[0, 1], [1, 1], [1, 0]], np.bool_)
"""Whether a seat of the first, a middle and the last level negotiates to buy and to sell.  # (3, 2)"""
THREADS = np.repeat(np.array([[0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]], np.bool_), 2, axis=1)
"""Which kinds of threads such a seat has.  # (3, KINDS)"""
OF_BUYERS = ("accept_in_goal", "end_without_goal", "quantity_share")
"""Terms that are not tried for sellers: what they want is all that L1 allows, not a goal."""


def used_by_place() -> Bools:
    """Which numbers a seat of the first, a middle and the last level plays with.  # (3, SIZE)"""
    habits = np.repeat(THREADS[:, :, None], len(TERMS), axis=2)
    known = [kind.endswith("large partner") for kind in KINDS]
    habits[:, known, TERMS.index("quantity_unknown")] = False
    habits[:, BUYERS:, [TERMS.index(term) for term in OF_BUYERS]] = False
    return np.concatenate([habits.reshape(3, HABITS), np.tile(TRADES, GOAL_SIZE // 4)], axis=1)


def kinship() -> Floats:
    """How much the worth of one number tells about another's: a term's worth is similar for all buyers, or all sellers.

    # (SIZE, SIZE)
    """
    buys = np.arange(len(KINDS)) < BUYERS
    kinds = np.where(np.eye(len(KINDS), dtype=np.bool_), 1.0, KIN * (buys == buys[:, None]))
    found = np.eye(SIZE)
    found[:HABITS, :HABITS] = np.kron(kinds, np.eye(len(TERMS)))
    return found


def values(levels: Ints, weight: float) -> Floats:
    """What numbers are at these levels (0: as in the start, 1 + i: LEVELS[i]).  # (..., SIZE) -> (..., SIZE)"""
    found: Floats = weight * np.where(np.arange(SIZE) < HABITS, 1.0, GOAL_SHARE) * np.append(0.0, LEVELS)[levels]
    return found


def changed(layers: Layers, by: Floats) -> Layers:
    """Layers with other habits and goals; those given stay as they are.  # (SIZE,)"""
    l2, l3 = copy.copy(layers.l2), copy.copy(layers.l3)
    if not isinstance(l2, PlayManager) or not isinstance(l3, PlayExecutor) or l3.habits is None:
        raise ValueError(
            "only learnt layers whose L3 has habits can change them; use TemporalDecisionTransformer.with_habits"
        )
    l3.habits = l3.habits + by[:HABITS].reshape(l3.habits.shape).astype(np.float32)
    l2.mean = copy.copy(l2.mean)
    l2.mean.bias = l2.mean.bias.copy()
    l2.mean.bias[list(QUANTITIES)] += by[HABITS:].astype(np.float32)
    return replace(layers, l2=l2, l3=l3)
