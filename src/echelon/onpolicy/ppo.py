"""Proximal policy optimisation: a learner that applies the loss to one batch at a time.

Strictly on-policy is checked here: the learner refuses a batch that another version of its policy made, and refuses
one whose stored log-probabilities the policy cannot reproduce (the ratio before the first step must be 1 for every
decision).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from echelon.onpolicy.advantage import batch_gae
from echelon.onpolicy.batch import RolloutBatch, VersionError, group_columns, select_columns, without_inputs
from echelon.onpolicy.chunks import Chunks, to_chunks
from echelon.onpolicy.groups import Groups, sum_in_order
from echelon.onpolicy.loss import FIGURES, Count, Evaluation, PPOLoss, ppo_loss
from echelon.onpolicy.normalize import ValueNormalizer, normalize_advantage
from echelon.onpolicy.optimizer import JointAdam, check_optimizers, clip_gradients
from echelon.onpolicy.options import PPOOptions
from echelon.runtime.arrays import Array


class Policy(Protocol):
    """What the learner needs of a policy; any nn.Module with an `evaluate`."""

    def evaluate(self, chunks: Chunks) -> Evaluation:
        """Score the stored actions of (L, M) decisions, in sequence along L from the stored recurrent states."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters with their names."""

    def state_dict(self) -> dict[str, Any]:
        """Weights and buffers."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Continue from saved weights and buffers."""


@dataclass(frozen=True)
class PPOStats:
    """What one update did: means over its optimiser steps; approx_kl and clip_fraction over those of the last epoch."""

    version: int
    """The version that made the batch; the policy is now one further."""
    decisions: int
    epochs: int
    """Epochs really run: fewer than asked for if the KL stop came."""
    loss: float
    policy_loss: float
    value_loss: float
    entropy: float
    unit_entropy: tuple[float, ...]
    approx_kl: float
    clip_fraction: float
    explained_variance: float
    """1 - Var(target - value) / Var(target) of the critic before the update; NaN if all targets are equal."""
    grad_norm: float
    """Before clipping."""
    ratio_error: float
    """Largest |ratio - 1| before the first step: rounding, or something is wrong."""
    mean_value: float
    """In units of reward, as the next two."""
    mean_target: float
    mean_reward: float


class PPOLearner:
    """Improves one policy from batches that this very version of it made.

    `optimizers` must hold every trainable parameter of the policy exactly once. `seed` draws the mini-batches. Batches
    carry the critic's raw outputs: the learner turns them into units of reward with the statistics that held while
    collecting. `groups` of worlds are differentiated apart, here or by other processes that hold the same batch.
    """

    def __init__(
        self,
        policy: Policy,
        optimizers: Sequence[JointAdam],
        options: PPOOptions,
        seed: int = 0,
        version: int = 0,
        groups: Groups | None = None,
    ) -> None:
        check_optimizers(dict(policy.named_parameters()), optimizers)
        self.policy, self.optimizers, self.options, self.version = policy, list(optimizers), options, version
        self.groups = Groups() if groups is None else groups
        self.normalizer = ValueNormalizer()
        self.generator = torch.Generator().manual_seed(seed)
        self._trainable = {name: p for name, p in policy.named_parameters() if p.requires_grad}
        self.device = next(iter(self._trainable.values())).device

    def skip(self, batch: RolloutBatch) -> None:
        """Learn nothing from a batch of this version (a frozen level); the version is one higher afterwards."""
        self._check_version(batch)
        self.version += 1

    def _check_version(self, batch: RolloutBatch) -> None:
        if batch.version != self.version:
            raise VersionError(
                f"the batch was made by policy version {batch.version}, the learner holds version {self.version}; "
                "collect again with the current policy"
            )

    def update(self, batch: RolloutBatch) -> PPOStats:
        """All epochs over one batch of this version; the version is one higher afterwards."""
        self._check_version(batch)
        acts, options = batch.acts, self.options
        if not acts.any():
            raise ValueError(
                f"no unit acts in any of the {batch.slots} x {batch.columns} slots; there is nothing to learn from"
            )
        value = self.in_reward_units(batch.value)
        advantage, returns = self.advantages(batch)
        normalizer = copy.copy(self.normalizer)  # the learner's own changes only once the batch is accepted
        if options.normalize_value:
            normalizer.update(returns[batch.earning])
        target = normalizer.normalize(returns) if options.normalize_value else returns
        scaled = (
            normalize_advantage(advantage, acts, options.advantage_std_floor)
            if options.normalize_advantage
            else advantage
        )
        parts = []
        for group, columns in enumerate(group_columns(batch, self.groups.count)):
            share = select_columns(batch, columns)
            known = share if group in self.groups.mine else without_inputs(share)  # of others only who acts matters
            parts.append(to_chunks(known, scaled[:, columns], target[:, columns]).to(self.device))
        fewest = min(len(chunks) for chunks in parts)
        if options.minibatches > fewest:
            where = "the batch" if len(parts) == 1 else "a group"
            raise ValueError(f"minibatches={options.minibatches} exceeds the {fewest} chunks of {where}; use fewer")
        steps, epochs, ratio_error = self._epochs(parts)
        stats = _stats(batch, steps, epochs, ratio_error, value[acts], returns[acts])
        self.normalizer, self.version = normalizer, self.version + 1
        return stats

    def advantages(self, batch: RolloutBatch) -> tuple[Array, Array]:
        """Advantages and value targets in units of reward, (T, B, U); 0 where no unit acts."""
        mean, std = (self.normalizer.mean, self.normalizer.std) if self.options.normalize_value else (0.0, 1.0)
        return batch_gae(batch, self.options.gamma, self.options.gae_lambda, mean, std, self.options.discount)

    def in_reward_units(self, value: Array) -> Array:
        """Outputs of the critic in units of reward."""
        return self.normalizer.denormalize(value) if self.options.normalize_value else value

    def _epochs(self, parts: Sequence[Chunks]) -> tuple[Array, int, float]:
        """Figures of every optimiser step (S, 7 + U), the gradient's norm first; epochs run; the first ratio error."""
        options, ratio_error, epochs = self.options, math.nan, 0
        rows: list[Tensor] = []
        while epochs < options.epochs:
            epochs += 1
            for minibatch, count in self._minibatches(parts):
                figures, error = self._gradient(minibatch, count)
                if not rows:
                    ratio_error = self._check_first(error)
                norm = clip_gradients(self.optimizers, options.max_grad_norm)
                for optimizer in self.optimizers:
                    optimizer.step()
                rows.append(torch.cat([norm.reshape(1), figures]))
            if options.kl_stop is not None and _mean_kl(rows[-options.minibatches :]) > options.kl_stop:
                break
        steps: Array = torch.stack(rows).cpu().numpy()
        if not np.isfinite(steps).all():
            raise FloatingPointError(
                f"an update of version {self.version} gave a loss or gradient that is not finite; resume from the "
                "last checkpoint, and check rewards, observations and learning rate"
            )
        return steps, epochs, ratio_error

    def _minibatches(self, parts: Sequence[Chunks]) -> Iterator[tuple[list[Chunks], Count]]:
        """The chunks of the groups computed here, and the count over all groups, of each mini-batch."""
        mine = self.groups.mine
        if self.options.minibatches == 1:
            yield [parts[group] for group in mine], Count.of(torch.cat([part.acts for part in parts], 1))
            return
        orders = [torch.randperm(len(part), generator=self.generator) for part in parts]
        shares = [order.to(self.device).tensor_split(self.options.minibatches) for order in orders]
        for indices in zip(*shares, strict=True):
            acts = [part.acts.index_select(1, index) for part, index in zip(parts, indices, strict=True)]
            yield [parts[group].select(indices[group]) for group in mine], Count.of(torch.cat(acts, 1))

    def _gradient(self, minibatch: Sequence[Chunks], count: Count) -> tuple[Tensor, Tensor]:
        """Leave the gradient of one mini-batch, the sum over all groups, for the optimisers; its figures, ratio error.

        One group leaves it in the parameters, several in the optimisers' arrays.
        """
        if self.groups.count == 1:
            return self._group_gradient(minibatch[0], count)
        rows = []
        for part in minibatch:
            figures, error = self._group_gradient(part, count)
            rows.append(torch.cat([*(o.gather() for o in self.optimizers), figures, error.reshape(1)]))
        found = self.groups.gather(torch.stack(rows))
        sizes = [o.joint.numel() for o in self.optimizers]
        *gradients, figures = torch.split(sum_in_order(found[:, :-1]), [*sizes, found.shape[1] - 1 - sum(sizes)])
        for optimizer, gradient in zip(self.optimizers, gradients, strict=True):
            optimizer.put(gradient)
        return figures, found[:, -1].max()

    def _group_gradient(self, part: Chunks, count: Count) -> tuple[Tensor, Tensor]:
        """Leave the gradient of one group's share in the parameters, computed in `accumulate` pieces."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        pieces = [part]
        if self.options.accumulate > 1:
            indices = torch.arange(len(part), device=self.device).tensor_split(min(self.options.accumulate, len(part)))
            pieces = [part.select(index) for index in indices]
        losses = []
        for piece in pieces:
            loss = self._loss(self.policy.evaluate(piece), piece, count)
            loss.total.backward()  # type: ignore[no-untyped-call]
            losses.append(loss)
        figures = torch.stack([loss.figures() for loss in losses]).sum(0)
        return figures, torch.stack([loss.ratio_error for loss in losses]).max()

    def _loss(self, now: Evaluation, piece: Chunks, count: Count) -> PPOLoss:
        _check_evaluation(now, piece)
        return ppo_loss(
            now,
            piece.log_prob,
            piece.value,
            piece.advantage,
            piece.target,
            piece.acts,
            self.options,
            count,
            piece.earns,
        )

    def _check_first(self, error: Tensor) -> float:
        """Before anything was learnt: ratios are 1, and every parameter has a gradient."""
        ratio_error, limit = float(error), self.options.ratio_tolerance
        if limit is not None and not ratio_error <= limit:
            raise ValueError(
                f"before the first step a ratio differs from 1 by {ratio_error:.3g} (ratio_tolerance={limit:g}): "
                "stored log-probabilities are not those of the stored actions, observations, masks, states and resets"
            )
        idle = [name for name, parameter in self._trainable.items() if parameter.grad is None]
        if idle:
            raise ValueError(
                f"parameters {idle} get no gradient; use them in evaluate(), or freeze them (requires_grad_(False))"
            )
        return ratio_error

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes: weights, optimisers, value statistics, random stream, version. Flat; tensors only."""
        state = {f"policy.{name}": tensor.detach().clone() for name, tensor in self.policy.state_dict().items()}
        for i, optimizer in enumerate(self.optimizers):
            state |= {f"optimizer.{i}.{name}": tensor for name, tensor in optimizer.state_dict().items()}
        state |= {f"normalizer.{name}": tensor for name, tensor in self.normalizer.state_dict().items()}
        return state | {"generator": self.generator.get_state(), "version": torch.tensor(self.version)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state, bit for bit."""
        self.policy.load_state_dict(part_of_state(state, "policy."))
        for i, optimizer in enumerate(self.optimizers):
            optimizer.load_state_dict(part_of_state(state, f"optimizer.{i}."))
        self.normalizer.load_state_dict(part_of_state(state, "normalizer."))
        self.generator.set_state(state["generator"])
        self.version = int(state["version"])


def _stats(
    batch: RolloutBatch, steps: Array, epochs: int, ratio_error: float, value: Array, returns: Array
) -> PPOStats:
    names = ("grad_norm", *FIGURES)
    mean, last = steps.mean(0), steps[-(len(steps) // epochs) :].mean(0)
    over_all, over_last = (dict(zip(names, means.tolist(), strict=False)) for means in (mean, last))
    spread = float(np.var(returns))
    return PPOStats(
        version=batch.version,
        decisions=batch.decisions,
        epochs=epochs,
        grad_norm=over_all["grad_norm"],
        loss=over_all["total"],
        policy_loss=over_all["policy"],
        value_loss=over_all["value"],
        entropy=over_all["entropy"],
        approx_kl=over_last["approx_kl"],
        clip_fraction=over_last["clip_fraction"],
        unit_entropy=tuple(mean[len(names) :].tolist()),
        explained_variance=1.0 - float(np.var(returns - value)) / spread if spread > 0.0 else math.nan,
        ratio_error=ratio_error,
        mean_value=float(value.mean()),
        mean_target=float(returns.mean()),
        mean_reward=float(batch.reward[batch.acts].mean()),
    )


def _mean_kl(rows: Sequence[Tensor]) -> float:
    place = 1 + FIGURES.index("approx_kl")  # after the gradient's norm
    return float(torch.stack([row[place] for row in rows]).mean())


def _check_evaluation(now: Evaluation, piece: Chunks) -> None:
    shape = piece.log_prob.shape
    if not (now.log_prob.shape == now.entropy.shape == now.value.shape == shape):
        found = (tuple(now.log_prob.shape), tuple(now.entropy.shape), tuple(now.value.shape))
        raise ValueError(
            f"evaluate() gave log_prob, entropy, value of shapes {found}; each must be (L, M, U) = {tuple(shape)}"
        )


def part_of_state(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The entries of a flat state whose names start with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
