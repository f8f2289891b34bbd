"""The learner: what it refuses, what it keeps invariant, and that it moves the right way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from echelon.onpolicy.batch import RolloutBatch, VersionError
from echelon.onpolicy.chunks import to_chunks
from echelon.onpolicy.optimizer import JointAdam
from echelon.onpolicy.options import PPOOptions
from echelon.onpolicy.ppo import PPOLearner
from echelon.runtime.arrays import Array
from tests.onpolicy.step_collector import StepCollector
from tests.onpolicy.toys import FeedForward, MatrixGame, Recall, Recurrent, ToyWorlds
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric

Net = FeedForward | Recurrent


def _setup(recurrent: bool, slots: int = 13, **options: Any) -> tuple[PPOLearner, Net, RolloutBatch]:
    """A policy, its learner, a round of it; 13 slots divide neither into chunks of 5 nor into episodes of 6 or 2."""
    torch.manual_seed(0)
    worlds: ToyWorlds = Recall(7) if recurrent else MatrixGame(7)
    policy = (Recurrent if recurrent else FeedForward)(worlds.width, worlds.actions)
    for parameter in policy.parameters():  # far from the near-uniform start, so that mistakes show
        parameter.data += 0.5 * torch.randn(parameter.shape)
    learner = PPOLearner(policy, [JointAdam(policy.parameters(), 1e-2)], PPOOptions(**options))
    collector = StepCollector(worlds, policy, lambda: learner.version, seed=1, chunk=5 if recurrent else 1)
    collector.collect(0, 7 * 3)  # the round then starts in the middle of episodes
    return learner, policy, collector.collect(0, 7 * slots)["agent"]


def _weights(policy: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in policy.state_dict().items()}


@pytest.mark.parametrize("recurrent", [False, True])
def test_before_the_first_update_every_ratio_is_one(recurrent: bool) -> None:
    _, policy, batch = _setup(recurrent)
    assert batch.reset[1:].any()
    chunks = to_chunks(batch, batch.reward, batch.reward)
    with torch.no_grad():
        now = policy.evaluate(chunks)
    where = chunks.acts
    assert int(where.sum()) == batch.acts.sum() == batch.log_prob.size
    assert_equal_but_for_rounding(now.log_prob[where], chunks.log_prob[where])
    assert_equal_but_for_rounding(now.value[where], chunks.value[where])


def _spoil(batch: RolloutBatch, how: str) -> RolloutBatch:
    if how == "other actions":
        return replace(batch, action={"action": 1 - batch.action["action"]})
    if how == "zero states":
        return replace(batch, state={name: np.zeros_like(array) for name, array in batch.state.items()})
    if how == "no resets":
        return replace(batch, reset=np.zeros_like(batch.reset))
    return replace(batch, observation={"observation": np.roll(batch.observation["observation"], 1, 1)})


@pytest.mark.parametrize("how", ["other actions", "zero states", "no resets", "observations of other worlds"])
def test_a_round_that_the_policy_cannot_reproduce_is_refused(how: str) -> None:
    learner, _, batch = _setup(recurrent=True)
    before = learner.state_dict()
    with pytest.raises(ValueError, match="ratio differs from 1"):
        learner.update(_spoil(batch, how))
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.state_dict().items())
    assert learner.update(batch).ratio_error < 1e-5


def test_a_batch_of_another_version_is_refused_with_both_versions() -> None:
    learner, _, batch = _setup(recurrent=False)
    with pytest.raises(VersionError, match="policy version 3, the learner holds version 0"):
        learner.update(replace(batch, version=3))
    assert learner.update(batch).version == 0
    assert learner.version == 1
    with pytest.raises(VersionError, match="policy version 0, the learner holds version 1"):
        learner.update(batch)


@pytest.mark.parametrize("recurrent", [False, True])
def test_every_parameter_changes(recurrent: bool) -> None:
    learner, policy, batch = _setup(recurrent, epochs=1)
    before = _weights(policy)
    learner.update(batch)
    assert [name for name, tensor in policy.state_dict().items() if torch.equal(tensor, before[name])] == []


def test_an_idle_parameter_and_one_outside_the_optimiser_are_found() -> None:
    _, policy, batch = _setup(recurrent=False)
    policy.idle = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"idle.weight.* are in no optimiser"):
        PPOLearner(
            policy,
            [JointAdam(policy.actor.parameters(), 1e-3), JointAdam(policy.critic.parameters(), 1e-3)],
            PPOOptions(),
        )
    learner = PPOLearner(policy, [JointAdam(policy.parameters(), 1e-3)], PPOOptions())
    with pytest.raises(ValueError, match=r"idle.weight.* get no gradient"):
        learner.update(batch)


def test_one_small_step_moves_probability_towards_what_paid() -> None:
    """Action 1 earned 1, action 0 earned 0: after one step of one epoch 1 is likelier wherever it was tried."""
    learner, policy, batch = _setup(recurrent=False, epochs=1, entropy_coef=0.0)
    ended = np.ones_like(batch.done)
    paid = replace(batch, reward=batch.action["action"].astype(np.float32), terminated=ended, done=ended)
    seen = torch.from_numpy(batch.observation["observation"])
    before = policy.actor(seen).softmax(-1)[..., 1].detach()
    learner.update(paid)
    after = policy.actor(seen).softmax(-1)[..., 1].detach()
    assert (after > before).float().mean() > 0.95


def _trained(batch: RolloutBatch, recurrent: bool, **options: Any) -> dict[str, torch.Tensor]:
    learner, policy, _ = _setup(recurrent, **options)
    learner.update(batch)
    return _weights(policy)


def _assert_close(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("recurrent", [False, True])
def test_gradient_accumulation_equals_the_whole(recurrent: bool) -> None:
    batch = _setup(recurrent)[2]
    whole = _trained(batch, recurrent, epochs=3)
    _assert_close(whole, _trained(batch, recurrent, epochs=3, accumulate=4))
    moved = _setup(recurrent)[1].state_dict()
    assert any((whole[name] - moved[name]).abs().max() > 1e-2 for name in whole)


@pytest.mark.parametrize("recurrent", [False, True])
def test_padding_and_dead_agents_do_not_change_what_is_learnt(recurrent: bool) -> None:
    """The same decisions with two more slots and three more worlds of garbage that nobody acted in."""
    batch = _setup(recurrent)[2]
    slots, columns = batch.slots + 2, batch.columns + 3
    rng = np.random.default_rng(0)

    def grow(array: Array, rows: int) -> Array:
        out: Array
        if array.dtype == bool:
            out = rng.random((rows, columns, *array.shape[2:])) < 0.5
        elif array.dtype.kind == "i":
            out = rng.integers(0, 2, (rows, columns, *array.shape[2:]))
        else:
            out = rng.normal(size=(rows, columns, *array.shape[2:])).astype(np.float32)
        out[: array.shape[0], : array.shape[1]] = array
        return out

    numbers: dict[str, Any] = {
        n: grow(getattr(batch, n), slots) for n in ("log_prob", "value", "next_value", "reward", "span", "reset")
    }
    done = grow(batch.done, slots)
    valid, alive = np.zeros((slots, columns), bool), np.zeros((slots, columns, batch.units), bool)
    valid[: batch.slots], alive[: batch.slots, : batch.columns] = True, True
    numbers |= {"done": done, "terminated": grow(batch.terminated, slots) & done, "valid": valid}
    numbers |= {"alive": alive, "earns": alive}
    trees: dict[str, Any] = {
        n: {k: grow(v, slots) for k, v in getattr(batch, n).items()} for n in ("observation", "action")
    }
    state = {k: grow(v, -(-slots // batch.chunk)) for k, v in batch.state.items()}
    grown = replace(batch, **numbers, **trees, state=state)
    assert grown.acts.sum() == batch.acts.sum()
    _assert_close(_trained(batch, recurrent, epochs=3), _trained(grown, recurrent, epochs=3))


def test_minibatches_take_every_chunk_once_an_epoch_in_an_order_drawn_from_the_seed() -> None:
    learner, policy, batch = _setup(recurrent=True, epochs=2, minibatches=3)
    taken: list[list[float]] = []
    evaluate = policy.evaluate

    def watch(chunks: Any) -> Any:
        taken.append(chunks.log_prob[0, :, 0].tolist())
        return evaluate(chunks)

    policy.evaluate = watch  # type: ignore[method-assign]
    learner.update(batch)
    assert len(taken) == 6
    everything = sorted(to_chunks(batch, batch.reward, batch.reward).log_prob[0, :, 0].tolist())
    assert sorted([*taken[0], *taken[1], *taken[2]]) == everything
    assert sorted([*taken[3], *taken[4], *taken[5]]) == everything
    assert taken[0] != taken[3]
    learner, _, batch = _setup(recurrent=True, minibatches=99)
    with pytest.raises(ValueError, match="minibatches=99 exceeds the 21 chunks"):
        learner.update(batch)


def test_the_kl_stop_ends_the_epochs() -> None:
    learner, _, batch = _setup(recurrent=False, epochs=15)
    whole = learner.update(batch)
    assert whole.epochs == 15
    limit = whole.approx_kl / 3
    learner, _, batch = _setup(recurrent=False, epochs=15, kl_stop=limit)
    stopped = learner.update(batch)
    assert 1 < stopped.epochs < 15
    assert stopped.approx_kl > limit


def test_statistics_describe_the_round() -> None:
    learner, _, batch = _setup(recurrent=False, normalize_value=False, gae_lambda=1.0, epochs=1, entropy_coef=0.3)
    advantage, target = learner.advantages(batch)
    stats = learner.update(batch)
    assert stats.decisions == 7 * 13
    assert stats.explained_variance == pytest.approx(1 - np.var(advantage) / np.var(target), abs=1e-5)
    assert stats.mean_value == pytest.approx(batch.value.mean(), abs=1e-5)
    assert stats.mean_reward == pytest.approx(batch.reward.mean(), abs=1e-5)
    assert stats.approx_kl == pytest.approx(0.0, abs=1e-6)
    assert stats.clip_fraction == 0.0
    assert stats.loss == pytest.approx(stats.policy_loss + stats.value_loss - 0.3 * stats.entropy, rel=1e-4)
    assert stats.entropy == pytest.approx(np.mean(stats.unit_entropy), rel=1e-5)
    assert len(stats.unit_entropy) == 2
    assert stats.grad_norm > 0.0


def test_gradients_are_shortened_to_the_limit() -> None:
    learner, _, batch = _setup(recurrent=False, epochs=1, max_grad_norm=1e-3)
    assert learner.update(batch).grad_norm > 1e-3
    moments = learner.optimizers[0].state_dict()  # after one step the first moment is (1 - .9) times the gradient
    total = sum(float(t.square().sum()) for name, t in moments.items() if name.endswith("exp_avg"))
    assert total**0.5 == pytest.approx(1e-4, rel=1e-3)


def test_value_targets_are_normalised_with_the_rounds_own_first_statistics() -> None:
    learner, _, batch = _setup(recurrent=False)
    _, returns = learner.advantages(batch)
    learner.update(batch)
    assert learner.normalizer.mean == pytest.approx(returns.mean(), rel=1e-6)
    assert learner.normalizer.std == pytest.approx(returns.std(), rel=1e-6)
    one = np.ones((1, 1, 1))
    assert learner.in_reward_units(one).item() == pytest.approx(returns.mean() + returns.std(), rel=1e-6)


def test_a_round_in_which_nobody_acts_is_refused() -> None:
    learner, _, batch = _setup(recurrent=False)
    with pytest.raises(ValueError, match="nothing to learn from"):
        learner.update(replace(batch, alive=np.zeros_like(batch.alive)))


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    learner, _, batch = _setup(recurrent=False, ratio_tolerance=None)
    with pytest.raises(FloatingPointError, match="not finite"):
        learner.update(replace(batch, log_prob=batch.log_prob - 500))


def test_wrong_shapes_from_evaluate_are_named() -> None:
    learner, policy, batch = _setup(recurrent=False)
    whole = policy.evaluate
    policy.evaluate = lambda chunks: replace(whole(chunks), value=whole(chunks).value[..., :1])  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"\(1, 91, 2\), \(1, 91, 2\), \(1, 91, 1\)"):
        learner.update(batch)
