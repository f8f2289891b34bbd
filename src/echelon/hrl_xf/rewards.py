"""What a negotiation was worth, for advantage-weighted regression (spec §7).

    reward = (surplus − expected penalties) / spot          0 without a deal
    surplus    q · (spot_in − p) for a buyer,  q · (p − spot_out) for a seller
    penalties  for the pieces beyond what was safe at the decision, excess = max(0, q − safe[d]):
               a seller pays the shortfall penalty for each; a buyer has paid p for material that will not be
               processed before the game ends, and stores or disposes of it

Dividing by the spot price of the side gives pieces' worth, so that factories of cheap and dear products count alike.
Every decision of a thread has the thread's reward; what it was worth more than usual is its advantage:

    advantage = reward − mean reward of its role and phase          weight = min(exp(advantage / β), w_max)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.day_batch import Bools, Floats, Ints
from echelon.hrl_xf.samples import MicroBatch

PHASES = ("opening", "early", "middle", "late")


def deal_rewards(
    deal: Ints,  # (N, 3) quantity, unit price, days ahead; quantity 0 without a deal
    seller: Bools,  # (N,)
    spot: NDArray[np.floating],  # (N, 2) prices in and out
    safe: NDArray[np.floating],  # (N, H+1) safe quantity of the side when it was decided
    costs: NDArray[np.floating],  # (N, 3) shortfall penalty, storage cost, disposal cost, as shares of spot
) -> Floats:
    """The reward of each decision, in pieces at spot price.  # (N,)"""
    q, p, d = np.asarray(deal, np.float64).T
    n = np.arange(len(q))
    at_spot = np.maximum(np.asarray(spot, np.float64)[n, seller.astype(np.int64)], 1e-6)
    surplus = q * np.where(seller, p - at_spot, at_spot - p)
    day = np.clip(d.astype(np.int64), 0, safe.shape[1] - 1)
    excess = np.maximum(0.0, q - np.asarray(safe, np.float64)[n, day])
    shortfall, storage, disposal = np.asarray(costs, np.float64).T
    penalty = excess * np.where(seller, shortfall * at_spot, p + (storage + disposal) * at_spot)
    return np.where(q > 0, (surplus - penalty) / at_spot, 0.0)


def rewards_of(batch: MicroBatch) -> Floats:
    """The rewards of a batch of decisions.  # (N,)"""
    return deal_rewards(batch.deal, batch.role[:, 1] > 0.5, batch.spot, batch.safe, batch.costs)


def phases_of(history: Ints, relative_time: NDArray[np.floating]) -> Ints:
    """Index into `PHASES`: nothing said yet, then thirds of the negotiation's time.  # (N,)"""
    third = np.minimum((np.asarray(relative_time, np.float64) * 3.0).astype(np.int64), 2)
    return np.where(history == 0, 0, 1 + third)


@dataclass(frozen=True)
class Advantages:
    """Mean rewards by role and phase, and the weights that follow from them."""

    mean: Floats  # (2, 4) buyer and seller by phase
    beta: float
    max_weight: float

    def __post_init__(self) -> None:
        if not (self.beta > 0 and self.max_weight >= 1):
            raise ValueError(f"beta={self.beta} must be positive and max_weight={self.max_weight} at least 1")

    @classmethod
    def fit(cls, reward: Floats, seller: Bools, phase: Ints, beta: float = 0.5, max_weight: float = 20.0) -> Advantages:
        """Means of the training decisions; 0 where there is none."""
        cell = seller.astype(np.int64) * len(PHASES) + phase
        size = 2 * len(PHASES)
        count = np.bincount(cell, minlength=size)
        mean = np.bincount(cell, reward, size) / np.maximum(count, 1)
        return cls(mean.reshape(2, -1), beta, max_weight)

    def advantage(self, reward: Floats, seller: Bools, phase: Ints) -> Floats:
        """reward − mean of its role and phase.  # (N,)"""
        found: Floats = reward - self.mean[seller.astype(np.int64), phase]
        return found

    def weights(self, reward: Floats, seller: Bools, phase: Ints) -> Floats:
        """min(exp(advantage / β), w_max).  # (N,)"""
        exponent = self.advantage(reward, seller, phase) / self.beta
        return np.exp(np.minimum(exponent, np.log(self.max_weight)))
