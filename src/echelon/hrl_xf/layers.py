"""What the three layers above L1 must be able to do, learnt or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from echelon.hrl_xf.day_batch import Bools, Ints
from echelon.hrl_xf.l2_manager import GoalMaker
from echelon.hrl_xf.l3_executor import L3Actions, TemporalDecisionTransformer
from echelon.hrl_xf.l3_situation import Situation

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


@dataclass(frozen=True)
class Layers:
    """The three layers above L1, learnt or not, and what may change L3's choices (`l3_adjust`)."""

    l2: GoalMaker
    l3: Executor
    l4: Coordinator
    residual_modulation: float = 0.0
    min_confidence: float = 0.0

    def __post_init__(self) -> None:
        c, least = self.residual_modulation, self.min_confidence
        if not 0 <= c <= 1 or not 0 <= least <= 1:
            raise ValueError(f"residual_modulation={c} and min_confidence={least} must be within 0..1")
        direct = isinstance(self.l3, TemporalDecisionTransformer) and self.l3.mode == "direct"
        if c and direct:
            raise ValueError(f"residual_modulation={c}: an L3 of mode 'direct' has no residuals; use 0")
        if least and not direct:
            raise ValueError(
                f"min_confidence={least} guards an L3 of mode 'direct' (scheme F), which this is not; use 0"
            )
