"""The PPO loss as a pure function of tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.onpolicy.options import PPOOptions


@dataclass(frozen=True)
class Evaluation:
    """How the current policy evaluates stored decisions."""

    log_prob: Tensor  # (L, M, U)
    entropy: Tensor  # (L, M, U)
    value: Tensor  # (L, M, U) in the critic's units


@dataclass(frozen=True)
class Count:
    """How many units act; what averages are divided by."""

    per_unit: Tensor  # (U,)
    decisions: Tensor  # (): decisions in which any unit acts

    @classmethod
    def of(cls, acts: Tensor) -> Count:  # (L, M, U)
        """Count a batch, or a part of one."""
        return cls(acts.sum((0, 1)), acts.any(-1).sum())


FIGURES = ("total", "policy", "value", "entropy", "approx_kl", "clip_fraction")


@dataclass(frozen=True)
class PPOLoss:
    """The loss and its parts; all but `total` are for looking at only."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    """Mean over acting units."""
    unit_entropy: Tensor  # (U,)
    """Mean over the decisions in which the unit acts."""
    approx_kl: Tensor
    """Mean of ratio - 1 - log ratio over acting units."""
    clip_fraction: Tensor
    """Share of acting units whose ratio is beyond the clip."""
    ratio_error: Tensor
    """Largest |ratio - 1|."""

    def figures(self) -> Tensor:
        """FIGURES and then `unit_entropy` as one vector without a gradient, (6 + U,): they add up over groups."""
        single = [getattr(self, name) for name in FIGURES]
        return torch.cat([torch.stack(single), self.unit_entropy]).detach()


def ppo_loss(
    now: Evaluation,
    old_log_prob: Tensor,
    old_value: Tensor,
    advantage: Tensor,
    target: Tensor,
    acts: Tensor,
    options: PPOOptions,
    count: Count | None = None,
    earns: Tensor | None = None,
) -> PPOLoss:
    """Clipped policy loss, clipped Huber value loss and entropy bonus; all tensors (L, M, U).

        ratio    = exp(log_prob - old_log_prob)
        L_policy = -E min(ratio A, clip(ratio, 1 - c, 1 + c) A)
        L_value  =  E max(huber(V - R), huber(V_old + clip(V - V_old, -c_v, c_v) - R))
        L        =  L_policy + value_coef L_value - entropy_coef E[entropy]

    E is the mean over units that act, or with unit_reduction "sum" the mean over decisions of the sum over acting
    units; the others have no effect, whatever is stored there. `count` is that of the whole mini-batch when this is
    only a part of it: losses of the parts then add up to the loss of the whole. `earns` says where values are learnt,
    if not only where units act.
    """
    count = count or Count.of(acts)
    zero = now.log_prob.new_zeros(())
    divisor = count.per_unit.sum() if options.unit_reduction == "mean" else count.decisions
    acting = acts.to(zero.dtype)
    share, weight = acting / count.per_unit.sum().clamp(min=1), acting / divisor.clamp(min=1)
    valued = acts if earns is None else earns
    value_weight = valued.to(zero.dtype) / divisor.clamp(min=1)

    log_ratio = torch.where(acts, now.log_prob - old_log_prob, zero)
    ratio = log_ratio.exp()
    gain = torch.where(acts, advantage, zero)
    held = ratio.clamp(1 - options.clip, 1 + options.clip) * gain
    policy = -(torch.minimum(ratio * gain, held) * weight).sum()
    value = (_value_loss(now.value, old_value, target, valued, options) * value_weight).sum()
    entropy = torch.where(acts, now.entropy, zero)
    total = policy + options.value_coef * value - options.entropy_coef * (entropy * weight).sum()
    with torch.no_grad():
        distance = (ratio - 1).abs_()
        return PPOLoss(
            total=total,
            policy=policy.detach(),
            value=value.detach(),
            entropy=(entropy * share).sum(),
            unit_entropy=entropy.sum((0, 1)) / count.per_unit.clamp(min=1),
            approx_kl=((ratio - 1 - log_ratio) * share).sum(),
            clip_fraction=((distance > options.clip) * share).sum(),
            ratio_error=distance.max(),
        )


def _value_loss(value: Tensor, old_value: Tensor, target: Tensor, acts: Tensor, options: PPOOptions) -> Tensor:
    """The clipped Huber loss of each value, 0 where no unit acts."""
    zero = value.new_zeros(())
    loss = _huber(torch.where(acts, value - target, zero), options.huber_delta)
    if options.value_clip is None:
        return loss
    held = old_value + (value - old_value).clamp(-options.value_clip, options.value_clip)
    return torch.maximum(loss, _huber(torch.where(acts, held - target, zero), options.huber_delta))


def _huber(error: Tensor, delta: float | None) -> Tensor:
    """Half the square up to delta, linear beyond."""
    inner = error if delta is None else error.clamp(-delta, delta)
    return inner * (error - 0.5 * inner)
