"""Distributions: probabilities by hand and by numerical integration, masks, products, and safety at the edges."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from echelon.onpolicy.distributions import (
    Distribution,
    Gated,
    MaskedCategorical,
    Product,
    SquashedNormal,
    invert,
    soft_bounded,
)
from tests.laws import examples

pytestmark = pytest.mark.numeric

seeds = st.integers(0, 2**31 - 1)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_masked_probabilities_by_hand() -> None:
    """Logits 0, log 3, 5 with the last forbidden: probabilities 1/4, 3/4, 0."""
    choice = MaskedCategorical(torch.tensor([[0.0, math.log(3), 5.0]]), torch.tensor([[True, True, False]]))
    torch.testing.assert_close(choice.probs, torch.tensor([[0.25, 0.75, 0.0]]))
    assert choice.probs[0, 2] == 0.0
    assert choice.log_prob(torch.tensor([1])).item() == pytest.approx(math.log(0.75))
    assert choice.log_prob(torch.tensor([2])).item() == -math.inf
    assert choice.entropy().item() == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))
    assert choice.mode().item() == 1


def test_a_row_with_nothing_allowed_chooses_0_and_gives_no_gradient() -> None:
    logits = torch.tensor([[1.0, 9.0], [1.0, 2.0]], requires_grad=True)
    choice = MaskedCategorical(logits, torch.tensor([[False, False], [True, True]]))
    drawn = choice.sample(_generator())
    assert drawn[0] == 0
    assert choice.mode()[0] == 0
    assert choice.log_prob(drawn)[0] == 0.0
    assert choice.entropy()[0] == 0.0
    (choice.log_prob(drawn) + choice.entropy()).sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert logits.grad[0].tolist() == [0.0, 0.0]
    assert torch.isfinite(logits.grad).all()


@examples(60)
@given(seeds, st.integers(1, 9), st.floats(0.0, 1.0), st.sampled_from([0.1, 3.0, 100.0, 1e6]))
def test_forbidden_choices_are_never_drawn_and_nothing_is_nan(
    seed: int, width: int, share: float, scale: float
) -> None:
    rng = _generator(seed)
    logits = (torch.randn(64, width, generator=rng) * scale).requires_grad_()
    mask = torch.rand(64, width, generator=rng) < share
    choice = MaskedCategorical(logits, mask)
    drawn = choice.sample(rng)
    allowed = mask.gather(1, drawn[:, None]).squeeze(1)
    assert (allowed | (~mask.any(1) & (drawn == 0))).all()
    log_prob, entropy = choice.log_prob(drawn), choice.entropy()
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(entropy).all()
    assert (choice.probs[~mask & mask.any(1, keepdim=True)] == 0.0).all()
    torch.testing.assert_close(choice.probs.sum(1), torch.ones(64))
    (log_prob + entropy).sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[~mask] == 0.0).all()


def test_draws_follow_the_probabilities() -> None:
    probs = torch.tensor([0.1, 0.0, 0.6, 0.3])
    mask = torch.tensor([True, False, True, True])
    drawn = MaskedCategorical(probs.log().nan_to_num(neginf=7.0).expand(40_000, 4), mask.expand(40_000, 4)).sample(
        _generator()
    )
    shares = torch.bincount(drawn, minlength=4) / 40_000
    torch.testing.assert_close(shares, probs, atol=0.01, rtol=0.0)


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2.0**-24])
def test_the_smallest_and_the_largest_random_number_pick_an_allowed_choice(uniform: float) -> None:
    rng = _generator()
    probs = torch.rand(4096, 6, generator=rng)
    probs[:, 0], probs[:, -1] = 0.0, 0.0
    probs /= probs.sum(1, keepdim=True)
    picked = invert(probs, torch.full((4096,), uniform))
    assert (picked == (1 if uniform == 0.0 else 4)).all()


def test_a_mask_must_be_bool() -> None:
    with pytest.raises(ValueError, match="must be bool"):
        MaskedCategorical(torch.zeros(2), torch.ones(2))


def _cdf(u: Tensor, one: SquashedNormal) -> Tensor:
    return 0.5 * (1 + torch.erf((u - one.mean) / (one.std * math.sqrt(2))))


def test_squashed_density_integrates_to_one_and_matches_the_change_of_variables() -> None:
    """Integral of p is 1, and p(a) equals the slope of the cumulative distribution."""
    one = SquashedNormal(torch.tensor([0.4], dtype=torch.float64), torch.tensor([-0.7], dtype=torch.float64))
    u = torch.linspace(-8, 8, 200_001, dtype=torch.float64)[:, None]
    wide = SquashedNormal(one.mean.expand(len(u), 1), torch.tensor([-0.7], dtype=torch.float64))
    action, density = wide.action(u).squeeze(-1).numpy(), wide.log_prob(u).exp().numpy()
    assert np.trapezoid(density, action) == pytest.approx(1.0, abs=1e-6)
    at, step = torch.tensor([[0.9]], dtype=torch.float64), 1e-5
    below, above = torch.atanh(wide.action(at) - torch.tensor([step, -step])).squeeze(0)
    slope = (_cdf(above, one) - _cdf(below, one)) / (2 * step)
    assert one.log_prob(at).exp().item() == pytest.approx(slope.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("mean", "raw", "tolerance"), [(0.0, -3.0, 1e-4), (0.7, 0.0, 1e-3), (2.0, 0.5, 2e-3), (0.0, 9.0, 0.08)]
)
def test_squashed_entropy_equals_the_integral(mean: float, raw: float, tolerance: float) -> None:
    one = SquashedNormal(torch.tensor([mean], dtype=torch.float64), torch.tensor([raw], dtype=torch.float64))
    span = 12 * one.std.item()
    u = torch.linspace(mean - span, mean + span, 100_001, dtype=torch.float64)[:, None]
    density = (torch.exp(-0.5 * ((u - one.mean) / one.std) ** 2) / (one.std * math.sqrt(2 * math.pi))).squeeze(-1)
    wide = SquashedNormal(one.mean.expand(len(u), 1), torch.tensor([raw], dtype=torch.float64))
    entropy = np.trapezoid((-wide.log_prob(u) * density).numpy(), u.squeeze(-1).numpy())
    assert one.entropy().item() == pytest.approx(entropy, abs=tolerance)


def test_entropy_bonus_does_not_drive_the_noise_to_its_bound() -> None:
    """Climbing the entropy of the action alone settles near the uniform distribution on [-1, 1], of entropy log 2."""
    raw = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([raw], lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        (-SquashedNormal(torch.zeros(1), raw).entropy()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    best = SquashedNormal(torch.zeros(1), raw)
    assert 0.7 < best.std.item() < 1.1
    assert math.log(2) - 0.03 < best.entropy().item() <= math.log(2)


def test_extreme_samples_stay_in_bounds_and_finite() -> None:
    mean = torch.tensor([[50.0, -50.0, 0.0]], requires_grad=True)
    raw = torch.tensor([1e9, -1e9, 0.0], requires_grad=True)
    one = SquashedNormal(mean, raw)
    assert (one.log_std > -5.0001).all()
    assert (one.log_std < 1.0001).all()
    stored = one.sample(_generator())
    assert (one.action(stored).abs() <= 1.0).all()
    (one.log_prob(stored) + one.entropy()).sum().backward()  # type: ignore[no-untyped-call]
    assert mean.grad is not None
    assert torch.isfinite(mean.grad).all()
    assert torch.isfinite(one.log_prob(one.mode())).all()


def test_soft_bounds_are_an_identity_in_the_middle_and_keep_a_gradient() -> None:
    x = torch.tensor([-2.0, 5.0], requires_grad=True)
    y = soft_bounded(x, -5.0, 1.0)
    assert y[0].item() == pytest.approx(-2.0)
    y.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad[0].item() == pytest.approx(1.0)
    assert x.grad[1].item() > 0.0


def _table(first: Tensor, second: Tensor) -> Product:
    """p(a) and p(b | a) as tables."""

    def head(earlier: Mapping[str, Tensor]) -> Distribution:
        return MaskedCategorical(second[earlier["a"]].log())

    return Product({"a": MaskedCategorical(first.log()), "b": head})


def test_a_chain_of_parts_by_hand() -> None:
    """p(a) = .2, .8; p(b|0) = .5, .5; p(b|1) = .1, .9."""
    joint = _table(torch.tensor([[0.2, 0.8]]), torch.tensor([[0.5, 0.5], [0.1, 0.9]]))
    stored = {"a": torch.tensor([1]), "b": torch.tensor([0])}
    assert joint.log_prob(stored).item() == pytest.approx(math.log(0.8 * 0.1))
    parts = joint.log_prob_parts(stored)
    assert parts["b"].item() == pytest.approx(math.log(0.1))
    assert joint.entropy_parts(stored)["b"].item() == pytest.approx(-(0.1 * math.log(0.1) + 0.9 * math.log(0.9)))
    assert {name: x.item() for name, x in joint.mode().items()} == {"a": 1, "b": 1}
    with pytest.raises(ValueError, match="'b' depends on the earlier parts"):
        joint.entropy()


def test_a_chain_is_drawn_with_its_joint_probabilities() -> None:
    number = 40_000
    first, second = torch.tensor([0.2, 0.8]), torch.tensor([[0.5, 0.5], [0.1, 0.9]])
    drawn = _table(first.expand(number, 2), second).sample(_generator())
    shares = torch.bincount(2 * drawn["a"] + drawn["b"], minlength=4) / number
    torch.testing.assert_close(shares, torch.tensor([0.1, 0.1, 0.08, 0.72]), atol=0.01, rtol=0.0)


def test_a_product_of_independent_parts_adds_up() -> None:
    choice, level = MaskedCategorical(torch.randn(5, 3)), SquashedNormal(torch.randn(5, 2), torch.zeros(2))
    joint = Product({"op": choice, "price": level})
    drawn = joint.sample(_generator())
    torch.testing.assert_close(joint.log_prob(drawn), choice.log_prob(drawn["op"]) + level.log_prob(drawn["price"]))
    torch.testing.assert_close(joint.entropy(), choice.entropy() + level.entropy())
    with pytest.raises(ValueError, match="at least one part"):
        Product({})


def test_a_gated_part_counts_only_where_it_is_active() -> None:
    active = torch.tensor([True, False])
    mean = torch.full((2, 2), 0.3, requires_grad=True)
    inner = SquashedNormal(mean, torch.zeros(2))
    part = Gated(inner, active)
    drawn = part.sample(_generator())
    assert drawn[1].tolist() == [0.0, 0.0]
    assert drawn[0].abs().sum() > 0
    assert part.mode()[1].tolist() == [0.0, 0.0]
    assert part.log_prob(drawn).tolist() == [inner.log_prob(drawn)[0].item(), 0.0]
    assert part.entropy()[1] == 0.0
    (part.log_prob(drawn) + part.entropy()).sum().backward()  # type: ignore[no-untyped-call]
    assert mean.grad is not None
    assert mean.grad[1].tolist() == [0.0, 0.0]
    assert (mean.grad[0] != 0.0).any()


def test_the_same_generator_gives_the_same_draws() -> None:
    joint = Product(
        {"op": MaskedCategorical(torch.zeros(9, 4)), "x": SquashedNormal(torch.zeros(9, 1), torch.zeros(1))}
    )
    first, second = joint.sample(_generator(5)), joint.sample(_generator(5))
    assert all(torch.equal(first[name], second[name]) for name in first)
