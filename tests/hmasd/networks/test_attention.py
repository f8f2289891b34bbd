"""Attention token by token is the causal pass over all tokens."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from echelon.hmasd.networks.attention import Attention, DecoderBlock, DecoderSteps, later_tokens
from echelon.onpolicy.written.gradients import Gradients
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric


def test_token_by_token_is_the_causal_pass() -> None:
    torch.manual_seed(0)
    block = DecoderBlock(16, 4)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_()
        x, encoded = torch.randn(5, 3, 16), torch.randn(5, 3, 16)
        whole, _ = block.run(x, encoded, later_tokens(5))
        step = DecoderSteps(block, encoded)
        for i in range(5):
            assert_equal_but_for_rounding(step(x[i]), whole[i])
        everything, _ = block.run(x, encoded, torch.zeros_like(later_tokens(5)))
    assert not torch.allclose(everything[0], whole[0], atol=1e-3)


@pytest.mark.parametrize("width", [8, 40])
@pytest.mark.parametrize("own", [True, False])
def test_the_written_gradient_is_the_derived_one(width: int, own: bool) -> None:
    torch.manual_seed(0)
    layer = Attention(width, 2).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    query, other = (torch.randn(3, 2, width, dtype=torch.float64, requires_grad=True) for _ in range(2))
    stream = query if own else other
    with torch.no_grad():
        out, back = layer.run(query, stream, later_tokens(3))

    def heads(x: torch.Tensor) -> torch.Tensor:  # (t, M, W) -> (M, heads, t, W / heads)
        return x.view(3, 2, 2, -1).permute(1, 2, 0, 3)

    key, value = layer.key_value(stream).chunk(2, -1)
    plain = nn.functional.scaled_dot_product_attention(
        heads(layer.query(query)), heads(key), heads(value), is_causal=True
    )
    expected = query + layer.out(plain.permute(2, 0, 1, 3).flatten(2))
    torch.testing.assert_close(out, expected)
    seed, into = torch.randn_like(out), Gradients()
    with torch.no_grad():
        by_query, by_stream = back(into, seed)
    inputs = [by_query + by_stream] if own else [by_query, by_stream]
    sources = [query, *([] if own else [other]), *layer.parameters()]
    for ours, theirs in zip(
        [*inputs, *into.of(list(layer.parameters()))], torch.autograd.grad(expected, sources, seed), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
