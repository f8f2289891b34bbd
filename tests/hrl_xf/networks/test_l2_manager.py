"""L2: quantities, prices, masks, loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from echelon.hrl_xf.layers.rules import HeuristicManager
from echelon.hrl_xf.networks.files import save_layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO, _in_days, _windows, goal_loss, load_l2
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.features import StateBuilder
from tests.hrl_xf.state.examples import a_day, commitments
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric


def wild(layer: HorizonManagerPPO, seed: int) -> HorizonManagerPPO:
    """Weights as no training would make them."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 2)
    return layer


def test_quantities_are_never_negative_and_every_number_has_a_gradient() -> None:
    layer = wild(HorizonManagerPPO(horizon=40), 1)
    generator = torch.Generator().manual_seed(0)
    x = [torch.randn(64, 12, generator=generator), torch.randn(64, 41, 10, generator=generator), torch.ones(64, 2)]
    out = layer(*x, spot=torch.full((64, 2), 20.0))
    goal = out.goal.view(-1, 4, 2, 2)
    assert (goal[..., 0] >= 0).all()
    assert (goal[..., 1] > 0).all()
    fresh = HorizonManagerPPO(horizon=40)
    fresh(*x, spot=torch.full((64, 2), 20.0)).goal.sum().backward()
    assert (fresh.mean.weight.grad.abs().sum(-1) > 0).all()  # type: ignore[union-attr]


@pytest.mark.parametrize(("length", "stride"), [(41, 2), (41, 1), (12, 3), (2, 2), (1, 2)])
def test_windows_and_a_linear_are_a_convolution(length: int, stride: int) -> None:
    torch.manual_seed(0)
    x, linear = torch.randn(5, length, 10), torch.nn.Linear(30, 7)
    weight = linear.weight.view(7, 3, 10).transpose(1, 2)  # (out, in, kernel)
    wanted = torch.nn.functional.conv1d(x.transpose(1, 2), weight, linear.bias, stride=stride, padding=1)
    assert_equal_but_for_rounding(linear(_windows(x, stride)), wanted.transpose(1, 2))


def test_prices_are_ratios_inside_and_currency_outside() -> None:
    torch.manual_seed(0)
    layer = HorizonManagerPPO(horizon=40)
    x = [torch.randn(3, 12), torch.randn(3, 41, 10), torch.ones(3, 2)]
    once = layer(*x, spot=torch.tensor([[10.0, 30.0]] * 3)).goal.view(-1, 4, 2, 2)
    twice = layer(*x, spot=torch.tensor([[20.0, 30.0]] * 3)).goal.view(-1, 4, 2, 2)
    torch.testing.assert_close(twice[:, :, 0, 1], 2 * once[:, :, 0, 1])
    torch.testing.assert_close(twice[:, :, 1, 1], once[:, :, 1, 1])
    torch.testing.assert_close(twice[..., 0], once[..., 0])


def test_an_untrained_layer_prices_near_spot() -> None:
    torch.manual_seed(1)
    days = day_batch([a_day()])
    goal = HorizonManagerPPO().goals_of_days(days).reshape(4, 2, 2)
    assert np.abs(goal[:3, 0, 1] / 20.0 - 1).max() < 0.1
    assert np.abs(goal[:3, 1, 1] / 30.0 - 1).max() < 0.1


def test_unreachable_buckets_and_the_side_that_is_not_negotiated_are_zero() -> None:
    days = day_batch([
        a_day(),
        a_day(current_step=48),
        a_day(my_input_product=0, my_output_product=1),
        a_day(my_input_product=2, my_output_product=3),
    ])  # fmt: skip
    for maker in (wild(HorizonManagerPPO(), 3), HeuristicManager()):
        goal = maker.goals_of_days(days).reshape(4, 4, 2, 2)
        assert (goal[0, 3] == 0).all()  # 15..40 days ahead, the game's horizon is 10
        assert (goal[1, 1:] == 0).all()  # one day to go
        assert (goal[2, :, 0] == 0).all()
        assert (goal[3, :, 1] == 0).all()
        assert (goal[0, :3, :, 1] > 0).all()


def test_the_heuristic_keeps_a_days_material_in_stock() -> None:
    filled, short, late = (
        a_day(n_lines=10, inventory_input=stock, current_step=step, n_steps=50, commitments=commitments([0], [4]))
        for stock, step in ((9, 10), (2, 10), (2, 46))
    )
    goal = HeuristicManager().goals_of_days(day_batch([filled, short, late])).reshape(3, 4, 2, 2)
    # 9 of 10 in stock is enough; 10 − 2 for the stock and 4 that today's sales take; late in the game only what
    # today's sales lack
    np.testing.assert_allclose(goal[:, 0, 0, 0], [0, 12, 2])
    assert (goal[:, 1:, 0, 0] == 0).all()
    # what L1 allows to be sold: the stock every day, less the 4 of today; days 2 and 3 are shared by two buckets
    np.testing.assert_allclose(goal[:, 0, 1, 0], [5 + 9 + 9, 2 + 2, 2 + 2])
    np.testing.assert_allclose(goal[:, 1, 1, 0], [9 * 5, 2 * 5, 2 * 1])
    np.testing.assert_allclose(goal[:2, 0, 0, 1], 19.0)
    np.testing.assert_allclose(goal[:2, 0, 1, 1], 31.5)


def test_a_goal_does_not_depend_on_the_other_days_of_the_batch() -> None:
    days = [a_day(current_step=t, needed_supplies=t) for t in range(12)]
    layer = HorizonManagerPPO()
    together = layer.goals_of_days(day_batch(days))
    alone = np.concatenate([layer.goals_of_days(day_batch([day])) for day in days])
    assert_equal_but_for_rounding(together, alone)


@pytest.mark.parametrize("options", [{}, {"in_days": True}, {"stride": 1, "channels": (4, 7)}, {"horizon": 2}])
def test_one_dawn_in_play_has_the_goal_of_the_network(options: dict[str, Any]) -> None:
    """`predict_goals` of a single day is computed in numpy, `forward` in torch."""
    layer = HorizonManagerPPO(**options)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
        for _ in range(20):
            x = [torch.randn(1, 12, generator=generator), torch.randn(1, layer.horizon + 1, 10, generator=generator)]
            x[1][0, 0, 2] = 0.02  # a day's work, of the game's
            x += [torch.ones(1, 2), 40 * torch.rand(1, 2, generator=generator)]
            found = layer.predict_goals(*(a.numpy() for a in x[:3]), spot=x[3].numpy())
            assert found.dtype == np.float32
            assert_equal_but_for_rounding(found, layer(*x).goal)


def test_features_that_are_known_already_give_the_same_goal() -> None:
    days, layer = day_batch([a_day(needed_supplies=7)]), HorizonManagerPPO()
    features = StateBuilder().build(days)
    np.testing.assert_array_equal(layer.goals_of_features(days, features), layer.goals_of_days(days))
    with pytest.raises(ValueError, match="use one horizon"):
        HorizonManagerPPO(horizon=20).goals_of_features(days, features)


def test_the_loss_by_hand() -> None:
    goal, target = torch.zeros(1, 16), torch.zeros(1, 16)
    mask = torch.zeros(1, 16)
    goal[0, 0], target[0, 0] = 3.0, 1.0  # Q_buy of the first bucket
    goal[0, 1], target[0, 1] = 20.0, 19.0  # P_buy
    goal[0, 2] = 100.0  # Q_sell: masked
    mask[0, :2] = 1
    loss = goal_loss(goal, target, mask, "none", 2.0)
    assert loss.quantity.item() == pytest.approx(4.0)
    assert loss.price.item() == pytest.approx(1.0)
    assert loss.total.item() == pytest.approx((2 * 4 + 1) / 2)
    logarithm = goal_loss(goal, target, mask, "log1p")
    assert logarithm.quantity.item() == pytest.approx(np.log(4 / 2) ** 2, rel=1e-5)
    root = goal_loss(goal, target, mask, "sqrt")
    assert root.quantity.item() == pytest.approx((np.sqrt(3) - 1) ** 2, rel=1e-4)


def test_nothing_to_learn_from_gives_no_nan() -> None:
    goal = torch.zeros(2, 16, requires_grad=True)
    loss = goal_loss(goal, torch.zeros(2, 16), torch.zeros(2, 16), "sqrt")
    loss.total.backward()  # type: ignore[no-untyped-call]
    assert loss.total.item() == 0
    assert torch.isfinite(goal.grad).all()  # type: ignore[arg-type]


def test_pieces_in_days_of_work_are_the_same_in_short_and_long_games() -> None:
    seen = []
    for n_steps in (50, 200):
        day = a_day(n_steps=n_steps, inventory_input=7, commitments=commitments([3, 12], [4]))
        x = StateBuilder().build(day_batch([day]))
        static, near = _in_days(torch.as_tensor(x.x_static), torch.as_tensor(x.X_temporal[:, :4]))
        seen.append((static[0, [1, 8, 9]], near[0, :2, [0, 1, 3]]))
        torch.testing.assert_close(static[0, [0, 3, 5]], torch.as_tensor(x.x_static[0, [0, 3, 5]]))
    stock, bought, sold = seen[0][0].tolist()
    assert (stock, bought, sold) == pytest.approx((0.7, 1.5, 0.4))
    for short, long in zip(*seen, strict=True):
        torch.testing.assert_close(short, long)


def test_the_inputs_a_layer_was_made_for_are_in_its_file(tmp_path: Path) -> None:
    layer = HorizonManagerPPO(in_days=True)
    again = load_l2(save_layer(layer, tmp_path / "l2"))
    day = day_batch([a_day(inventory_input=7)])
    np.testing.assert_array_equal(again.goals_of_days(day), layer.eval().goals_of_days(day))
    assert again.in_days
    assert not HorizonManagerPPO().in_days
