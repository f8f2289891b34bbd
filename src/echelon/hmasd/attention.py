"""Blocks of the skill coordinator: attention over a handful of tokens, in full and token by token.

Token by token (acting) each block keeps the keys and values of earlier tokens, so a new token costs one row.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

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


Cache = tuple[Tensor, Tensor]
"""Keys and values of the tokens so far, each (B, heads, t, width / heads)."""


class Attention(nn.Module):
    """Multi-head attention of queries to a stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = orthogonal(nn.Linear(width, width), OUTPUT_GAIN)
        self.key_value = orthogonal(nn.Linear(width, 2 * width), OUTPUT_GAIN)
        self.out = orthogonal(nn.Linear(width, width), OUTPUT_GAIN)

    def forward(self, query: Tensor, stream: Tensor, causal: bool) -> Tensor:  # (B, t, W), (B, t, W) -> (B, t, W)
        """All tokens at once; causal: token j attends to tokens 0..j of the stream."""
        key, value = self._keys(stream)
        return self._join(
            functional.scaled_dot_product_attention(self._split(self.query(query)), key, value, is_causal=causal)
        )

    def step(self, query: Tensor, stream: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """One more token, (B, 1, W), which attends to itself and to those in the cache."""
        key, value = self._keys(stream)
        if cache is not None:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        seen = functional.scaled_dot_product_attention(self._split(self.query(query)), key, value)
        return self._join(seen), (key, value)

    def _keys(self, stream: Tensor) -> Cache:
        key, value = self.key_value(stream).chunk(2, -1)
        return self._split(key), self._split(value)

    def _split(self, x: Tensor) -> Tensor:  # (B, t, W) -> (B, heads, t, W / heads)
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def _join(self, x: Tensor) -> Tensor:
        joined: Tensor = self.out(x.transpose(1, 2).flatten(2))
        return joined


class EncoderBlock(nn.Module):
    """Unmasked self-attention and an MLP, each with a residual and a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(width, heads), mlp(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:  # (B, n + 1, W)
        x = self.norms[0](x + self.attention(x, x, causal=False))
        out: Tensor = self.norms[1](x + self.mlp(x))
        return out


class DecoderBlock(nn.Module):
    """Masked self-attention over the choices so far, then masked attention from the encoded tokens to that stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.own, self.cross, self.mlp = Attention(width, heads), Attention(width, heads), mlp(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: Tensor, encoded: Tensor) -> Tensor:  # (B, n + 1, W) both
        x = self.norms[0](x + self.own(x, x, causal=True))
        x = self.norms[1](encoded + self.cross(encoded, x, causal=True))
        out: Tensor = self.norms[2](x + self.mlp(x))
        return out

    def step(self, x: Tensor, encoded: Tensor, cache: list[Cache | None]) -> Tensor:  # (B, 1, W) both
        """One more token; `cache` holds what the two attentions keep and is brought up to date."""
        seen, cache[0] = self.own.step(x, x, cache[0])
        x = self.norms[0](x + seen)
        seen, cache[1] = self.cross.step(encoded, x, cache[1])
        x = self.norms[1](encoded + seen)
        out: Tensor = self.norms[2](x + self.mlp(x))
        return out
