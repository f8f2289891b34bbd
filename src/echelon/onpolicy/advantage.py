"""Generalised advantage estimation over decisions that last different numbers of steps (semi-Markov).

A decision t lasts span_t environment steps and earns reward_t in all. With the discount of the whole decision
g_t = gamma ** span_t,

    delta_t = reward_t + g_t * (1 - terminated_t) * next_value_t - value_t
    A_t     = delta_t + g_t * lambda * (1 - done_t) * A_{t+1},        A_T = 0
    target_t = A_t + value_t

`terminated` (the task itself ended: nothing more can be earned) and `done` (the chain of decisions stops here, by
termination or by truncation) are apart: a time limit stops the trace but bootstraps from `next_value`, the value of the
state that really followed, never of the first state of the next episode. The last row bootstraps in the same way.
"""

from __future__ import annotations

import numpy as np

from echelon.onpolicy.batch import RolloutBatch
from echelon.onpolicy.options import Discount
from echelon.runtime.arrays import Array


def gae(
    reward: Array,
    value: Array,
    next_value: Array,
    terminated: Array,
    done: Array,
    span: Array,
    gamma: float,
    lam: float,
) -> tuple[Array, Array]:
    """Return (advantages, value targets), both float64 of the shape of `reward`: (T, ...).

    `terminated`, `done` and `span` may lack trailing axes: (T, B) with rewards of (T, B, N) holds for all N.
    Where `terminated` is set `next_value` is not looked at, so it may be anything there, NaN included.
    """
    if value.shape != reward.shape or next_value.shape != reward.shape:
        raise ValueError(
            f"reward {reward.shape}, value {value.shape} and next_value {next_value.shape} must have one shape"
        )
    if not 0.0 <= gamma <= 1.0 or not 0.0 <= lam <= 1.0:
        raise ValueError(f"gamma={gamma} and lambda={lam} must be in [0, 1]")
    ended = _like(terminated, reward, "terminated").astype(bool, copy=False)
    stopped = _like(done, reward, "done").astype(bool, copy=False)
    if (ended & ~stopped).any():
        raise ValueError(
            "terminated without done: an episode that ended cannot continue; set done wherever terminated is set"
        )
    discount = np.power(gamma, _like(span, reward, "span"), dtype=np.float64)  # (T, ...)

    old = value.astype(np.float64)
    delta = reward + discount * np.where(ended, 0.0, next_value) - old
    trace = np.where(stopped, 0.0, lam * discount)
    advantage = np.empty(reward.shape, np.float64)
    running = np.zeros(reward.shape[1:], np.float64)
    for t in range(len(reward) - 1, -1, -1):
        running = delta[t] + trace[t] * running
        advantage[t] = running
    return advantage, advantage + old


def batch_gae(
    batch: RolloutBatch,
    gamma: float,
    lam: float,
    mean: float = 0.0,
    std: float = 1.0,
    discount: Discount = "per_step",
) -> tuple[Array, Array]:
    """`gae` of a batch whose critic predicts (return - mean) / std; rewards and results are in units of reward.

    Slots where a unit does not earn (its return is over, or padding) count as the end of everything: their results are
    0 and nothing stored in them reaches a neighbour. With `discount` per_decision g_t is gamma, whatever the span.
    """
    earning = batch.earning  # (T, B, U)
    value = np.where(earning, batch.value.astype(np.float64) * std + mean, 0.0)
    next_value = np.where(earning, batch.next_value.astype(np.float64) * std + mean, 0.0)
    reward = np.where(earning, batch.reward, 0.0)
    terminated, done = batch.terminated | ~earning, batch.done | ~earning
    span = batch.span if discount == "per_step" else np.ones_like(batch.span)
    return gae(reward, value, next_value, terminated, done, span, gamma, lam)


def _like(flags: Array, reward: Array, name: str) -> Array:
    """`flags` with trailing axes of length 1, so that it broadcasts against `reward`."""
    if flags.shape != reward.shape[: flags.ndim]:
        raise ValueError(f"{name} {flags.shape} must equal the leading axes of reward {reward.shape}")
    return flags.reshape(flags.shape + (1,) * (reward.ndim - flags.ndim))
