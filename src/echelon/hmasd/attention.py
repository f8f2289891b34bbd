"""Blocks of the skill coordinator: attention over a handful of tokens, in full and token by token.

Token by token (acting) each block keeps the keys and values of earlier tokens, so a new token costs one row.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

HIDDEN_GAIN, OUTPUT_GAIN = math.sqrt(2.0), 0.01


def orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    """The layer, with an orthogonal weight of this gain and no bias yet."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def mlp(width: int) -> nn.Sequential:
    """Two layers of one width, as in every block."""
    return nn.Sequential(
        orthogonal(nn.Linear(width, width), HIDDEN_GAIN), nn.GELU(), orthogonal(nn.Linear(width, width), OUTPUT_GAIN)
    )


def head(width: int, outputs: int) -> nn.Sequential:
    """From a token to numbers; the last layer starts small."""
    return nn.Sequential(
        orthogonal(nn.Linear(width, width), HIDDEN_GAIN),
        nn.GELU(),
        nn.LayerNorm(width),
        orthogonal(nn.Linear(width, outputs), OUTPUT_GAIN),
    )


def weighted_sum(a: Tensor, b: Tensor, axis: int, out: Tensor | None = None) -> Tensor:
    """Sum of a b over an axis, by whichever way is faster for its length."""
    if a.shape[axis] > 16:
        return torch.sum(a * b, axis, out=out)
    total = torch.mul(a.select(axis, 0), b.select(axis, 0), out=out)
    for x, y in zip(a.unbind(axis)[1:], b.unbind(axis)[1:], strict=True):
        total.addcmul_(x, y)
    return total


def features(x: Tensor, weight: Tensor, bias: Tensor, heads: int) -> Tensor:
    """A linear layer with features first, (t, M, W) -> (j, heads, W / heads, t, M): the product itself transposes."""
    tokens, batch, width = x.shape
    flat = torch.mm(weight, x.reshape(-1, width).T).add_(bias.unsqueeze(1))
    return flat.view(-1, heads, width // heads, tokens, batch)


class _Attend(torch.autograd.Function):
    """softmax(Q K^T / sqrt(d)) V for very many very short sequences, with its projections and its gradient.

    With a handful of tokens a matrix product for each sequence is nearly all overhead. Here the batch is the fastest
    axis, (heads, d, tokens, M), and a product is d (or t) multiplications of whole arrays. `stream` None: the queries'
    own tokens.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, stream: Tensor | None, forbidden: Tensor | None, heads: int, *layers: Tensor
    ) -> Tensor:
        w_q, b_q, w_kv, b_kv, w_o, b_o = layers
        tokens, batch, width = query.shape
        q = features(query, w_q, b_q, heads)[0]
        k, v = features(query if stream is None else stream, w_kv, b_kv, heads)
        score = weighted_sum(q.unsqueeze(3), k.unsqueeze(2), 1).mul_(q.shape[1] ** -0.5)  # (heads, t, t, M)
        if forbidden is not None:
            score.masked_fill_(forbidden, -math.inf)
        weight = torch.softmax(score, 2)
        seen = weighted_sum(weight.unsqueeze(1), v.unsqueeze(2), 3)  # (heads, d, t, M)
        ctx.save_for_backward(query, stream, q, k, v, weight, seen, w_q, w_kv, w_o)
        return torch.addmm(b_o, seen.view(width, -1).T, w_o.T).view(tokens, batch, width)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, stream, q, k, v, weight, seen, w_q, w_kv, w_o = ctx.saved_tensors
        (heads, d, tokens, batch), width = q.shape, w_o.shape[0]
        g = gradients[0].reshape(-1, width)  # (N, W) with N = tokens x M
        d_out = torch.mm(w_o.T, g.T).view(q.shape)
        d_weight = weighted_sum(d_out.unsqueeze(3), v.unsqueeze(2), 1).mul_(weight)
        d_score = d_weight.addcmul_(weight, d_weight.sum(2, keepdim=True), value=-1).mul_(d**-0.5).unsqueeze(1)
        d_q, d_kv = torch.empty_like(q), q.new_empty(2, heads, d, tokens, batch)
        weighted_sum(d_score, k.unsqueeze(2), 3, out=d_q)
        weighted_sum(d_score, q.unsqueeze(3), 2, out=d_kv[0])
        weighted_sum(weight.unsqueeze(1), d_out.unsqueeze(3), 2, out=d_kv[1])
        d_q, d_kv = d_q.view(width, -1), d_kv.view(2 * width, -1)
        asked = query.reshape(-1, width)
        offered = asked if stream is None else stream.reshape(-1, width)
        d_query, d_stream = d_q.T @ w_q, None
        if stream is None:
            d_query.addmm_(d_kv.T, w_kv)
        else:
            d_stream = (d_kv.T @ w_kv).view(stream.shape)
        layers = (d_q @ asked, d_q.sum(1), d_kv @ offered, d_kv.sum(1), g.T @ seen.view(width, -1).T, g.sum(0))
        return d_query.view(query.shape), d_stream, None, None, *layers


Cache = tuple[Tensor, Tensor]
"""Keys and values of the tokens so far, each (heads, width / heads, t, M)."""


class Attention(nn.Module):
    """Multi-head attention of queries to a stream; tokens come first, (t, M, W)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = orthogonal(nn.Linear(width, width), OUTPUT_GAIN)
        self.key_value = orthogonal(nn.Linear(width, 2 * width), OUTPUT_GAIN)
        self.out = orthogonal(nn.Linear(width, width), OUTPUT_GAIN)

    def forward(self, query: Tensor, stream: Tensor | None = None, forbidden: Tensor | None = None) -> Tensor:
        """All tokens at once; `forbidden` (t, t, 1): the token of the stream is hidden from that of the query."""
        seen: Tensor = _Attend.apply(query, stream, forbidden, self.heads, *self.parameters())  # type: ignore[no-untyped-call]
        return seen

    def step(self, query: Tensor, stream: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """One more token, (1, M, W), which attends to itself and to those in the cache; without gradients."""
        key, value = features(stream, self.key_value.weight, self.key_value.bias, self.heads)
        if cache is not None:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        asked = features(query, self.query.weight, self.query.bias, self.heads)[0]  # (heads, d, 1, M)
        weight = ((asked * key).sum(1, keepdim=True) * asked.shape[1] ** -0.5).softmax(2)  # (heads, 1, t, M)
        seen = (weight * value).sum(2)  # (heads, d, M)
        return self.out(seen.view(-1, seen.shape[-1]).T).unsqueeze(0), (key, value)


def later_tokens(tokens: int) -> Tensor:
    """What a causal pass forbids, (t, t, 1): token j sees tokens 0..j."""
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1).unsqueeze(-1)


class EncoderBlock(nn.Module):
    """Unmasked self-attention and an MLP, each with a residual and a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(width, heads), mlp(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:  # (n + 1, M, W)
        x = self.norms[0](x + self.attention(x))
        out: Tensor = self.norms[1](x + self.mlp(x))
        return out


class DecoderBlock(nn.Module):
    """Masked self-attention over the choices so far, then masked attention from the encoded tokens to that stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.own, self.cross, self.mlp = Attention(width, heads), Attention(width, heads), mlp(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: Tensor, encoded: Tensor, later: Tensor) -> Tensor:  # (n + 1, M, W) both
        x = self.norms[0](x + self.own(x, forbidden=later))
        x = self.norms[1](encoded + self.cross(encoded, x, later))
        out: Tensor = self.norms[2](x + self.mlp(x))
        return out

    def step(self, x: Tensor, encoded: Tensor, cache: list[Cache | None]) -> Tensor:  # (1, M, W) both
        """One more token; `cache` holds what the two attentions keep and is brought up to date."""
        seen, cache[0] = self.own.step(x, x, cache[0])
        x = self.norms[0](x + seen)
        seen, cache[1] = self.cross.step(encoded, x, cache[1])
        x = self.norms[1](encoded + seen)
        out: Tensor = self.norms[2](x + self.mlp(x))
        return out
