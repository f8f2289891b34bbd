"""A layer's weights as numpy arrays, for play. Imports neither torch nor anything else that play does not need.

A call has few threads, so what an answer costs is the number of operations, and one of numpy costs a fraction of one of
torch. What a layer computes is defined by its network's `forward`; the passes in numpy (`l2_play`, `l3_history`,
`l3_play` and `l4_play`) are the same sums for a handful of rows, and tests hold them to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from echelon.runtime.arrays import Float32


class WeightsError(ValueError):
    """Weights that do not make the layer they are for."""


class Weights:
    """A layer's arrays by name; each is asked for with the shape that it must have."""

    def __init__(self, arrays: Mapping[str, Float32], prefix: str = "", unused: set[str] | None = None) -> None:
        self._arrays, self._prefix = arrays, prefix
        self.unused = set(arrays) if unused is None else unused
        """names that were not read yet"""

    def below(self, name: str) -> Weights:
        """The weights of a part of the layer."""
        return Weights(self._arrays, f"{self._prefix}{name}.", self.unused)

    def take(self, name: str, *shape: int) -> Float32:
        """One array, as it is: what is learnt in place in its memory shows at once."""
        name = self._prefix + name
        if name not in self._arrays:
            raise WeightsError(f"{name} is missing")
        array = self._arrays[name]
        if array.shape != shape:
            raise WeightsError(
                f"{name} has shape {array.shape}, the layer needs {shape}; build it with the options it was trained "
                "with"
            )
        self.unused.discard(name)
        return array

    def linear(self, name: str, inputs: int, outputs: int) -> Linear:
        """An `nn.Linear(inputs, outputs)`."""
        return Linear(self.take(f"{name}.weight", outputs, inputs), self.take(f"{name}.bias", outputs))

    def norm(self, name: str, width: int) -> LayerNorm:
        """An `nn.LayerNorm(width)`."""
        return LayerNorm(self.take(f"{name}.weight", width), self.take(f"{name}.bias", width))


class Linear:
    """`nn.Linear`."""

    def __init__(self, weight: Float32, bias: Float32) -> None:  # (o, i), (o,)
        self.weight, self.bias = weight.T, bias

    def __call__(self, x: Float32) -> Float32:  # (..., i) -> (..., o)
        found: Float32 = x @ self.weight
        found += self.bias
        return found


class LayerNorm:
    """`nn.LayerNorm` over the last axis."""

    eps = 1e-5

    def __init__(self, weight: Float32, bias: Float32) -> None:  # (w,) each
        self.weight, self.bias = weight, bias

    def __call__(self, x: Float32) -> Float32:  # (..., w)
        width = x.shape[-1]
        x = x - np.add.reduce(x, -1, keepdims=True) / width
        x /= np.sqrt(np.add.reduce(x * x, -1, keepdims=True) / width + self.eps)
        x *= self.weight
        x += self.bias
        return x


def relu(x: Float32) -> Float32:
    """`functional.relu`, in place."""
    return np.maximum(x, 0, out=x)


def log_softmax(logits: Float32) -> Float32:
    """Over the last axis; −inf stays −inf."""
    logits = logits - np.maximum.reduce(logits, -1, keepdims=True)
    logits -= np.log(np.add.reduce(np.exp(logits), -1, keepdims=True))
    return logits
