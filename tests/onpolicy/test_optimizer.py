"""Every parameter in exactly one optimiser; saved optimisers continue bit for bit."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from echelon.onpolicy.aligned import ALIGNMENT, as_tensor
from echelon.onpolicy.optimizer import JointAdam, check_optimizers, clip_gradients

pytestmark = pytest.mark.numeric


def _check(module: nn.Module, *optimizers: JointAdam) -> None:
    check_optimizers(dict(module.named_parameters()), optimizers)


def test_a_layer_made_after_its_optimiser_is_found() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    optimizer = JointAdam(net.parameters(), 1e-3)
    _check(net, optimizer)
    net.append(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"\['1.weight', '1.bias'\] are in no optimiser"):
        _check(net, optimizer)
    net[1].requires_grad_(False)
    _check(net, optimizer)


def test_a_parameter_in_two_optimisers_or_of_another_policy_is_found() -> None:
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"'bias'\] are in more than one"):
        _check(net, JointAdam(net.parameters(), 1e-3), JointAdam([net.bias], 1e-3))
    other = nn.Linear(3, 1)
    with pytest.raises(ValueError, match="hold 2 parameters that the policy does not"):
        _check(net, JointAdam([*net.parameters(), *other.parameters()], 1e-3))


def _step(net: nn.Module, optimizer: JointAdam | torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    net(torch.ones(1, 2)).square().sum().backward()
    optimizer.step()


def test_it_is_adam_on_every_parameter() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    other = copy.deepcopy(net)
    ours, theirs = JointAdam(net.parameters(), 1e-2), torch.optim.Adam(other.parameters(), 1e-2, eps=1e-5)
    for _ in range(5):
        _step(net, ours)
        _step(other, theirs)
    for mine, yours in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, yours)


def test_parameters_stay_aligned_and_are_saved_without_gaps() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 17))
    before = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    optimizer = JointAdam(net.parameters(), 1e-2, weight_decay=0.1)
    assert [p.data_ptr() % ALIGNMENT for p in net.parameters()] == [0, 0, 0, 0]
    assert torch.equal(optimizer.without_gaps(optimizer.joint), before)
    for _ in range(3):
        _step(net, optimizer)
    saved = optimizer.without_gaps(optimizer.joint)
    assert torch.equal(saved, torch.cat([p.detach().reshape(-1) for p in net.parameters()]))
    assert torch.equal(optimizer.with_gaps(saved), optimizer.joint), "gaps stay zero"


def test_a_copy_of_learnt_weights_computes_the_same_to_the_bit() -> None:
    """A worker's copy of the weights lies elsewhere in memory; a result must not depend on where."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(30, 17), nn.ReLU(), nn.Linear(17, 1), nn.Linear(1, 48), nn.ReLU(), nn.Linear(48, 5))
    twin = copy.deepcopy(net)
    JointAdam(net.parameters(), 1e-2)
    for rows in (1, 2, 3, 6, 16, 48):
        x = torch.randn(rows, 30)
        for offset in range(0, 64, 4):  # as an array of numpy's, or a part of one, may lie
            there = np.frombuffer(bytearray(offset) + x.numpy().tobytes(), np.float32, offset=offset)
            assert torch.equal(twin(as_tensor(there.reshape(rows, 30))), net(x)), (rows, offset)


def test_clipping_shortens_the_gradient_of_all_optimisers_together() -> None:
    first, second = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
    optimizers = [JointAdam([first], 1.0), JointAdam([second], 1.0)]
    for limit, scale in ((None, 1.0), (26.0, 1.0), (6.5, 0.5)):
        first.grad, second.grad = torch.tensor([3.0, 4.0]), torch.tensor([12.0])
        assert float(clip_gradients(optimizers, limit)) == pytest.approx(13.0)
        gathered = [o.without_gaps(o._gradient) for o in optimizers if o._gradient is not None]
        torch.testing.assert_close(torch.cat(gathered), scale * torch.tensor([3.0, 4, 12]))
        for optimizer in optimizers:
            optimizer.zero_grad()


def test_a_parameter_without_gradient_or_moved_elsewhere_is_refused() -> None:
    net = nn.Linear(2, 2)
    optimizer = JointAdam(net.parameters(), 1e-2)
    with pytest.raises(ValueError, match="2 of 2 parameters have no gradient"):
        optimizer.step()
    net.weight.data = net.weight.data.clone()
    with pytest.raises(ValueError, match="were moved"):
        _step(net, optimizer)


def test_a_saved_state_continues_bit_for_bit_and_keeps_a_changed_rate() -> None:
    torch.manual_seed(0)
    net, other = nn.Linear(2, 2), nn.Linear(2, 2)
    first, second = JointAdam(net.parameters(), 1e-2), JointAdam(other.parameters(), 1e-2)
    for _ in range(3):
        _step(net, first)
    first.lr = 5e-3
    saved = first.state_dict()
    other.load_state_dict(net.state_dict())
    second.load_state_dict(saved)
    before = {name: tensor.clone() for name, tensor in saved.items()}
    for _ in range(3):
        _step(net, first)
        _step(other, second)
    assert torch.equal(net.weight, other.weight)
    assert second.lr == 5e-3
    assert all(torch.equal(before[name], saved[name]) for name in saved)  # the saved copy is not written to


def test_a_state_from_before_the_first_step_takes_moments_away() -> None:
    net = nn.Linear(2, 2)
    optimizer = JointAdam(net.parameters(), 1e-2)
    fresh = optimizer.state_dict()
    _step(net, optimizer)
    assert set(optimizer.state_dict()) == {
        "lr",
        "0.exp_avg",
        "1.exp_avg",
        "0.exp_avg_sq",
        "1.exp_avg_sq",
        "0.step",
        "1.step",
    }
    optimizer.load_state_dict(fresh)
    assert set(optimizer.state_dict()) == {"lr"}


def test_a_state_of_other_shapes_is_refused() -> None:
    small, large = nn.Linear(2, 2), nn.Linear(2, 3)
    optimizer = JointAdam(small.parameters(), 1e-2)
    _step(small, optimizer)
    with pytest.raises(ValueError, match=r"does not match the parameters.*0\.exp_avg"):
        JointAdam(large.parameters(), 1e-2).load_state_dict(optimizer.state_dict())
