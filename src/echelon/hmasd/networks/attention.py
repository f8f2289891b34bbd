"""Blocks of the skill coordinator: attention over a handful of tokens, (M, t, W)."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional

HIDDEN_GAIN, OUTPUT_GAIN = math.sqrt(2.0), 0.01


def orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    """The layer, with an orthogonal weight of this gain and no bias yet."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Residual(nn.Sequential):
    """x + f(x), with f the layers in order."""

    def forward(self, x: Tensor) -> Tensor:
        """The sum."""
        out: Tensor = x + super().forward(x)  # type: ignore[no-untyped-call]
        return out


def mlp(width: int) -> Residual:
    """A residual block of two layers of one width."""
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


class Attention(nn.Module):
    """query + softmax(Q K^T / sqrt(d)) V, by several heads; `causal`: token j sees tokens 0..j of the stream."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query = orthogonal(nn.Linear(width, width), OUTPUT_GAIN)
        self.key_value = orthogonal(nn.Linear(width, 2 * width), OUTPUT_GAIN)
        self.out = orthogonal(nn.Linear(width, width), OUTPUT_GAIN)

    def forward(self, query: Tensor, stream: Tensor) -> Tensor:
        """Each token of the query (M, t, W), after what it sees of the stream (M, t, W)."""
        key, value = self.key_value(stream).chunk(2, -1)
        q, k, v = (x.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for x in (self.query(query), key, value))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)  # (M, heads, t, W / heads)
        out: Tensor = query + self.out(seen.transpose(1, 2).flatten(2))
        return out


class EncoderBlock(nn.Module):
    """Unmasked self-attention and an MLP, each with a residual and a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(width, heads), mlp(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """All tokens, (M, n + 1, W)."""
        x = self.norms[0](self.attention(x, x))
        out: Tensor = self.norms[1](self.mlp(x))
        return out


class DecoderBlock(nn.Module):
    """Masked self-attention over the choices so far, then masked attention from the encoded tokens to that stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.own, self.cross, self.mlp = Attention(width, heads, True), Attention(width, heads, True), mlp(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: Tensor, encoded: Tensor) -> Tensor:
        """`x`: the first t choices, `encoded`: their encoded tokens, both (M, t, W)."""
        stream = self.norms[0](self.own(x, x))
        seen = self.norms[1](self.cross(encoded, stream))
        out: Tensor = self.norms[2](self.mlp(seen))
        return out
