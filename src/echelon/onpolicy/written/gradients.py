"""Gradients written out, without autograd: networks this small take as long to record as to compute.

A part of a network that has its gradient written out gives with its output a function `back`. It takes the gradient of
the loss with respect to the output, adds those of the part's parameters `into` a collection, and returns those of its
inputs. A network calls its parts in order and their `back` in reverse; `with_gradient` shows the whole to autograd as
one step, for whoever does not know of `back`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Gradients:
    """Gradients by parameter; those of a parameter used several times add up."""

    def __init__(self) -> None:
        self._found: dict[int, Tensor] = {}

    def add(self, parameter: Tensor, gradient: Tensor) -> None:
        """What one use of the parameter contributes; the gradient now belongs to the collection."""
        earlier = self._found.get(id(parameter))
        self._found[id(parameter)] = gradient if earlier is None else earlier.add_(gradient)

    def give(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add all to the parameters' own, as autograd's `backward` does."""
        for parameter in parameters:
            found = self._found.get(id(parameter))
            if found is not None:
                parameter.grad = found if parameter.grad is None else parameter.grad.add_(found)

    def of(self, parameters: Sequence[Tensor]) -> list[Tensor | None]:
        """In the order given; None for one that was not used."""
        return [self._found.get(id(parameter)) for parameter in parameters]


Outputs = tuple[Tensor, ...]
BackAll = Callable[..., None]
"""(into, gradient of each output): leaves the gradients of all parameters."""


def with_gradient(run: Callable[[], tuple[Outputs, BackAll]], parameters: Sequence[Tensor]) -> Outputs:
    """What `run` computes from the parameters, as one step of autograd with the gradient it gives."""
    outputs: Outputs = _Written.apply(run, *parameters)  # type: ignore[no-untyped-call]
    return outputs


class _Written(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Callable[[], tuple[Outputs, BackAll]], *parameters: Tensor) -> Outputs:
        outputs, ctx.back = run()
        ctx.parameters = parameters
        return tuple(output.detach() for output in outputs)  # others than those that `back` may hold: no cycle

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        into = Gradients()
        ctx.back(into, *gradients)
        return None, *into.of(ctx.parameters)
