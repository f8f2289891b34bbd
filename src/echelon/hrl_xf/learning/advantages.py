"""How much better than expected a recorded decision turned out, and its weight in AWR (spec §7).

    advantage = TD(λ) of its day (`day_returns`), shared by the day's decisions
              + for threads that ended in a deal delivered the same day: what the deal added to the day's profit
                (`day_books`), less the mean of such deals of its role
    weight    = min(exp(advantage / (β · σ)), w_max),    σ the standard deviation of the advantages of the training
                                                         decisions on the same level of the chain

The second part is centred among same-day deals only, and is 0 for all other threads. A sale adds money to its day and
a purchase for stock takes some, nearly always; centred over all decisions it would reward selling and punish buying as
such. So it only tells better deals of a role from worse ones; whether to trade at all is left to the first part, in
which the critic weighs the stock that is bought and the sales that are promised for later days.

σ is taken by level (first, middle, last) because spreads differ: on logs of AS0 among champions it was .097 on the
first level and .021 on middle ones. With one σ for all, middle levels would learn next to nothing, and the first
level's decisions would weigh 2.4 times as much on average.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from echelon.hrl_xf.dataset.datasets import MicroDataset
from echelon.hrl_xf.learning.day_books import deal_differences
from echelon.hrl_xf.learning.day_returns import LEVELS, day_advantages, levels_of, values_of
from echelon.hrl_xf.networks.day_critic import DayCritic
from echelon.runtime.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of N decisions, in initial balances."""

    day: Floats  # (N,) TD(λ) advantage of the day
    deal: Floats  # (N,) what the thread's same-day deal added to the day's profit; 0 where there is none
    dealt: Bools  # (N,) the thread ended in a deal delivered the same day
    seller: Bools  # (N,)
    level: Ints  # (N,) index into `LEVELS`


def outcomes_of(data: MicroDataset, critic: DayCritic, lam: float = 0.95) -> Outcomes:
    """The outcomes of a data set's decisions."""
    take, thread = data.data.tables.store.take, data.thread
    day, by_day = take("thread.day", thread), day_advantages(data.data, values_of(data.data, critic), lam)
    deal = take("thread.deal", thread)  # quantity, days ahead, price
    return Outcomes(
        day=by_day[day],
        deal=deal_differences(data.data)[thread],
        dealt=(deal[:, 0] > 0) & (deal[:, 1] == 0),
        seller=take("thread.seller", thread) == 1,
        level=levels_of(data.data, day),
    )


@dataclass(frozen=True)
class Advantages:
    """The means and the deviation of the training decisions, and the weights that follow from them."""

    deal_mean: Floats  # (2,) of the same-day deals of buyers and sellers
    std: Floats  # (3,) by level
    beta: float
    max_weight: float

    def __post_init__(self) -> None:
        if not (self.beta > 0 and self.max_weight >= 1):
            raise ValueError(f"beta={self.beta} must be positive and max_weight={self.max_weight} at least 1")

    @classmethod
    def fit(cls, found: Outcomes, beta: float = 1.0, max_weight: float = 20.0) -> Advantages:
        """Means and deviation of the training decisions; a mean is 0 and the deviation 1 where there is nothing."""
        role = found.seller[found.dealt].astype(np.int64)
        mean = np.bincount(role, found.deal[found.dealt], 2) / np.maximum(np.bincount(role, minlength=2), 1)
        advantage = _advantage(found, mean)
        levels = [advantage[found.level == level] for level in range(len(LEVELS))]
        std = np.array([x.std() if len(x) else 0.0 for x in levels])
        return cls(mean, np.where(std > 0, std, 1.0), beta, max_weight)

    def advantage(self, found: Outcomes) -> Floats:
        """Of each decision, in initial balances.  # (N,)"""
        return _advantage(found, self.deal_mean)

    def weights(self, found: Outcomes) -> Floats:
        """min(exp(advantage / (β σ)), w_max).  # (N,)"""
        exponent = self.advantage(found) / (self.beta * self.std[found.level])
        return np.exp(np.minimum(exponent, np.log(self.max_weight)))


def _advantage(found: Outcomes, mean: Floats) -> Floats:
    return found.day + np.where(found.dealt, found.deal - mean[found.seller.astype(np.int64)], 0.0)
