"""What the three layers above L1 must be able to do, learnt or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from echelon.hrl_xf.layers.l3_situation import Situation
from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.onpolicy.distributions import Parts
from echelon.runtime.arrays import Bools, Ints

Array = NDArray[np.float32]


class Executor(Protocol):
    """What decides on the threads of a call: the network, the heuristic, or L1 itself."""

    def act(
        self, state: Tensor, situation: Situation, *, generator: torch.Generator | None = None, greedy: bool = True
    ) -> L3Actions:
        """Choose at N decisions."""


class Coordinator(Protocol):
    """What divides the attention among the threads of a call."""

    def alpha(self, thread_feat: Array, global_feat: Array, days: Ints, role: Array, mask: Bools) -> Array:
        """α of each thread of S sets.  # (S, K)"""


class GoalMaker(Protocol):
    """What gives a day its goal: the network or the heuristic."""

    def goals_of_days(self, days: DayBatch) -> NDArray[np.float32]:
        """Goals in pieces and currency.  # (N, 16)"""


@dataclass(frozen=True)
class L3Actions:
    """What was chosen at N decisions."""

    op: Tensor  # (N,) ACCEPT, REJECT, END
    offer: Tensor  # (N, 3) quantity, unit price, days ahead; zeros unless REJECT
    parts: Parts
    """as stored for learning: op, day, dq, dp"""
    log_prob: Tensor  # (N,)
    op_log_probs: Tensor | None = None  # (N, 3) of ACCEPT, REJECT, END; None where nothing was weighed
