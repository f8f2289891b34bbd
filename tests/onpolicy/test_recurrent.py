"""A GRU over chunks equals the GRU step by step, wherever episodes start."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from echelon.onpolicy.recurrent import run_gru
from tests.laws import examples

pytestmark = pytest.mark.numeric


@examples(30)
@given(st.integers(0, 10_000), st.floats(0.0, 1.0))
def test_one_pass_equals_step_by_step(seed: int, share: float) -> None:
    rng = torch.Generator().manual_seed(seed)
    gru = nn.GRU(3, 4).double()
    inputs = torch.randn(6, 5, 3, generator=rng, dtype=torch.float64)
    state = torch.randn(5, 4, generator=rng, dtype=torch.float64)
    reset = torch.rand(6, 5, generator=rng) < share
    outputs, last = run_gru(gru, inputs, state, reset)
    h = state
    for t in range(6):
        h = torch.where(reset[t][:, None], torch.zeros_like(h), h)
        h = gru(inputs[t : t + 1], h[None])[1][0]
        torch.testing.assert_close(outputs[t], h)
    torch.testing.assert_close(last, h)


def test_nothing_before_a_reset_reaches_what_comes_after() -> None:
    gru = nn.GRU(3, 4)
    inputs, state = torch.randn(4, 1, 3, requires_grad=True), torch.randn(1, 4)
    reset = torch.tensor([[False], [False], [True], [False]])
    run_gru(gru, inputs, state, reset)[0][2:].sum().backward()  # type: ignore[no-untyped-call]
    assert inputs.grad is not None
    assert (inputs.grad[:2] == 0.0).all()
    assert (inputs.grad[2:] != 0.0).all()


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="must agree"):
        run_gru(nn.GRU(3, 4), torch.zeros(2, 5, 3), torch.zeros(4, 4), torch.zeros(2, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match="one layer"):
        run_gru(nn.GRU(3, 4, 2), torch.zeros(2, 5, 3), torch.zeros(5, 4), torch.zeros(2, 5, dtype=torch.bool))
