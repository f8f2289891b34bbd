"""What may change L3's choice before the reservation: a guard for scheme F, and L4's modulation of residuals.

Both are off by default. Neither leaves L1's limits: the rules stay inside them, and what is modulated is clipped.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from echelon.hrl_xf.layers.l3_situation import Situation
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.layers.rules import HeuristicExecutor
from echelon.hrl_xf.state.day_state import REJECT
from echelon.hrl_xf.state.l1_safety import L1Output, L1SafetyLayer
from echelon.runtime.arrays import Float32


def guarded(actions: L3Actions, situation: Situation, min_confidence: float) -> L3Actions:
    """The rules' answer wherever L3 gives the answer it chose (of ACCEPT, REJECT, END) a smaller probability."""
    if min_confidence <= 0 or actions.op_log_probs is None:
        return actions
    confidence = np.exp(actions.op_log_probs[np.arange(len(actions.op)), actions.op])
    unsure = confidence < min_confidence
    if not unsure.any():
        return actions
    rules = HeuristicExecutor().act(None, situation)
    op, offer = np.where(unsure, rules.op, actions.op), np.where(unsure[:, None], rules.offer, actions.offer)
    return replace(actions, op=op, offer=offer)


def modulated(
    actions: L3Actions,
    situation: Situation,
    layer: L1SafetyLayer,
    out: L1Output,
    alpha: Float32,
    c: float,
) -> L3Actions:
    """Offers whose residuals of quantity and price to L1's baseline are multiplied by 1 + c·(K·α − 1), then clipped.

    K is the number of threads in the call, so K·α is 1 on average: a thread with more than its share of attention goes
    further from the baseline, one with less stays nearer.
    """
    if c == 0:
        return actions
    base, offer = situation.legal_baseline, actions.offer
    factor = 1.0 + c * (len(alpha) * alpha.astype(np.float64) - 1.0)
    wanted = offer.astype(np.float64)
    scaled = np.rint(base + factor[:, None] * (offer - base))
    wanted[:, [0, 2]] = scaled[:, [0, 2]]  # the day stays
    clipped = layer.clip(out, wanted)
    rows = (actions.op == REJECT) & (base[:, 0] > 0) & clipped.legal
    return replace(actions, offer=np.where(rows[:, None], clipped.offer, offer))
