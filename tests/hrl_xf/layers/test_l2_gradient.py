"""L2's gradients written by hand are those of autograd, and its loss that of the plain form."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from echelon.hrl_xf.layers.l2_gradient import MaskedGoalLoss, QTransform, fits
from echelon.hrl_xf.layers.l2_manager import HorizonManagerPPO, goal_loss

pytestmark = pytest.mark.numeric


def inputs(n: int, horizon: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Days; those far ahead are alike, as in the game, so that the largest of several is several at once."""
    generator = torch.Generator().manual_seed(seed)
    temporal = torch.randn(n, horizon + 1, 10, generator=generator, dtype=torch.float64)
    temporal[:, horizon // 2 :] = temporal[:, horizon // 2 : horizon // 2 + 1]
    static = torch.randn(n, 12, generator=generator, dtype=torch.float64)
    return static, temporal, (torch.randn(n, 2, generator=generator) > 0).double()


def wild(horizon: int, in_days: bool = False) -> HorizonManagerPPO:
    torch.manual_seed(4)
    layer = HorizonManagerPPO(horizon, in_days=in_days).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return layer


def gradients(layer: HorizonManagerPPO, loss: Tensor) -> dict[str, Tensor | None]:
    names, parameters = zip(*layer.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True))


@pytest.mark.parametrize(("horizon", "in_days", "n"), [(40, False, 7), (40, True, 3), (4, False, 5), (12, False, 1)])
def test_the_network_and_its_gradient_are_those_of_autograd(horizon: int, in_days: bool, n: int) -> None:
    layer, x = wild(horizon, in_days=in_days), inputs(n, horizon)
    assert fits(horizon + 1, 2)
    weight = torch.randn(n, 16, dtype=torch.float64)
    fast, plain = layer.means(*x), layer._means(*x)[0]
    torch.testing.assert_close(fast, plain)
    found, wanted = (gradients(layer, (means * weight).sum()) for means in (fast, plain))
    assert {name for name, g in found.items() if g is None} == {
        "log_std.weight",
        "log_std.bias",
        "value.weight",
        "value.bias",
    }
    for name, gradient in wanted.items():
        assert (gradient is None) == (found[name] is None)
        if gradient is not None:
            torch.testing.assert_close(found[name], gradient, msg=name)


@pytest.mark.parametrize("horizon", [5, 2, 9, 11])
def test_other_numbers_of_days_go_the_plain_way(horizon: int) -> None:
    layer, x = wild(horizon), inputs(3, horizon)
    assert not fits(horizon + 1, 2)
    assert torch.equal(layer.means(*x), layer._means(*x)[0])


@pytest.mark.parametrize("transform", ["none", "log1p", "sqrt"])
@pytest.mark.parametrize("masked", [0.0, 0.4, 1.0])
def test_the_loss_its_figures_and_its_gradient_are_those_of_the_plain_form(
    transform: QTransform, masked: float
) -> None:
    torch.manual_seed(1)
    layer, x = wild(40), inputs(6, 40)
    means = (layer.means(*x).detach() * 8).requires_grad_()
    assert (means.abs() > 20).any(), "some prices are at their bound"
    spot, target = torch.full((6, 2), 12.0, dtype=torch.float64), torch.rand(6, 16, dtype=torch.float64) * 30
    mask = (torch.rand(6, 8) >= masked).repeat_interleave(2, dim=1)
    minimised, figures = MaskedGoalLoss.apply(means, spot, target, mask, transform, 1.7)  # type: ignore[no-untyped-call]
    (found,) = torch.autograd.grad(3 * minimised, means)
    raw = means.view(-1, 4, 2, 2)
    price = torch.exp(0.1 * raw[..., 1].clamp(-20, 20)) * spot[:, None]
    goal = torch.stack([5 * torch.nn.functional.softplus(raw[..., 0]), price], -1).flatten(1)
    plain = goal_loss(goal, target, mask, transform, 1.7)
    (wanted,) = torch.autograd.grad(3 * plain.total, means)
    torch.testing.assert_close(found, wanted)
    error = ((goal - target).abs() * mask).view(-1, 2).sum(0)
    n = mask.sum() / 2
    torch.testing.assert_close(figures, torch.stack([plain.total, plain.quantity, plain.price, *error, n, n]).detach())
    assert not figures.requires_grad
