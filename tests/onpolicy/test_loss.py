"""The PPO loss: by hand, and what must not change it."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from echelon.onpolicy.loss import Count, Evaluation, ppo_loss
from echelon.onpolicy.options import PPOOptions
from tests.laws import examples
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric

Reduction = Literal["mean", "sum"]
reductions: st.SearchStrategy[Reduction] = st.sampled_from(["mean", "sum"])
seeds = st.integers(0, 2**31 - 1)


def _cube(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64).reshape(1, -1, 1)


def test_every_part_by_hand() -> None:
    """Three decisions, clip .2, value clip .5, Huber 1.

    ratios  1.5, 0.5, 1.1;  advantages 2, -1, -3
    policy  min(3, 1.2*2 = 2.4) = 2.4;  min(-.5, .8*-1 = -.8) = -.8;  min(-3.3, -3.3) = -3.3     -> -mean = 1.7/3
    values  now 1, 2, 0; old 0, 2, 3; target .8, 5, 0
            |.2| -> .02, clipped .5-.8 = -.3 -> .045: .045;  -3 -> 2.5, same: 2.5;  0 -> 0, clipped 2.5 -> 2: 2
    entropy 1, 2, 3 -> 2
    kl      mean of ratio - 1 - log ratio
    """
    ratio = _cube(1.5, 0.5, 1.1)
    loss = ppo_loss(
        Evaluation(log_prob=ratio.log() - 1, entropy=_cube(1, 2, 3), value=_cube(1, 2, 0)),
        old_log_prob=_cube(-1, -1, -1),
        old_value=_cube(0, 2, 3),
        advantage=_cube(2, -1, -3),
        target=_cube(0.8, 5, 0),
        acts=torch.ones(1, 3, 1, dtype=torch.bool),
        options=PPOOptions(clip=0.2, value_clip=0.5, huber_delta=1.0, value_coef=0.5, entropy_coef=0.1),
    )
    assert loss.policy.item() == pytest.approx(1.7 / 3)
    assert loss.value.item() == pytest.approx((0.045 + 2.5 + 2.0) / 3)
    assert loss.entropy.item() == pytest.approx(2.0)
    assert loss.total.item() == pytest.approx(1.7 / 3 + 0.5 * 4.545 / 3 - 0.1 * 2.0)
    assert loss.approx_kl.item() == pytest.approx((0.5 - math.log(1.5) - 0.5 - math.log(0.5) + 0.1 - math.log(1.1)) / 3)
    assert loss.clip_fraction.item() == pytest.approx(2 / 3)
    assert loss.ratio_error.item() == pytest.approx(0.5)


def test_units_are_summed_or_averaged() -> None:
    """Gains 1, 2 and 3 in two decisions of two units, the last unit dead: mean 2; summed over units (3 + 3) / 2 = 3."""
    gain = torch.tensor([[[1.0, 2.0], [3.0, 99.0]]])
    zero = torch.zeros(1, 2, 2)
    acts = torch.tensor([[[True, True], [True, False]]])
    now = Evaluation(zero, gain, zero)
    mean = ppo_loss(now, zero, zero, gain, zero, acts, PPOOptions(unit_reduction="mean"))
    total = ppo_loss(now, zero, zero, gain, zero, acts, PPOOptions(unit_reduction="sum"))
    assert mean.policy.item() == pytest.approx(-2.0)
    assert total.policy.item() == pytest.approx(-3.0)
    for loss in (mean, total):
        assert loss.entropy.item() == pytest.approx(2.0)
        assert loss.unit_entropy.tolist() == [2.0, 2.0]


def test_options_turn_value_clipping_and_huber_off() -> None:
    acts = torch.ones(1, 1, 1, dtype=torch.bool)
    now = Evaluation(_cube(0), _cube(0), _cube(4))
    plain = PPOOptions(value_clip=None, huber_delta=None)
    loss = ppo_loss(now, _cube(0), _cube(9), _cube(0), _cube(1), acts, plain)
    assert loss.value.item() == pytest.approx(4.5)  # half of 3 squared; the old value plays no part


def _random(seed: int, columns: int = 6) -> tuple[dict[str, Tensor], Tensor]:
    rng = torch.Generator().manual_seed(seed)
    names = ("log_prob", "entropy", "value", "old_log_prob", "old_value", "advantage", "target")
    x = {name: torch.randn(3, columns, 2, generator=rng, dtype=torch.float64) for name in names}
    return x, torch.rand(3, columns, 2, generator=rng) < 0.6


def _loss_and_gradient(
    x: dict[str, Tensor], acts: Tensor, options: PPOOptions, count: Count | None = None
) -> list[Tensor]:
    leaves = {name: x[name].clone().requires_grad_() for name in ("log_prob", "entropy", "value")}
    rest = (x["old_log_prob"], x["old_value"], x["advantage"], x["target"])
    loss = ppo_loss(Evaluation(**leaves), *rest, acts, options, count)
    loss.total.backward()  # type: ignore[no-untyped-call]
    gradients = [leaf.grad for leaf in leaves.values() if leaf.grad is not None]
    assert len(gradients) == 3
    return [loss.total.detach(), loss.figures(), *gradients]


@examples(40)
@given(seeds, reductions)
def test_padding_and_dead_units_change_neither_loss_nor_gradient(seed: int, reduction: Reduction) -> None:
    options = PPOOptions(unit_reduction=reduction)
    x, acts = _random(seed)
    garbage = {
        name: torch.where(acts, tensor, torch.tensor(float("nan"), dtype=torch.float64)) for name, tensor in x.items()
    }
    clean, dirty = _loss_and_gradient(x, acts, options), _loss_and_gradient(garbage, acts, options)
    for a, b in zip(clean[:2], dirty[:2], strict=True):
        torch.testing.assert_close(a, b)
    for a, b in zip(clean[2:], dirty[2:], strict=True):
        assert (b[~acts] == 0.0).all()
        torch.testing.assert_close(a, b)
    longer = {
        name: torch.cat([tensor, torch.full((3, 4, 2), 1e6, dtype=torch.float64)], 1) for name, tensor in x.items()
    }
    padded = _loss_and_gradient(longer, torch.cat([acts, torch.zeros(3, 4, 2, dtype=torch.bool)], 1), options)
    torch.testing.assert_close(padded[0], clean[0])
    torch.testing.assert_close(padded[1], clean[1])
    for a, b in zip(clean[2:], padded[2:], strict=True):
        torch.testing.assert_close(a, b[:, :6])


@examples(40)
@given(seeds, st.integers(1, 5), reductions)
def test_parts_add_up_to_the_whole(seed: int, cut: int, reduction: Reduction) -> None:
    options = PPOOptions(unit_reduction=reduction)
    x, acts = _random(seed)
    whole, count = _loss_and_gradient(x, acts, options), Count.of(acts)
    parts = []
    for piece in (slice(0, cut), slice(cut, 6)):
        parts.append(_loss_and_gradient({n: t[:, piece] for n, t in x.items()}, acts[:, piece], options, count))
    torch.testing.assert_close(parts[0][0] + parts[1][0], whole[0])
    torch.testing.assert_close(parts[0][1] + parts[1][1], whole[1])
    for a, b, w in zip(parts[0][2:], parts[1][2:], whole[2:], strict=True):
        torch.testing.assert_close(torch.cat([a, b], 1), w)


def test_nobody_acting_gives_zero_not_nan() -> None:
    x, acts = _random(0)
    result = _loss_and_gradient(x, torch.zeros_like(acts), PPOOptions())
    assert result[0].item() == 0.0
    assert all(torch.isfinite(t).all() for t in result)


@examples(40)
@given(seeds, reductions, st.sampled_from([None, 0.3]), st.sampled_from([None, 0.5]))
def test_the_loss_and_its_gradient_are_those_of_the_formula(
    seed: int, reduction: Reduction, value_clip: float | None, huber: float | None
) -> None:
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randn(2, 6, 3, generator=generator, dtype=torch.float64) for _ in range(7)]
    log_prob, entropy, value = (x.requires_grad_() for x in draw[:3])
    old_log_prob, old_value, advantage, target = draw[3:]
    acts = torch.rand(2, 6, 3, generator=generator) < 0.7
    acts[0, 0] = True
    options = PPOOptions(value_clip=value_clip, huber_delta=huber, unit_reduction=reduction, entropy_coef=0.3)
    weight = acts / (acts.sum() if reduction == "mean" else acts.any(-1).sum())
    ratio = (log_prob - old_log_prob).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)

    def error_loss(error: Tensor) -> Tensor:
        if huber is None:
            return 0.5 * error**2
        return torch.nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none", delta=huber)

    miss = error_loss(value - target)
    if value_clip is not None:
        held = old_value + (value - old_value).clamp(-value_clip, value_clip)
        miss = torch.maximum(miss, error_loss(held - target))
    expected = ((-gain + miss - 0.3 * entropy) * weight).sum()
    loss = ppo_loss(Evaluation(log_prob, entropy, value), old_log_prob, old_value, advantage, target, acts, options)
    assert_equal_but_for_rounding(loss.total, expected, miss)
    derived = torch.autograd.grad(expected, [log_prob, entropy, value])
    loss.total.backward()  # type: ignore[no-untyped-call]
    for x, theirs in zip((log_prob, entropy, value), derived, strict=True):
        assert_equal_but_for_rounding(x.grad, theirs)
