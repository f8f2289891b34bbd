"""Every parameter in exactly one optimiser; saved optimisers go on bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from echelon.onpolicy.optimizer import adam, check_optimizers, load_optimizer_state, optimizer_state


def _check(module: nn.Module, *optimizers: torch.optim.Optimizer) -> None:
    check_optimizers(dict(module.named_parameters()), optimizers)


def test_a_layer_made_after_its_optimiser_is_found() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    optimizer = adam(net.parameters(), 1e-3)
    _check(net, optimizer)
    net.append(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"\['1.weight', '1.bias'\] are in no optimiser"):
        _check(net, optimizer)
    net[1].requires_grad_(False)
    _check(net, optimizer)


def test_a_parameter_in_two_optimisers_or_of_another_policy_is_found() -> None:
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"'bias'\] are in more than one"):
        _check(net, adam(net.parameters(), 1e-3), adam([net.bias], 1e-3))
    other = nn.Linear(3, 1)
    with pytest.raises(ValueError, match="hold 2 parameters that the policy does not"):
        _check(net, adam([*net.parameters(), *other.parameters()], 1e-3))


def _step(net: nn.Linear, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    net(torch.ones(1, 2)).square().sum().backward()
    optimizer.step()


def test_saved_state_goes_on_bit_for_bit_and_keeps_a_changed_rate() -> None:
    torch.manual_seed(0)
    net, copy = nn.Linear(2, 2), nn.Linear(2, 2)
    first, second = adam(net.parameters(), 1e-2), adam(copy.parameters(), 1e-2)
    for _ in range(3):
        _step(net, first)
    first.param_groups[0]["lr"] = 5e-3
    saved = optimizer_state(first)
    copy.load_state_dict(net.state_dict())
    load_optimizer_state(second, saved)
    before = {name: tensor.clone() for name, tensor in saved.items()}
    for _ in range(3):
        _step(net, first)
        _step(copy, second)
    assert torch.equal(net.weight, copy.weight)
    assert second.param_groups[0]["lr"] == 5e-3
    assert all(torch.equal(before[name], saved[name]) for name in saved)  # the saved copy is not written to


def test_a_state_of_other_shapes_is_refused() -> None:
    small, large = nn.Linear(2, 2), nn.Linear(2, 3)
    optimizer = adam(small.parameters(), 1e-2)
    _step(small, optimizer)
    with pytest.raises(ValueError, match="fits no parameter"):
        load_optimizer_state(adam(large.parameters(), 1e-2), optimizer_state(optimizer))
