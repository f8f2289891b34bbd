"""A chain of layers equals the layers one by one, and its written gradient the derived one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from echelon.onpolicy.written.chain import Chain, Residual
from echelon.onpolicy.written.gradients import Gradients, with_gradient

pytestmark = pytest.mark.numeric


def _layers() -> list[nn.Module]:
    torch.manual_seed(0)
    layers: list[nn.Module] = [
        nn.Linear(3, 6),
        nn.Embedding(5, 6),
        nn.ReLU(),
        nn.LayerNorm(6),
        nn.Sequential(Residual(nn.Linear(6, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 6)), nn.LayerNorm(6)),
        nn.Linear(6, 2),
    ]
    for layer in layers:
        for parameter in layer.double().parameters():
            nn.init.normal_(parameter)
    return layers


def _one_by_one(layers: list[nn.Module], x: Tensor, chosen: Tensor) -> Tensor:
    for layer in layers:
        x = x + layer(chosen).sum(-2) if isinstance(layer, nn.Embedding) else layer(x)
    return x


def test_the_written_gradient_is_the_derived_one() -> None:
    layers = _layers()
    parameters = [p for layer in layers for p in layer.parameters()]
    x = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    chosen = torch.randint(5, (2, 7, 2))  # a row may be chosen twice
    expected = _one_by_one(layers, x, chosen)
    chain = Chain(*layers)
    with torch.no_grad():
        torch.testing.assert_close(chain(x, chosen), expected)
        out, back = chain.run(x, chosen)
        torch.testing.assert_close(out, expected)
        seed, into = torch.randn_like(out), Gradients()
        by_x = back(into, seed.clone())
    for ours, theirs in zip(
        [by_x, *into.of(parameters)], torch.autograd.grad(expected, [x, *parameters], seed), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_without_a_gradient_of_the_input_the_parameters_get_the_same() -> None:
    layers = _layers()
    parameters = [p for layer in layers for p in layer.parameters()]
    x, chosen = torch.randn(4, 3, dtype=torch.float64), torch.randint(5, (4, 1))
    found = []
    for asked in (True, False):
        with torch.no_grad():
            out, back = Chain(*layers).run(x, chosen, input_gradient=asked)
            into = Gradients()
            back(into, torch.ones_like(out))
        found.append(into.of(parameters))
    torch.testing.assert_close(found[0], found[1], rtol=0.0, atol=0.0)


def test_a_parameter_used_twice_gets_the_sum_and_autograd_sees_it() -> None:
    layer = nn.Linear(2, 2).double()
    chain, x = Chain(layer), torch.randn(3, 2, dtype=torch.float64)

    def run() -> tuple[tuple[Tensor, ...], object]:
        first, back_first = chain.run(x)
        second, back_second = chain.run(first)

        def back(into: Gradients, g: Tensor) -> None:
            back_first(into, back_second(into, g))

        return (second,), back

    (out,) = with_gradient(run, list(layer.parameters()))  # type: ignore[arg-type]
    (out * out).sum().backward()  # type: ignore[no-untyped-call]
    expected = layer(layer(x))
    for ours, theirs in zip(
        [p.grad for p in layer.parameters()],
        torch.autograd.grad((expected * expected).sum(), list(layer.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_layers_without_a_written_gradient_are_refused() -> None:
    for layers, message in (
        ([nn.Tanh()], "no gradient for Tanh"),
        ([nn.GELU(approximate="tanh")], "no gradient for GELU"),
        ([nn.LayerNorm(2), nn.ReLU()], "must follow a Linear"),
        ([Residual(nn.Linear(2, 2), nn.ReLU())], "must end with a Linear"),
    ):
        with pytest.raises(ValueError, match=message):
            Chain(*layers)
