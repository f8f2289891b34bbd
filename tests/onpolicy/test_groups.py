"""Groups of worlds differentiated apart: the sum is the whole, in one process or in several."""

from __future__ import annotations

import pytest
import torch

from echelon.onpolicy.batch import concatenate, group_columns, select_columns, with_zero_inputs, without_inputs
from echelon.onpolicy.groups import Groups, sum_in_order
from echelon.onpolicy.optimizer import JointAdam
from echelon.onpolicy.options import PPOOptions
from echelon.onpolicy.ppo import PPOLearner
from tests.onpolicy.batches import random_batch
from tests.onpolicy.toys import FeedForward
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric


def learner(groups: int, **options: object) -> PPOLearner:
    torch.manual_seed(3)
    policy = FeedForward(3, 4)
    asked = PPOOptions(epochs=1, ratio_tolerance=None, **options)  # type: ignore[arg-type]
    return PPOLearner(policy, [JointAdam(policy.parameters(), 1e-3)], asked, groups=Groups(groups))


def test_the_gradient_of_groups_is_the_gradient_of_the_whole() -> None:
    """Also where groups have different numbers of acting units: averages are over the whole mini-batch."""
    batch = random_batch(6, 4, 2)
    batch.alive[2:, 0] = False
    stats = [learner(groups).update(batch) for groups in (1, 2, 4)]
    for found in stats[1:]:
        for name in ("loss", "policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm"):
            assert getattr(found, name) == pytest.approx(getattr(stats[0], name), rel=1e-4), name
        assert found.ratio_error == pytest.approx(stats[0].ratio_error, rel=1e-5)


def test_a_minibatch_takes_a_share_of_every_group() -> None:
    batch = random_batch(6, 4, 2)
    found = learner(2, minibatches=3).update(batch)
    assert found.epochs == 1
    with pytest.raises(ValueError, match="minibatches=13 exceeds the 12 chunks of a group"):
        learner(2, minibatches=13).update(batch)


class Half(Groups):
    """One of two processes; the other's rows are given."""

    def __init__(self, other: torch.Tensor) -> None:
        super().__init__(2)
        self.mine, self.other, self.sent = range(1), other, torch.empty(0)

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        self.sent = rows
        return torch.cat([rows, self.other])


def test_the_optimiser_takes_what_all_processes_found() -> None:
    """The other process sends gradients of 0: the step is that of this group alone."""
    batch, whole = random_batch(6, 4, 2), learner(2)
    size = whole.optimizers[0].joint.numel()
    half = learner(1)
    half.groups = groups = Half(torch.zeros(1, size + 6 + 2 + 1))
    before = half.optimizers[0].joint.clone()
    half.update(batch)
    assert groups.sent.shape == (1, size + 9)
    assert (half.optimizers[0].joint != before).any()
    whole.update(batch)
    assert (half.optimizers[0].joint != whole.optimizers[0].joint).any()


def test_groups_are_equal_shares_of_the_columns() -> None:
    batch = random_batch(3, 4, 2)
    assert group_columns(batch, 2) == [slice(0, 2), slice(2, 4)]
    part = select_columns(batch, slice(2, 4))
    assert (part.reward == batch.reward[:, 2:]).all()
    assert (part.observation["observation"] == batch.observation["observation"][:, 2:]).all()
    with pytest.raises(ValueError, match="4 worlds cannot be 3 groups"):
        group_columns(batch, 3)
    with pytest.raises(ValueError, match="count=0"):
        Groups(0)


def test_what_other_processes_need_of_a_batch_is_small_and_fits_beside_it() -> None:
    mine, other = random_batch(3, 2, 2), random_batch(4, 2, 2)
    sent = without_inputs(other, keep=("action",))
    assert (dict(sent.observation), list(sent.action)) == ({}, ["action"])
    back = with_zero_inputs(sent, mine)
    assert back.observation["observation"].shape == other.observation["observation"].shape
    assert not back.observation["observation"].any()
    assert (back.action["action"] == other.action["action"]).all()
    assert (back.reward == other.reward).all()
    joined = concatenate([mine, back])
    assert joined.columns == 4


def test_the_sum_is_in_order() -> None:
    rows = torch.tensor([[1e8, 1.0], [1.0, 2.0], [-1e8, 4.0]])
    assert sum_in_order(rows).tolist() == [0.0, 7.0]  # (1e8 + 1) - 1e8 in float32
    assert rows[0, 0] == 1e8


def test_a_gradient_of_another_size_is_refused() -> None:
    policy = FeedForward(3, 4)
    optimizer = JointAdam(policy.parameters(), 1e-3)
    with pytest.raises(ValueError, match=r"a gradient of \(3,\)"):
        optimizer.put(torch.zeros(3))
    optimizer.put(torch.ones_like(optimizer.joint))
    assert_equal_but_for_rounding(optimizer.gradient, torch.ones_like(optimizer.joint))
