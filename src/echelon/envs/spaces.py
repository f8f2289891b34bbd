"""What one agent sees as numbers, and its numbers as what the environment takes: the same in training and in use.

A form is a plain description of a space. It is kept in every checkpoint, so that a loaded agent treats observations as
training did, without the environment. Discrete values become one-hot numbers, pictures (uint8) are divided by their
upper bound, nested spaces are put side by side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Literal

import numpy as np

from echelon.runtime.arrays import Array, Bools, Float32

FormKind = Literal["box", "discrete", "binary", "dict", "tuple", "masked"]


@dataclass(frozen=True)
class Form:
    """How one observation becomes numbers. `discrete` is one or several whole numbers, each one-hot."""

    kind: FormKind
    shape: tuple[int, ...] = ()
    """of a box or of binary numbers"""
    scale: float = 1.0
    """what a box is divided by"""
    counts: tuple[int, ...] = ()
    """choices of each discrete number"""
    start: tuple[int, ...] = ()
    """the least value of each discrete number"""
    parts: tuple[tuple[str, Form], ...] = ()
    """of a dict or a tuple; of `masked` the observation without its action mask"""

    @property
    def width(self) -> int:
        """How many numbers it is."""
        if self.kind == "discrete":
            return sum(self.counts)
        if self.kind in ("box", "binary"):
            return math.prod(self.shape)
        return sum(part.width for _, part in self.parts)

    @property
    def raw(self) -> bool:
        """The numbers are those of the observation itself."""
        return self.kind == "binary" or (self.kind == "box" and self.scale == 1.0)

    def numbers(self, value: Any) -> Float32:
        """The observation as float32 (width,); an error if it is not of this form."""
        if self.kind == "discrete":
            return self._one_hot(value)
        if self.kind in ("box", "binary"):
            array = np.asarray(value, dtype=np.float32)
            if array.size != self.width:
                raise ValueError(f"an observation of shape {array.shape} where {self.shape} was expected")
            return array.reshape(-1) / np.float32(self.scale)
        return np.concatenate([part.numbers(self._part(name, value)) for name, part in self.parts])

    def mask(self, value: Any) -> Any:
        """The action mask that comes with the observation, or None."""
        return value["action_mask"] if self.kind == "masked" else None

    def _part(self, name: str, value: Any) -> Any:
        if self.kind == "tuple":
            if len(value) != len(self.parts):
                raise ValueError(f"an observation of {len(value)} parts where {len(self.parts)} were expected")
            return value[int(name)]
        if not isinstance(value, Mapping) or name not in value:
            raise ValueError(f"an observation without {name!r}; it must have {[n for n, _ in self.parts]}")
        return value[name]

    def _one_hot(self, value: Any) -> Float32:
        chosen = np.asarray(value).reshape(-1)
        if chosen.size != len(self.counts) or chosen.dtype.kind not in "iub":
            raise ValueError(f"an observation {value!r} where {len(self.counts)} whole numbers were expected")
        out, at = np.zeros(self.width, np.float32), 0
        for number, count, start in zip(chosen.astype(np.int64), self.counts, self.start, strict=True):
            if not 0 <= number - start < count:
                raise ValueError(f"an observation of {number} where {start} .. {start + count - 1} was expected")
            out[at + number - start] = 1.0
            at += count
        return out


@dataclass(frozen=True)
class ActionForm:
    """How the policy's choice becomes an action: several whole numbers are one choice among all combinations."""

    kind: Literal["box", "discrete"]
    dtype: str
    shape: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    """choices of each discrete number; one for a plain Discrete"""
    start: tuple[int, ...] = ()
    single: bool = False
    """a plain Discrete: the environment takes an int, not an array"""

    @property
    def choices(self) -> int:
        """Combinations of the discrete numbers."""
        return math.prod(self.counts)

    def to_env(self, action: Array) -> Any:
        """What the environment takes, from one row of the arrays' actions (with any padding)."""
        if self.kind == "box":
            numbers = action[: math.prod(self.shape)].reshape(self.shape)
            return (np.rint(numbers) if np.dtype(self.dtype).kind in "iu" else numbers).astype(self.dtype)
        if self.single:
            return int(action) + self.start[0]
        parts = np.unravel_index(int(action), self.counts)
        return (np.array(parts) + self.start).astype(self.dtype).reshape(self.shape)

    def allowed(self, mask: Any) -> Bools:
        """A mask over combinations, (choices,), from one of them all or from a tuple of one for each number."""
        if isinstance(mask, tuple):
            flat = np.concatenate([np.asarray(part, dtype=np.bool_).reshape(-1) for part in mask])
        else:
            flat = np.asarray(mask, dtype=np.bool_).reshape(-1)
            if flat.size == self.choices:
                return flat
        if flat.size != sum(self.counts):
            raise ValueError(f"an action mask of {flat.size} numbers; it must have {self.choices}")
        edges = np.cumsum((0, *self.counts))
        each = [flat[a:b] for a, b in pairwise(edges)]
        return np.array([all(choice) for choice in product(*each)], dtype=np.bool_)
