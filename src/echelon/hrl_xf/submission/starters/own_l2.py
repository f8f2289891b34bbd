"""MyAgent: LitaAgentRules with a rule of its own about the day's goal (L2).

Edit `OwnGoals.goals_of_days`. LitaAgentRules is LitaAgentHRL with rules in place of what is learnt; its answers follow
the goal to the piece, those of a learnt L3 do so loosely. Whatever the goal is, L1 keeps the agent from promising what
it cannot deliver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.agent import LitaAgentRules
from echelon.hrl_xf.layers.protocols import GoalMaker
from echelon.hrl_xf.state.day_batch import DayBatch


class OwnGoals:
    """What to buy and sell today, at dawn."""

    LAST_DAYS = 8

    def __init__(self, base: GoalMaker) -> None:
        self.base = base

    def goals_of_days(self, days: DayBatch) -> NDArray[np.float32]:
        """Goals of N days (in play N is 1): for each bucket of days ahead (0-2, 3-7, 8-14, 15-40) the quantity and the
        price to buy, and the quantity and the price to sell.  # (N, 16)

        `days` holds what the agent knows: `inventory_input`, `balance`, `needed_supplies`, `spot_price_in`, …  # (N,)
        """
        goals = self.base.goals_of_days(days)  # what our rule wants: start from it, or from np.zeros_like(goals)
        goals = goals.reshape(-1, 4, 2, 2).copy()  # (N, bucket, [buy, sell], [quantity, price])

        # EDIT HERE. An example: material that is bought on the last days is not worth its price any more.
        ending = days.n_steps - days.current_step <= self.LAST_DAYS
        goals[ending, :, 0, 0] = 0.0

        return goals.reshape(-1, 16)


class MyAgent(LitaAgentRules):
    """LitaAgentRules with OwnGoals; all arguments of LitaAgentHRL are taken, e.g. l3="bundled" for the learnt L3."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.layers = replace(self.layers, l2=OwnGoals(self.layers.l2))
