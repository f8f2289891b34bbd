"""L2's network and its loss, each as one function with its gradient written by hand: same numbers, half the time.

With 17,000 parameters a step of training is some hundred operations on small arrays, and much of its time goes into
starting and recording them. The plain forms are `HorizonManagerPPO.forward` and `goal_loss`; tests hold them together.

A convolution of kernel 3, padding 1 and stride 2 over days reads windows of days 2j−1, 2j, 2j+1. Laid out with one
empty day before each sample's, an even number of days a sample, these are the rows of a strided view:

    | 0 d0 | d1 d2 | d3 d4 | 0 d0 | …       window j begins with pair j and ends with the first day of pair j+1

The last window of a sample ends with the empty day before the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

QTransform = Literal["none", "log1p", "sqrt"]
PIECES = 5.0
"""One unit of the quantity head: goals of tens of pieces are then a few units."""
RATIO_STEP = 0.1
"""One unit of the price head is 10 % of spot: the width of the issues' price range."""
RATIO_UNITS = 20.0
"""At most so many of them up or down."""
SQRT_FROM = 1e-6
"""The slope of sqrt has no bound at 0."""

_relu_gradient = torch.ops.aten.threshold_backward
_TINY = 1e-37
"""Differences of floats are 0 or larger."""


def fits(days: int, stride: int) -> bool:
    """Whether two convolutions over so many days are of the form above: odd numbers of days, stride 2."""
    return stride == 2 and days % 2 == 1 and (days + 1) // 2 % 2 == 1


def _padded(samples: int, days: int, channels: int, like: Tensor) -> Tensor:
    """Zeros for samples with one empty day before each, and one behind all.  # (N (days + 1) + 1, C)"""
    return like.new_zeros(samples * (days + 1) + 1, channels)


def _inside(padded: Tensor, samples: int) -> Tensor:
    """The days of a padded array without the empty ones.  # -> (N, days, C), a view"""
    return padded[:-1].view(samples, -1, padded.shape[1])[:, 1:]


def _windows(padded: Tensor) -> Tensor:
    """(N (days + 1) + 1, C) -> (N (days + 1) / 2, 3 C)"""
    channels = padded.shape[1]
    return padded.as_strided((len(padded) // 2, 3 * channels), (2 * channels, 1)).contiguous()


class GoalNetwork(torch.autograd.Function):
    """(N, H+1, 10), (N, 12), (N, 40), (N, 2) and the weights -> what the mean head says, (N, 16)."""

    @staticmethod
    def forward(ctx: Any, temporal: Tensor, static: Tensor, near: Tensor, role: Tensor, *weights: Tensor) -> Tensor:
        w1, b1, w2, b2, w_s, b_s, w_n, b_n, w_r, b_r, w_t, b_t, w_u, b_u, w_m, b_m = weights
        n, days, channels = temporal.shape
        padded = _padded(n, days, channels, temporal)
        _inside(padded, n).copy_(temporal)
        first = _windows(padded)
        half = _padded(n, (days + 1) // 2, len(b1), temporal)
        torch.clamp_min(torch.addmm(b1, first, w1.T).view(n, -1, len(b1)), 0.0, out=_inside(half, n))
        second = _windows(half)
        found = torch.addmm(b2, second, w2.T).view(n, -1, len(b2))
        top = found.amax(1)  # relu of the largest is the largest relu
        parts = (top, torch.addmm(b_s, static, w_s.T), torch.addmm(b_n, near, w_n.T), torch.addmm(b_r, role, w_r.T))
        joint = torch.cat(parts, 1).relu_()
        trunk = torch.addmm(b_t, joint, w_t.T).relu_()
        trunk2 = torch.addmm(b_u, trunk, w_u.T).relu_()
        ctx.save_for_backward(
            static,
            near,
            role,
            first,
            half,
            second,
            found.sub_(top.unsqueeze(1)),
            joint,
            trunk,
            trunk2,
            w2,
            w_t,
            w_u,
            w_m,
        )
        ctx.cuts = [len(b2), len(b_s), len(b_n), len(b_r)]
        return torch.addmm(b_m, trunk2, w_m.T)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        static, near, role, first, half, second, below, joint, trunk, trunk2, w2, w_t, w_u, w_m = ctx.saved_tensors
        g, n, (wide, narrow) = gradients[0], len(static), (len(w2), half.shape[1])
        g2 = _relu_gradient(g @ w_m, trunk2, 0)
        g1 = _relu_gradient(g2 @ w_u, trunk, 0)
        gj = _relu_gradient(g1 @ w_t, joint, 0)
        g_top, g_static, g_near, g_role = gj.split_with_sizes(ctx.cuts, 1)
        b2, b_s, b_n, b_r = gj.sum(0).split_with_sizes(ctx.cuts)
        largest = _relu_gradient(torch.ones_like(below), below, -_TINY)  # 1 where a day is the largest, also of several
        g_second = largest.mul_((g_top / largest.sum(1)).unsqueeze(1)).view(-1, wide)
        g_window = g_second @ w2  # (N days / 2, 3 C)
        g_half = torch.empty_like(half)
        g_half[:-1].view(len(g_window), -1).copy_(g_window[:, : 2 * narrow])
        g_half[2::2].add_(g_window[:, 2 * narrow :])
        g_first = _relu_gradient(_inside(g_half, n), _inside(half, n), 0).reshape(-1, narrow)
        return (
            None, None, None, None,
            g_first.T @ first, g_first.sum(0), g_second.T @ second, b2, g_static.T @ static, b_s, g_near.T @ near, b_n,
            g_role.T @ role, b_r, g1.T @ joint, g1.sum(0), g2.T @ trunk, g2.sum(0), g.T @ trunk2, g.sum(0),
        )  # fmt: skip


_SLOPES: dict[QTransform, Callable[[Tensor], Tensor]] = {
    "log1p": lambda q: 1.0 / (1.0 + q),
    "sqrt": lambda q: 0.5 / torch.sqrt(q + SQRT_FROM),
}


class MaskedGoalLoss(torch.autograd.Function):
    """What the mean head says (N, 16), spot (N, 2), target and mask (N, 16) -> the loss, and seven figures.

    The loss is (w Σ m (T(Q̂)−T(Q))² + Σ m (P̂−P)²) / Σ m; the figures are it and its two mean squares, the sums of errors
    in pieces and currency, and how many of each there are.
    """

    @staticmethod
    def forward(
        ctx: Any, raw: Tensor, spot: Tensor, target: Tensor, mask: Tensor, transform: QTransform, weight: float
    ) -> tuple[Tensor, Tensor]:
        raw_q, raw_p = raw.view(-1, 8, 2).unbind(-1)
        q = functional.softplus(raw_q).mul_(PIECES)
        p = raw_p.clamp(-RATIO_UNITS, RATIO_UNITS).mul_(RATIO_STEP).exp_()
        p.view(-1, 4, 2).mul_(spot.unsqueeze(1))
        there = mask.to(raw.dtype).view(-1, 8, 2)
        error = torch.stack([q, p], -1).sub_(target.view(-1, 8, 2)).mul_(there)
        counts, errors = there.sum((0, 1)), error.abs().sum((0, 1))
        slope = torch.stack(
            [torch.sigmoid(raw_q).mul_(PIECES * weight), (raw_p.abs() < RATIO_UNITS) * p * RATIO_STEP], -1
        )
        if transform != "none":
            of = torch.log1p if transform == "log1p" else lambda x: torch.sqrt(x + SQRT_FROM)
            error[..., 0] = (of(q) - of(target.view(-1, 8, 2)[..., 0].clamp(min=0.0))).mul_(there[..., 0])
            slope[..., 0].mul_(_SLOPES[transform](q))
        each = counts.sum().clamp_(min=1.0).div_(2.0)  # as many quantities as prices
        quantity, price = ((error * error).sum((0, 1)) / each).unbind()
        total = (weight * quantity + price) / 2.0
        ctx.save_for_backward(slope.mul_(error).div_(each).view(raw.shape))
        figures = torch.cat([torch.stack([total, quantity, price]), errors, counts])
        ctx.mark_non_differentiable(figures)
        return total, figures

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return slope * gradients[0], None, None, None, None, None
