"""Attention token by token is the causal pass over all tokens."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from echelon.hmasd.attention import Attention, later_tokens


def test_token_by_token_is_the_causal_pass() -> None:
    torch.manual_seed(0)
    layer = Attention(16, 4)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
        query, stream = torch.randn(5, 3, 16), torch.randn(5, 3, 16)
        whole = layer(query, stream, later_tokens(5))
        cache = None
        for i in range(5):
            token, cache = layer.step(query[i : i + 1], stream[i : i + 1], cache)
            torch.testing.assert_close(token[0], whole[i], atol=1e-5, rtol=1e-4)
        everything = layer(query, stream, None)
    torch.testing.assert_close(everything[-1], whole[-1], atol=1e-5, rtol=1e-4)
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
    out = layer(query, None if own else other, later_tokens(3))

    def heads(x: torch.Tensor) -> torch.Tensor:  # (t, M, W) -> (M, heads, t, W / heads)
        return x.view(3, 2, 2, -1).permute(1, 2, 0, 3)

    key, value = layer.key_value(stream).chunk(2, -1)
    plain = nn.functional.scaled_dot_product_attention(
        heads(layer.query(query)), heads(key), heads(value), is_causal=True
    )
    expected = layer.out(plain.permute(2, 0, 1, 3).flatten(2))
    torch.testing.assert_close(out, expected)
    seed = torch.randn_like(out)
    sources = [query, *([] if own else [other]), *layer.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(out, sources, seed), torch.autograd.grad(expected, sources, seed), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
