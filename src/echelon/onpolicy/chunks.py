"""A batch as tensors ready for learning: cut into chunks, converted once per update, padding left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.onpolicy.aligned import as_tensor
from echelon.onpolicy.batch import RolloutBatch
from echelon.runtime.arrays import Array

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Chunks:
    """M pieces of L decisions each; a feed-forward level has L = 1 and one piece for each decision."""

    observation: Tensors  # each (L, M, ...)
    action: Tensors  # each (L, M, ...)
    mask: Tensors  # each (L, M, ...)
    state: Tensors  # each (M, ...): recurrent states before the first decision
    reset: Tensor  # (L, M): the state is zeroed before this decision
    log_prob: Tensor  # (L, M, U)
    value: Tensor  # (L, M, U) in the critic's units
    advantage: Tensor  # (L, M, U)
    target: Tensor  # (L, M, U) in the critic's units
    acts: Tensor  # (L, M, U)
    earns: Tensor  # (L, M, U): the value is learnt here

    def __len__(self) -> int:
        """M."""
        return int(self.reset.shape[1])

    def to(self, device: torch.device) -> Chunks:
        """The same on another device."""
        moved = self._map(lambda tensor: tensor.to(device))
        return replace(moved, state={name: tensor.to(device) for name, tensor in self.state.items()})

    def select(self, index: Tensor) -> Chunks:
        """The pieces at `index`."""
        chosen = self._map(lambda tensor: tensor.index_select(1, index))
        return replace(chosen, state={name: tensor.index_select(0, index) for name, tensor in self.state.items()})

    def _map(self, change: Callable[[Tensor], Tensor]) -> Chunks:
        """Every tensor changed, but for the recurrent states."""
        changed: dict[str, Any] = {}
        for name, part in vars(self).items():
            if name != "state":
                whole = isinstance(part, Tensor)
                changed[name] = change(part) if whole else {key: change(tensor) for key, tensor in part.items()}
        return replace(self, **changed)


def to_chunks(batch: RolloutBatch, advantage: Array, target: Array) -> Chunks:
    """Chunks of a batch with its advantages and value targets (T, B, U); pieces in which no unit acts are left out."""
    length = min(batch.chunk, batch.slots)
    acts = _pieces(batch.acts, batch.chunk, length)
    used = np.flatnonzero(acts.any((0, 2)))
    keep = None if len(used) == acts.shape[1] else torch.from_numpy(used)

    def tensor(array: Array) -> Tensor:
        exact = array.astype(np.float32) if array.dtype == np.float64 else array
        whole = as_tensor(_pieces(exact, batch.chunk, length))
        return whole if keep is None else whole.index_select(1, keep)

    def start(array: Array) -> Tensor:
        whole = as_tensor(array.reshape(-1, *array.shape[2:]))  # (C, B, ...) -> (C*B, ...)
        return whole if keep is None else whole.index_select(0, keep)

    return Chunks(
        observation={name: tensor(array) for name, array in batch.observation.items()},
        action={name: tensor(array) for name, array in batch.action.items()},
        mask={name: tensor(array) for name, array in batch.mask.items()},
        state={name: start(array) for name, array in batch.state.items()},
        reset=tensor(batch.reset),
        log_prob=tensor(batch.log_prob),
        value=tensor(batch.value),
        advantage=tensor(advantage),
        target=tensor(target),
        acts=tensor(batch.acts),
        earns=tensor(batch.earning),
    )


def _pieces(array: Array, chunk: int, length: int) -> Array:
    """(T, B, ...) -> (L, C*B, ...); piece c*B + b starts at slot c*chunk of column b; a short one ends in 0."""
    slots, columns = array.shape[:2]
    if length == 1:
        return np.ascontiguousarray(array).reshape(1, slots * columns, *array.shape[2:])
    starts = range(0, slots, chunk)
    out = np.zeros((length, len(starts) * columns, *array.shape[2:]), array.dtype)
    for c, begin in enumerate(starts):
        piece = array[begin : begin + chunk]
        out[: len(piece), c * columns : (c + 1) * columns] = piece
    return out
