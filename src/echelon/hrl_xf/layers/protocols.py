"""What the three layers above L1 must be able to do, learnt or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from echelon.hrl_xf.layers.l3_situation import Situation
from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.runtime.arrays import Bools, Float32, Ints


class Executor(Protocol):
    """What decides on the threads of a call: the network, the heuristic, or L1 itself."""

    def act(
        self,
        state: Float32,
        situation: Situation,
        *,
        generator: np.random.Generator | None = None,
        greedy: bool = True,
    ) -> L3Actions:
        """Choose at N decisions. `state` is of the histories, for a layer that reads them (`l3_play`).  # (N, w)"""


class Coordinator(Protocol):
    """What divides the attention among the threads of a call."""

    def alpha(self, thread_feat: Float32, global_feat: Float32, days: Ints, role: Float32, mask: Bools) -> Float32:
        """α of each thread of S sets.  # (S, K)"""


class GoalMaker(Protocol):
    """What gives a day its goal: the network or the heuristic."""

    def goals_of_days(self, days: DayBatch) -> Float32:
        """Goals in pieces and currency.  # (N, 16)"""


@dataclass(frozen=True)
class L3Actions:
    """What was chosen at N decisions. Tensors on the CPU are taken too."""

    op: Ints  # (N,) ACCEPT, REJECT, END
    offer: Ints  # (N, 3) quantity, days ahead, unit price; zeros unless REJECT
    parts: dict[str, Ints]
    """as stored for learning: op, day, dq, dp"""
    log_prob: Float32  # (N,)
    op_log_probs: Float32 | None = None  # (N, 3) of ACCEPT, REJECT, END; None where nothing was weighed

    def __post_init__(self) -> None:
        for name in ("op", "offer", "log_prob", "op_log_probs"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, np.ndarray):
                object.__setattr__(self, name, np.asarray(value))
