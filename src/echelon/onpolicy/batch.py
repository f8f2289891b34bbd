"""One round of decisions of one level, as arrays; the only thing that passes from collecting to learning.

Words used throughout the engine:

- *slot* t and *column* b: decision number t of world b in this round; arrays are time-major, (T, B, ...).
- *unit* u: whatever has a probability ratio and a baseline of its own: an agent, one of the n + 1 parts of an
  autoregressive choice, a thread of a set. A unit's action may have several named parts with one joint log-probability.
- *span*: the environment steps a decision lasted; levels of one rollout have different clocks.
- *acts*: the unit was alive and the slot is not padding: its policy learns here.
- *earns*: the unit's return runs through the slot, whether it acts or not: an agent of a team that died continues to
  earn what the team earns. Nothing stored where a unit does not earn has any effect.
- *chunk*: slots that are evaluated in sequence from a stored recurrent state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from echelon.runtime.arrays import Array

Arrays = Mapping[str, Array]

UNIT_FIELDS = ("log_prob", "value", "next_value", "reward", "terminated", "done", "alive", "earns")
SLOT_FIELDS = ("span", "valid", "reset")
TREE_FIELDS = ("observation", "action", "mask", "extra")


class VersionError(ValueError):
    """Decisions of another policy version than the one they are to be learnt or joined with."""


@dataclass(frozen=True)
class RolloutBatch:
    """Decisions of one level in one round, all made by one version of the policy."""

    version: int
    """The policy that made every decision here."""
    observation: Arrays  # each (T, B, ...)
    """What each decision saw, when it was taken."""
    action: Arrays  # each (T, B, ...)
    """What was chosen, as the distributions sampled it (before any squashing), by name of its part."""
    log_prob: Array  # (T, B, U)
    value: Array  # (T, B, U)
    """Output of the critic at the decision, in the critic's own units."""
    next_value: Array  # (T, B, U)
    """Output of the critic at the state that really followed; not looked at where terminated."""
    reward: Array  # (T, B, U)
    """All that was earned while the decision lasted."""
    terminated: Array  # (T, B, U)
    """Nothing more can be earned after this decision."""
    done: Array  # (T, B, U)
    """The chain stops after this decision: terminated or truncated."""
    alive: Array  # (T, B, U)
    span: Array  # (T, B)
    valid: Array  # (T, B)
    """False: padding of a column that took fewer than T decisions; always at its end."""
    reset: Array  # (T, B)
    """The recurrent state was set to zero before this decision: an episode starts here."""
    mask: Arrays = field(default_factory=dict)  # each (T, B, ...)
    """Which choices were allowed, by name of the part."""
    extra: Arrays = field(default_factory=dict)  # each (T, B, ...)
    """What the level's owner needs afterwards, such as next observations; the learner does not look at it."""
    state: Arrays = field(default_factory=dict)  # each (C, B, ...), C = ceil(T / chunk)
    """Recurrent states before slots 0, chunk, 2 chunk, ..."""
    chunk: int = 1
    earns: Array = None  # type: ignore[assignment]  # (T, B, U)
    """Where the unit's reward and value count; not given: where it is alive."""

    def __post_init__(self) -> None:
        """Check shapes, and that what acts is whole."""
        if self.earns is None:
            object.__setattr__(self, "earns", self.alive)
        if self.log_prob.ndim != 3:
            raise ValueError(f"log_prob {self.log_prob.shape} must be (slots, columns, units)")
        units = self.log_prob.shape
        lead = units[:2]
        for name in UNIT_FIELDS:
            if getattr(self, name).shape != units:
                raise ValueError(f"{name} {getattr(self, name).shape} must have the shape of log_prob, {units}")
        for name in SLOT_FIELDS:
            if getattr(self, name).shape != lead:
                raise ValueError(f"{name} {getattr(self, name).shape} must be (slots, columns) = {lead}")
        for tree in TREE_FIELDS:
            for name, array in getattr(self, tree).items():
                if array.shape[:2] != lead:
                    raise ValueError(f"{tree}[{name!r}] {array.shape} must start with (slots, columns) = {lead}")
        if self.chunk < 1:
            raise ValueError(f"chunk={self.chunk} must be at least 1")
        for name, array in self.state.items():
            if array.shape[:2] != (self.chunks, lead[1]):
                raise ValueError(
                    f"state[{name!r}] {array.shape} must start with (chunks, columns) = {(self.chunks, lead[1])}"
                )
        self._check_values()

    def _check_values(self) -> None:
        if (self.valid[1:] & ~self.valid[:-1]).any():
            raise ValueError(
                "valid slots must come first in each column; a gap would join decisions that do not follow each other"
            )
        if (self.terminated & ~self.done).any():
            raise ValueError("terminated without done: set done wherever terminated is set")
        if (self.span < 0).any():
            raise ValueError(f"span {self.span.min()} must not be negative")
        if (self.alive & ~self.earns).any():
            raise ValueError("alive without earns: a unit that acts has a return; set earns wherever alive is set")
        earning = self.earning
        _check_finite("log_prob", self.log_prob, self.acts)
        for name in ("value", "reward"):
            _check_finite(name, getattr(self, name), earning)
        _check_finite("next_value", self.next_value, earning & ~self.terminated)

    @property
    def slots(self) -> int:
        """T: decisions a column can hold."""
        return int(self.log_prob.shape[0])

    @property
    def columns(self) -> int:
        """B: worlds."""
        return int(self.log_prob.shape[1])

    @property
    def units(self) -> int:
        """U: ratios in one decision."""
        return int(self.log_prob.shape[2])

    @property
    def chunks(self) -> int:
        """C: pieces a column is evaluated in; the last may be short."""
        return -(-self.slots // self.chunk)

    @property
    def acts(self) -> Array:
        """Where a unit really decided: alive and not padding, (T, B, U)."""
        acts: Array = self.alive & self.valid[:, :, None]
        return acts

    @property
    def earning(self) -> Array:
        """Where a unit's return runs: it earns, and the slot is not padding, (T, B, U)."""
        earning: Array = self.earns & self.valid[:, :, None]
        return earning

    @property
    def decisions(self) -> int:
        """Slots that are not padding."""
        return int(self.valid.sum())


Rollout = dict[str, RolloutBatch]
"""Named levels, each with its own clock, of one round."""


def check_version(rollout: Rollout, version: int, source: str = "the rollout") -> Rollout:
    """The rollout itself, if every level of it was made by `version`."""
    if not rollout:
        raise ValueError(f"{source} has no levels")
    foreign = {level: batch.version for level, batch in rollout.items() if batch.version != version}
    if foreign:
        raise VersionError(f"{source} must be of policy version {version}, but has {foreign}; collect it again")
    return rollout


def join_rounds(rounds: Sequence[Rollout], version: int) -> Rollout:
    """The shares of several collectors side by side, in the order given; all must be of `version`."""
    if not rounds:
        raise ValueError("no round to join; give at least one")
    for i, rollout in enumerate(rounds):
        check_version(rollout, version, f"share {i}")
        if rollout.keys() != rounds[0].keys():
            raise ValueError(f"share {i} has the levels {sorted(rollout)}, share 0 has {sorted(rounds[0])}")
    return {level: concatenate([rollout[level] for rollout in rounds]) for level in rounds[0]}


def concatenate(batches: Sequence[RolloutBatch]) -> RolloutBatch:
    """Join batches of one version side by side (more columns); shorter ones are padded at their end."""
    if not batches:
        raise ValueError("nothing to concatenate; give at least one batch")
    first = batches[0]
    for batch in batches[1:]:
        if batch.version != first.version:
            raise VersionError(
                f"cannot join decisions of policy versions {first.version} and {batch.version}: collect them again"
            )
        if batch.chunk != first.chunk or batch.units != first.units:
            raise ValueError(
                f"chunk and units must agree: {(first.chunk, first.units)} and {(batch.chunk, batch.units)}"
            )
    slots = max(batch.slots for batch in batches)
    joined: dict[str, Any] = {}
    for name in UNIT_FIELDS + SLOT_FIELDS:
        joined[name] = _beside([getattr(batch, name) for batch in batches], slots)
    for tree in (*TREE_FIELDS, "state"):
        trees = [getattr(batch, tree) for batch in batches]
        if any(t.keys() != trees[0].keys() for t in trees):
            raise ValueError(f"{tree} must have the same names in all batches, not {[sorted(t) for t in trees]}")
        rows = -(-slots // first.chunk) if tree == "state" else slots
        joined[tree] = {name: _beside([t[name] for t in trees], rows) for name in trees[0]}
    return RolloutBatch(version=first.version, chunk=first.chunk, **joined)


def select_columns(batch: RolloutBatch, columns: slice) -> RolloutBatch:
    """The decisions of some worlds; the batch itself if they are all of them."""
    if columns == slice(0, batch.columns):
        return batch
    changes: dict[str, Any] = {name: getattr(batch, name)[:, columns] for name in UNIT_FIELDS + SLOT_FIELDS}
    for tree in (*TREE_FIELDS, "state"):
        changes[tree] = {name: array[:, columns] for name, array in getattr(batch, tree).items()}
    return replace(batch, **changes)


def without_inputs(batch: RolloutBatch, keep: Collection[str] = ()) -> RolloutBatch:
    """The batch without what only its own learner looks at: observations, actions, masks, memories; but for `keep`."""
    trees = (*TREE_FIELDS, "state")
    kept = {tree: {name: a for name, a in getattr(batch, tree).items() if name in keep} for tree in trees}
    changes: dict[str, Any] = kept
    return replace(batch, **changes)


def with_zero_inputs(batch: RolloutBatch, like: RolloutBatch) -> RolloutBatch:
    """A bare batch with zeros where `like`, of other worlds, has something."""
    changes: dict[str, Any] = {}
    for tree in (*TREE_FIELDS, "state"):
        rows = -(-batch.slots // batch.chunk) if tree == "state" else batch.slots
        wanted = getattr(like, tree).items()
        zeros = {name: np.zeros((rows, batch.columns, *a.shape[2:]), a.dtype) for name, a in wanted}
        changes[tree] = {**zeros, **getattr(batch, tree)}
    return replace(batch, **changes)


def group_columns(batch: RolloutBatch, groups: int) -> list[slice]:
    """The columns of each group, for equal groups of neighbouring worlds."""
    if batch.columns % groups:
        raise ValueError(f"{batch.columns} worlds cannot be {groups} groups of equal size")
    size = batch.columns // groups
    return [slice(i * size, (i + 1) * size) for i in range(groups)]


def _beside(arrays: Sequence[Array], rows: int) -> Array:
    padded = [
        np.concatenate([a, np.zeros((rows - len(a), *a.shape[1:]), a.dtype)]) if len(a) < rows else a for a in arrays
    ]
    return np.concatenate(padded, axis=1)


def _check_finite(name: str, array: Array, where: Array) -> None:
    bad = where & ~np.isfinite(array)
    if bad.any():
        slot, column, unit = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} is {array[slot, column, unit]} at slot {slot}, column {column}, unit {unit}, and at "
            f"{int(bad.sum()) - 1} more places where a unit acts; it must be finite"
        )
