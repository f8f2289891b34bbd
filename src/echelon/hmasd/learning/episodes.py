"""Results of episodes, with whatever numbers the environment tells about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelon.envs.vector import VectorStep
from echelon.runtime.arrays import Array


@dataclass(frozen=True)
class Episodes:
    """Episodes that ended in a round."""

    returns: Array  # (E,)
    lengths: Array  # (E,)
    metrics: Mapping[str, Array]  # each (E,): what the last step's info told by name; NaN where it told nothing

    @classmethod
    def of(cls, now: VectorStep, worlds: Array) -> Episodes:
        """Those that ended in this step in `worlds` (indices)."""
        told = {
            name: array[worlds].astype(np.float64)
            for name, array in now.info.items()
            if name not in ("episode_return", "episode_length") and array.ndim == 1 and array.dtype.kind in "fiub"
        }
        return cls(now.info["episode_return"][worlds], now.info["episode_length"][worlds], told)

    @classmethod
    def join(cls, parts: Sequence[Episodes]) -> Episodes:
        """All of them, in the order given."""
        if not parts:
            return cls(np.zeros(0), np.zeros(0, np.int64), {})
        names = sorted({name for part in parts for name in part.metrics})
        untold = [np.full(len(part.returns), np.nan) for part in parts]
        return cls(
            np.concatenate([p.returns for p in parts]),
            np.concatenate([p.lengths for p in parts]),
            {
                name: np.concatenate([p.metrics.get(name, nan) for p, nan in zip(parts, untold, strict=True)])
                for name in names
            },
        )

    @property
    def success(self) -> Array | None:
        """(E,), where the environment knows success: a number from 0 to 1."""
        told = self.metrics.get("success")
        return None if told is None or not ((told >= 0) & (told <= 1)).all() else told

    def means(self) -> dict[str, float]:
        """The mean of every other metric over the episodes that told it."""
        named = {name: told[~np.isnan(told)] for name, told in self.metrics.items()}
        success = () if self.success is None else ("success",)
        return {name: float(told.mean()) for name, told in named.items() if len(told) and name not in success}
