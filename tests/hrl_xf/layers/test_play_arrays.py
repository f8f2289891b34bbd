"""Weights as arrays: torch's own sums, and each array asked for by name and shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from echelon.hrl_xf.layers.play_arrays import Weights, WeightsError, log_softmax, relu
from echelon.hrl_xf.networks.player_cache import weights_of
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric


def test_they_are_torchs_own_functions() -> None:
    generator = torch.Generator().manual_seed(0)
    x = 3 * torch.randn(7, 12, generator=generator)
    linear, norm = nn.Linear(12, 5), nn.LayerNorm(12)
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
        ours = weights_of(nn.Sequential(linear, norm))
        for found, wanted in (
            (ours.linear("0", 12, 5)(x.numpy()), linear(x)),
            (ours.linear("0", 12, 5)(x[0].numpy()), linear(x[0])),
            (ours.norm("1", 12)(x.numpy()), norm(x)),
            (log_softmax(x.numpy()), x.log_softmax(-1)),
            (relu(x.numpy().copy()), x.relu()),
        ):
            assert found.dtype == np.float32
            assert_equal_but_for_rounding(found, wanted, x)
        assert not ours.unused


def test_minus_infinity_stays_and_nan_is_not_hidden() -> None:
    x = np.array([[1.0, -np.inf, 2.0], [np.nan, 0.0, 1.0]], np.float32)
    found = log_softmax(x)
    assert found[0, 1] == -np.inf
    assert np.exp(found[0]).sum() == np.float32(1.0)
    assert np.isnan(found[1]).all()


def test_inputs_are_left_as_they_were() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    before = x.copy()
    weights = weights_of(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)))
    weights.linear("0", 4, 4)(x)
    weights.norm("1", 4)(x)
    log_softmax(x)
    assert np.array_equal(x, before)


def test_weights_are_asked_for_by_name_and_shape() -> None:
    weights = Weights({"a.b.weight": np.zeros((2, 3), np.float32), "a.b.bias": np.zeros(2, np.float32)})
    below = weights.below("a")
    with pytest.raises(WeightsError, match=r"a\.c\.weight is missing"):
        below.linear("c", 3, 2)
    with pytest.raises(WeightsError, match=r"a\.b\.weight has shape \(2, 3\), the layer needs \(2, 4\)"):
        below.linear("b", 4, 2)
    assert weights.unused == {"a.b.weight", "a.b.bias"}
    below.linear("b", 3, 2)
    assert weights.unused == set()
