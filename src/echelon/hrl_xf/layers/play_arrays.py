"""A layer's weights as numpy arrays, for play.

A call has few threads, so what an answer costs is the number of operations, and one of numpy costs a fraction of one of
torch. What a layer computes is defined by its `forward`; the passes in numpy (in `l2_manager`, `l3_history`,
`layers.l3_play` and `l4_coordinator`) are the same sums for a handful of rows, and tests hold them to it. On the CPU an
array is its weight's own memory, so what is learnt in place shows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[np.float32]
L = TypeVar("L", bound=nn.Module)
T = TypeVar("T")


def array_of(weight: Tensor) -> Array:
    """A weight's memory; of another device a copy."""
    found: Array = weight.detach().cpu().numpy()
    return found


class Linear:
    """`nn.Linear`."""

    def __init__(self, module: nn.Linear) -> None:
        self.weight, self.bias = array_of(module.weight).T, array_of(module.bias)

    def __call__(self, x: Array) -> Array:  # (..., i) -> (..., o)
        found: Array = x @ self.weight
        found += self.bias
        return found


class LayerNorm:
    """`nn.LayerNorm` over the last axis."""

    def __init__(self, module: nn.LayerNorm) -> None:
        self.weight, self.bias, self.eps = array_of(module.weight), array_of(module.bias), module.eps

    def __call__(self, x: Array) -> Array:  # (..., w)
        width = x.shape[-1]
        x = x - np.add.reduce(x, -1, keepdims=True) / width
        x /= np.sqrt(np.add.reduce(x * x, -1, keepdims=True) / width + self.eps)
        x *= self.weight
        x += self.bias
        return x


def relu(x: Array) -> Array:
    """`functional.relu`, in place."""
    return np.maximum(x, 0, out=x)


def log_softmax(logits: Array) -> Array:
    """Over the last axis; −inf stays −inf."""
    logits = logits - np.maximum.reduce(logits, -1, keepdims=True)
    logits -= np.log(np.add.reduce(np.exp(logits), -1, keepdims=True))
    return logits


class MadeOnce(Generic[L, T]):
    """What is made of a layer's arrays, kept for its next calls; made anew for weights that lie elsewhere than before,
    as after a copy or a move."""

    def __init__(self, make: Callable[[L], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[Any, tuple[int, T]] = WeakKeyDictionary()

    def of(self, layer: L, weight: Tensor) -> T:
        """`weight` is any one of the layer's."""
        where = weight.data_ptr()
        kept = self._made.get(layer)
        if kept is None or kept[0] != where:
            kept = self._made[layer] = (where, self._make(layer))
        return kept[1]
