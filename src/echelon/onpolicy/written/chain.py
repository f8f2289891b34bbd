"""Layers one after the other, with the gradient written out.

A `Chain` runs the layers it is given, whose parameters stay where they are, and keeps of each what its gradient needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.onpolicy.written.gradients import Gradients

Back = Callable[[Gradients, Tensor], Tensor]
"""(into, gradient of the output, which may be overwritten) -> gradient of the input."""
_norm_gradient = torch.ops.aten.native_layer_norm_backward.default
_gelu_gradient = torch.ops.aten.gelu_backward.grad_input
_relu_gradient = torch.ops.aten.threshold_backward.grad_input
_EPS = 1e-5


class Residual(nn.Sequential):
    """x + f(x), with f the layers in order."""

    def forward(self, x: Tensor) -> Tensor:
        """The same layer by layer."""
        out: Tensor = x + super().forward(x)  # type: ignore[no-untyped-call]
        return out


class _Kind(Enum):
    LINEAR = auto()  # W x + b
    ROWS = auto()  # x + the rows of an embedding that were chosen
    NORM = auto()
    RELU = auto()
    GELU = auto()
    KEEP = auto()  # remember x
    ADD = auto()  # x + what was kept last


class Chain:
    """Linear, LayerNorm, ReLU and GELU layers, Residual and Sequential ones of them, as one function.

    An Embedding among them adds the rows that `chosen` names: what one-hot inputs to the layer before it would give.
    """

    def __init__(self, *layers: nn.Module) -> None:
        self._steps = list(_flat(layers))
        kinds = [kind for kind, _ in self._steps]
        for before, kind in itertools.pairwise([None, *kinds]):
            if kind is _Kind.RELU and before not in (_Kind.LINEAR, _Kind.ROWS):
                raise ValueError("a ReLU in a chain must follow a Linear or an Embedding: it overwrites their output")
            if kind is _Kind.ADD and before is not _Kind.LINEAR:
                raise ValueError("a Residual in a chain must end with a Linear: others overwrite the gradient it keeps")

    def __call__(self, x: Tensor, chosen: Tensor | None = None) -> Tensor:
        """(..., F) and the rows to add, (..., j) -> (..., outputs), without a gradient."""
        return self._forward(x, chosen, None)

    def run(self, x: Tensor, chosen: Tensor | None = None, input_gradient: bool = True) -> tuple[Tensor, Back]:
        """The same with its gradient; without `input_gradient` that of x may be left out."""
        saved: list[Tensor] = []
        out = self._forward(x, chosen, saved)

        def back(into: Gradients, g: Tensor) -> Tensor:
            flat = self._backward(into, g.reshape(-1, g.shape[-1]), chosen, saved, input_gradient)
            return flat.view(x.shape) if input_gradient else flat

        return out, back

    def _forward(self, x: Tensor, chosen: Tensor | None, saved: list[Tensor] | None) -> Tensor:
        """The output; `saved` collects what the gradients of the steps need, in order."""
        lead, kept = x.shape[:-1], []
        x = x.reshape(-1, x.shape[-1])
        for kind, parameters in self._steps:
            before: tuple[Tensor, ...] = ()
            if kind is _Kind.LINEAR:
                weight, bias = parameters
                before, x = (x,), torch.addmm(bias, x, weight.T)
            elif kind is _Kind.NORM:
                weight, bias = parameters
                y, mean, scale = torch.native_layer_norm(x, weight.shape, weight, bias, _EPS)
                before, x = (x, mean, scale), y
            elif kind is _Kind.RELU:
                before = (x.relu_(),)
            elif kind is _Kind.GELU:
                before, x = (x,), functional.gelu(x)
            elif kind is _Kind.KEEP:
                kept.append(x)
            elif kind is _Kind.ADD:
                x = x + kept.pop()
            elif chosen is not None:
                for column in chosen.unbind(-1):
                    x += functional.embedding(column.reshape(-1), parameters[0])
            if saved is not None:
                saved += before
        return x.view(*lead, x.shape[-1])

    def _backward(
        self, into: Gradients, g: Tensor, chosen: Tensor | None, saved: list[Tensor], input_gradient: bool
    ) -> Tensor:
        left, kept = list(saved), []
        for i in range(len(self._steps) - 1, -1, -1):
            kind, parameters = self._steps[i]
            if kind is _Kind.LINEAR:
                weight, bias = parameters
                into.add(weight, g.T @ left.pop())
                into.add(bias, g.sum(0))
                g = g @ weight if i or input_gradient else g
            elif kind is _Kind.NORM:
                weight, bias = parameters
                scale, mean, x = left.pop(), left.pop(), left.pop()
                g, d_weight, d_bias = _norm_gradient(g, x, weight.shape, mean, scale, weight, bias, [True, True, True])
                into.add(weight, d_weight)
                into.add(bias, d_bias)
            elif kind is _Kind.RELU:
                _relu_gradient(g, left.pop(), 0, grad_input=g)
            elif kind is _Kind.GELU:
                _gelu_gradient(g, left.pop(), grad_input=g)
            elif kind is _Kind.ADD:
                kept.append(g)
            elif kind is _Kind.KEEP:
                g = g.add_(kept.pop())
            elif chosen is not None:
                into.add(parameters[0], rows_gradient(chosen, g, len(parameters[0])))
        return g


def rows_gradient(chosen: Tensor, g: Tensor, rows: int) -> Tensor:
    """Gradient of an embedding of which the rows `chosen` (..., j) were added to what has the gradient g (N, W).

    As a product with the one-hot choices, which costs a fraction of adding row by row.
    """
    flat = chosen.reshape(-1, chosen.shape[-1])
    one_hot = g.new_zeros(len(flat), rows).scatter_add_(1, flat, g.new_ones(()).expand(flat.shape))
    return one_hot.T @ g


def _flat(layers: Iterable[nn.Module]) -> Iterator[tuple[_Kind, tuple[Tensor, ...]]]:
    for layer in layers:
        if isinstance(layer, Residual):
            yield _Kind.KEEP, ()
            yield from _flat(layer)
            yield _Kind.ADD, ()
        elif isinstance(layer, nn.Sequential):
            yield from _flat(layer)
        elif isinstance(layer, nn.Linear) and isinstance(layer.bias, Tensor):
            yield _Kind.LINEAR, (layer.weight, layer.bias)
        elif isinstance(layer, nn.LayerNorm) and layer.elementwise_affine and layer.eps == _EPS:
            yield _Kind.NORM, (layer.weight, layer.bias)
        elif isinstance(layer, nn.Embedding):
            yield _Kind.ROWS, (layer.weight,)
        elif isinstance(layer, nn.ReLU):
            yield _Kind.RELU, ()
        elif isinstance(layer, nn.GELU) and layer.approximate == "none":
            yield _Kind.GELU, ()
        else:
            raise ValueError(f"a chain has no gradient for {layer}; use Linear, LayerNorm, ReLU, GELU or Embedding")
