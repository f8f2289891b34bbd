"""Attention token by token is the causal pass over all tokens."""

from __future__ import annotations

import torch

from echelon.hmasd.attention import Attention


def test_token_by_token_is_the_causal_pass() -> None:
    torch.manual_seed(0)
    layer = Attention(16, 4)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
        query, stream = torch.randn(3, 5, 16), torch.randn(3, 5, 16)
        whole = layer(query, stream, causal=True)
        cache = None
        for i in range(5):
            token, cache = layer.step(query[:, i : i + 1], stream[:, i : i + 1], cache)
            torch.testing.assert_close(token[:, 0], whole[:, i], atol=1e-5, rtol=1e-4)
        everything = layer(query, stream, causal=False)
    torch.testing.assert_close(everything[:, -1], whole[:, -1], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(everything[:, 0], whole[:, 0], atol=1e-3)
