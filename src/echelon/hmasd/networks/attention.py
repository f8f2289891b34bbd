"""Blocks of the skill coordinator: attention over a handful of tokens, in full and token by token.

Token by token (acting) `DecoderSteps` keeps the keys and values of earlier tokens, so a new token costs one row.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from echelon.onpolicy.written.chain import Back, Chain, Residual
from echelon.onpolicy.written.gradients import Gradients

HIDDEN_GAIN, OUTPUT_GAIN = math.sqrt(2.0), 0.01


def orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    """The layer, with an orthogonal weight of this gain and no bias yet."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def mlp(width: int) -> Residual:
    """Two layers of one width beside what they are given, as in every block."""
    return Residual(
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


BackTwo = Callable[[Gradients, Tensor], tuple[Tensor, Tensor]]
"""(into, gradient of the output) -> gradients of two inputs."""


class Attention(nn.Module):
    """query + softmax(Q K^T / sqrt(d)) V, by several heads, for many short sequences; tokens come first, (t, M, W).

    With a handful of tokens a matrix product for each sequence is nearly all overhead. Here the batch is the fastest
    axis, (heads, d, tokens, M), and a product is d (or t) multiplications of whole arrays.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = orthogonal(nn.Linear(width, width), OUTPUT_GAIN)
        self.key_value = orthogonal(nn.Linear(width, 2 * width), OUTPUT_GAIN)
        self.out = orthogonal(nn.Linear(width, width), OUTPUT_GAIN)

    def run(self, query: Tensor, stream: Tensor, forbidden: Tensor | None = None) -> tuple[Tensor, BackTwo]:
        """All tokens at once; `forbidden` (t, t, 1): the token of the stream is hidden from that of the query."""
        width = query.shape[2]
        w_q, w_kv, w_o = self.query.weight, self.key_value.weight, self.out.weight
        q = features(query, w_q, self.query.bias, self.heads)[0]
        k, v = features(stream, w_kv, self.key_value.bias, self.heads)
        score = weighted_sum(q.unsqueeze(3), k.unsqueeze(2), 1).mul_(q.shape[1] ** -0.5)  # (heads, t, t, M)
        if forbidden is not None:
            score.masked_fill_(forbidden, -math.inf)
        weight = torch.softmax(score, 2)
        seen = weighted_sum(weight.unsqueeze(1), v.unsqueeze(2), 3)  # (heads, d, t, M)
        asked, offered, read = query.reshape(-1, width), stream.reshape(-1, width), seen.view(width, -1).T
        out = torch.addmm(asked, read, w_o.T).add_(self.out.bias)

        def back(into: Gradients, gradient: Tensor) -> tuple[Tensor, Tensor]:
            g = gradient.reshape(-1, width)  # (N, W) with N = tokens x M
            d_out = torch.mm(w_o.T, g.T).view(q.shape)
            d_weight = weighted_sum(d_out.unsqueeze(3), v.unsqueeze(2), 1).mul_(weight)
            d_score = d_weight.addcmul_(weight, d_weight.sum(2, keepdim=True), value=-1)
            d_score = d_score.mul_(q.shape[1] ** -0.5).unsqueeze(1)
            d_q, d_kv = torch.empty_like(q), q.new_empty(2, *q.shape)
            weighted_sum(d_score, k.unsqueeze(2), 3, out=d_q)
            weighted_sum(d_score, q.unsqueeze(3), 2, out=d_kv[0])
            weighted_sum(weight.unsqueeze(1), d_out.unsqueeze(3), 2, out=d_kv[1])
            d_q, d_kv = d_q.view(width, -1), d_kv.view(2 * width, -1)
            for layer, d, x in ((self.query, d_q, asked), (self.key_value, d_kv, offered)):
                into.add(layer.weight, d @ x)
                into.add(layer.bias, d.sum(1))
            into.add(w_o, g.T @ read)
            into.add(self.out.bias, g.sum(0))
            return torch.addmm(g, d_q.T, w_q).view(query.shape), (d_kv.T @ w_kv).view(stream.shape)

        return out.view(query.shape), back

    def look(self, query: Tensor, asked: Tensor, kept: Tensor) -> Tensor:
        """One token's query (M, W), projected (heads, d, 1, M), to the keys and values (2, heads, d, t, M) so far."""
        key, value = kept
        weight = (asked * key).sum(1, keepdim=True).mul_(asked.shape[1] ** -0.5).softmax(2)  # (heads, 1, t, M)
        seen = (weight * value).sum(2)  # (heads, d, M)
        return torch.addmm(query, seen.view(-1, len(query)).T, self.out.weight.T).add_(self.out.bias)


def later_tokens(tokens: int) -> Tensor:
    """What a causal pass forbids, (t, t, 1): token j sees tokens 0..j."""
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1).unsqueeze(-1)


class EncoderBlock(nn.Module):
    """Unmasked self-attention and an MLP, each with a residual and a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(width, heads), mlp(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self._after = Chain(self.norms[0], self.mlp, self.norms[1])

    def run(self, x: Tensor) -> tuple[Tensor, Back]:  # (n + 1, M, W)
        """All tokens, with the gradient."""
        seen, back_attention = self.attention.run(x, x)
        out, back_after = self._after.run(seen)

        def back(into: Gradients, g: Tensor) -> Tensor:
            asked, offered = back_attention(into, back_after(into, g))
            return asked.add_(offered)

        return out, back


class DecoderBlock(nn.Module):
    """Masked self-attention over the choices so far, then masked attention from the encoded tokens to that stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.own, self.cross, self.mlp = Attention(width, heads), Attention(width, heads), mlp(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.between, self.after = Chain(self.norms[0]), Chain(self.norms[1], self.mlp, self.norms[2])

    def run(self, x: Tensor, encoded: Tensor, later: Tensor) -> tuple[Tensor, BackTwo]:  # (n + 1, M, W) both
        """All tokens, with the gradients of both."""
        seen, back_own = self.own.run(x, x, later)
        stream, back_between = self.between.run(seen)
        seen, back_cross = self.cross.run(encoded, stream, later)
        out, back_after = self.after.run(seen)

        def back(into: Gradients, g: Tensor) -> tuple[Tensor, Tensor]:
            d_encoded, d_stream = back_cross(into, back_after(into, g))
            asked, offered = back_own(into, back_between(into, d_stream))
            return asked.add_(offered), d_encoded

        return out, back


class DecoderSteps:
    """A decoder block token by token, without gradients, beside the encoded tokens (n + 1, M, W) in their order."""

    def __init__(self, block: DecoderBlock, encoded: Tensor) -> None:
        own, cross = block.own, block.cross
        self._block, self._encoded, self._next = block, encoded, 0
        self._own = torch.cat([own.query.weight, own.key_value.weight]), torch.cat([own.query.bias, own.key_value.bias])
        self._asked = features(encoded, cross.query.weight, cross.query.bias, cross.heads)[0]  # (heads, d, n + 1, M)
        self._kept = encoded.new_empty(2, 2, *self._asked.shape)  # keys and values, of own and cross

    def __call__(self, x: Tensor) -> Tensor:  # (M, W)
        """The output for one more choice."""
        block, i, (own, cross) = self._block, self._next, self._kept
        self._next += 1
        projected = features(x.unsqueeze(0), *self._own, block.own.heads)  # (3, heads, d, 1, M)
        own[:, :, :, i : i + 1] = projected[1:]
        stream = block.between(block.own.look(x, projected[0], own[:, :, :, : i + 1]))
        layer = block.cross.key_value
        cross[:, :, :, i : i + 1] = features(stream.unsqueeze(0), layer.weight, layer.bias, block.cross.heads)
        return block.after(block.cross.look(self._encoded[i], self._asked[:, :, i : i + 1], cross[:, :, :, : i + 1]))
