"""MyAgent: LitaAgentHRL with a rule of its own about the answers to offers (L3).

Edit `OwnAnswers.act`. Whatever it answers, L1 keeps the agent from promising what it cannot deliver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.layers.l3_history import HistoryCache
from echelon.hrl_xf.layers.l3_play import LearntExecutor
from echelon.hrl_xf.layers.l3_situation import Situation
from echelon.hrl_xf.layers.protocols import Executor, L3Actions
from echelon.hrl_xf.state.day_state import ACCEPT, REJECT


class OwnAnswers:
    """What to answer in all negotiations of a call."""

    PATIENCE = 0.3

    def __init__(self, learnt: Executor) -> None:
        if not isinstance(learnt, LearntExecutor):
            raise ValueError(f"{type(learnt).__name__} is not a learnt L3; leave l3 as it is, or name a file")
        self.learnt = learnt
        self.mode, self.view, self.width = learnt.mode, learnt.view, learnt.width

    def new_cache(self, threads: int) -> HistoryCache:
        return self.learnt.new_cache(threads)

    def act(
        self,
        state: NDArray[np.float32],
        situation: Situation,
        *,
        generator: np.random.Generator | None = None,
        greedy: bool = True,
    ) -> L3Actions:
        """Answers in N negotiations: `op` is ACCEPT, REJECT or END, `offer` (quantity, days ahead, unit price) is what
        a REJECT proposes instead, zeros otherwise.  # (N,), (N, 3)

        `situation` holds what the agent knows of each: `seller`, `on_table` and `seen` (the partner's offer),
        `acceptable` (the offer is within L1's limits), `relative_time` (0..1), `issues` (bounds of quantity, days ahead
        and unit price), `goal`, `open_goal`, … N rows each.
        """
        actions = self.learnt.act(state, situation, generator=generator, greedy=greedy)
        op, offer = actions.op.copy(), actions.offer.copy()

        # EDIT HERE. An example: a seller that would accept early asks for the highest price first.
        early = situation.seller & (op == ACCEPT) & (situation.relative_time < self.PATIENCE)
        op[early], offer[early] = REJECT, situation.seen[early]  # the same quantity and day, …
        offer[early, 2] = situation.issues[early, 5]  # … and the highest price that may be offered

        return replace(actions, op=op, offer=offer)


class MyAgent(LitaAgentHRL):
    """LitaAgentHRL with OwnAnswers; all arguments of LitaAgentHRL are taken."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.layers = replace(self.layers, l3=OwnAnswers(self.layers.l3))
