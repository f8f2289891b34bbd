"""The three layers above L1 that an agent plays with."""

from __future__ import annotations

from dataclasses import dataclass

from echelon.hrl_xf.layers.l3_play import LearntExecutor
from echelon.hrl_xf.layers.protocols import Coordinator, Executor, GoalMaker


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
        direct = isinstance(self.l3, LearntExecutor) and self.l3.mode == "direct"
        if c and direct:
            raise ValueError(f"residual_modulation={c}: an L3 of mode 'direct' has no residuals; use 0")
        if least and not direct:
            raise ValueError(
                f"min_confidence={least} guards an L3 of mode 'direct' (scheme F), which this is not; use 0"
            )
