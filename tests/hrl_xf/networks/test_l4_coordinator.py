"""L4: a set has no order, padding is not part of it, and the teacher's example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.layers.rules import HeuristicCoordinator
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator, distill_loss
from tests.hrl_xf.layers.examples import teacher_alpha
from tests.laws import examples
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric


def a_set(rng: np.random.Generator, K: int, S: int = 2) -> dict[str, Any]:
    return {
        "thread_feat": rng.uniform(0.1, 2, (S, K, 24)).astype(np.float32),
        "global_feat": rng.normal(size=(S, 30)).astype(np.float32),
        "days": rng.integers(0, 11, (S, K)),
        "role": np.eye(2, dtype=np.float32)[rng.integers(0, 2, (S, K))],
        "mask": np.ones((S, K), np.bool_),
    }


def layer(seed: int = 0) -> GlobalCoordinator:
    torch.manual_seed(seed)
    made = GlobalCoordinator(layers=2)
    with torch.no_grad():
        for block in made.blocks:
            block.table.normal_()  # type: ignore[operator]
    return made.eval()


@examples(50)
@given(st.integers(1, 20), st.integers(0, 2**31))
def test_one_set_in_play_has_the_alpha_of_the_network(K: int, seed: int) -> None:
    """`alpha` of a single whole set is computed in numpy, `forward` in torch."""
    rng = np.random.default_rng(seed)
    x, made = a_set(rng, K, 1), layer(seed % 5)
    x["days"] = rng.integers(0, 60, (1, K))  # also beyond its horizon
    x["thread_feat"] *= 5
    with torch.inference_mode():
        wanted = made(*(torch.as_tensor(v) for v in x.values())).numpy()
    found = made.alpha(**x)
    assert found.shape == (1, K)
    assert found.dtype == np.float32
    assert_equal_but_for_rounding(found, wanted, 5 * np.abs(x["thread_feat"]).max())


def test_nan_weights_give_nan_alpha() -> None:
    made = layer()
    with torch.no_grad():
        made.thread.bias.fill_(torch.nan)
    assert np.isnan(made.alpha(**a_set(np.random.default_rng(0), 3, 1))).all()


@examples(20)
@given(st.integers(1, 8), st.integers(0, 2**31))
def test_permuted_threads_have_permuted_alpha(K: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, order = a_set(rng, K), rng.permutation(K)
    y = {name: v if name == "global_feat" else v[:, order] for name, v in x.items()}
    for coordinator in (layer(), HeuristicCoordinator()):
        assert_equal_but_for_rounding(coordinator.alpha(**y), coordinator.alpha(**x)[:, order])
        one, other = ({name: v[:1] for name, v in z.items()} for z in (x, y))  # as in play
        assert_equal_but_for_rounding(coordinator.alpha(**other), coordinator.alpha(**one)[:, order])


@examples(20)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**31))
def test_the_content_of_padding_has_no_effect(K: int, more: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, junk = a_set(rng, K), a_set(rng, more)
    junk["thread_feat"][:] = np.nan
    junk["days"] += 1000
    junk["mask"][:] = False
    y = {n: v if n == "global_feat" else np.concatenate([v, junk[n]], axis=1) for n, v in x.items()}
    for coordinator in (layer(), HeuristicCoordinator()):
        alpha, padded = coordinator.alpha(**x), coordinator.alpha(**y)
        np.testing.assert_allclose(alpha.sum(axis=1), 1, atol=1e-5)
        assert_equal_but_for_rounding(padded[:, :K], alpha)
        assert (padded[:, K:] == 0).all()


def test_an_empty_set_gives_zeros() -> None:
    x = a_set(np.random.default_rng(0), 3)
    x["mask"][0] = False
    for coordinator in (layer(), HeuristicCoordinator()):
        alpha = coordinator.alpha(**x)
        assert (alpha[0] == 0).all()
        assert np.isclose(alpha[1].sum(), 1)


def test_equal_days_with_different_features_have_different_alpha() -> None:
    x = a_set(np.random.default_rng(0), 4, S=1)
    x["days"][:] = 3
    x["role"][:] = [1, 0]
    alpha = layer().alpha(**x)[0]
    assert len(np.unique(alpha.round(6))) == 4
    x["thread_feat"][:] = x["thread_feat"][:, :1]
    assert_equal_but_for_rounding(layer().alpha(**x), 0.25)


def test_a_threads_own_features_reach_its_own_alpha_most() -> None:
    made, x = layer(), a_set(np.random.default_rng(1), 5, S=1)
    tensors = [torch.as_tensor(x[n]) for n in ("thread_feat", "global_feat", "days", "role", "mask")]
    tensors[0].requires_grad_()
    for i in range(5):
        (slope,) = torch.autograd.grad(made.logits(*tensors)[0, i], tensors[0])
        reach = slope[0].norm(dim=-1)
        assert reach.argmax() == i


def test_the_teachers_worked_example() -> None:
    days = np.array([[0, 1, 3, 10]])
    feat = np.ones((1, 4, 24), np.float32)
    mask, role = np.ones((1, 4), np.bool_), np.zeros((1, 4, 2), np.float32)
    alpha = HeuristicCoordinator().alpha(feat, np.zeros((1, 30), np.float32), days, role, mask)[0]
    np.testing.assert_allclose(alpha, [0.5275, 0.2453, 0.1413, 0.0860], atol=5e-5)
    np.testing.assert_allclose(alpha, teacher_alpha(days[0], np.ones(4)), rtol=1e-6)


def test_the_loss_is_least_at_the_teacher_and_its_entropy_there() -> None:
    alpha = torch.tensor([[0.5, 0.3, 0.2, 0.0]])
    mask = torch.tensor([[True, True, True, False]])
    at = distill_loss(torch.cat([alpha[:, :3].log(), torch.tensor([[7.0]])], -1), alpha, mask)
    entropy = -(alpha[0, :3] * alpha[0, :3].log()).sum()
    torch.testing.assert_close(at[0], entropy)
    assert distill_loss(torch.zeros(1, 4), alpha, mask)[0] > at[0]


def test_it_learns_the_teacher_with_ratios_beyond_e() -> None:
    """A softmax over sigmoids could not: its ratios end at e."""
    rng, teacher = np.random.default_rng(0), HeuristicCoordinator()
    torch.manual_seed(0)
    made = GlobalCoordinator(width=16, heads=2)
    optimiser = torch.optim.Adam(made.parameters(), 1e-2)
    for _ in range(250):
        x = a_set(rng, int(rng.integers(2, 8)), S=64)
        alpha = torch.as_tensor(teacher.alpha(**x))
        tensors = [torch.as_tensor(x[n]) for n in ("thread_feat", "global_feat", "days", "role", "mask")]
        loss = distill_loss(made.logits(*tensors), alpha, tensors[-1]).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    x = a_set(rng, 4, S=200)
    ours, theirs = made.alpha(**x), teacher.alpha(**x)
    assert np.abs(ours - theirs).mean() < 0.03  # uniform α is off by 0.13
    assert (theirs.max(axis=1) / theirs.min(axis=1) > np.e).mean() > 0.5
