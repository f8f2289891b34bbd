"""Batches of random decisions, for tests that need one of any content."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.onpolicy.batch import RolloutBatch

Array = NDArray[Any]


def random_batch(slots: int = 4, columns: int = 3, units: int = 2, seed: int = 0, **changes: Any) -> RolloutBatch:
    """A batch that passes all checks; `changes` replace fields."""
    rng = np.random.default_rng(seed)
    shape = (slots, columns, units)
    done = rng.random(shape) < 0.3
    content: dict[str, Any] = {
        "version": 0,
        "observation": {"observation": rng.normal(size=(*shape, 3)).astype(np.float32)},
        "action": {"action": rng.integers(0, 4, shape)},
        "log_prob": rng.normal(size=shape).astype(np.float32) - 2,
        "value": rng.normal(size=shape).astype(np.float32),
        "next_value": rng.normal(size=shape).astype(np.float32),
        "reward": rng.normal(size=shape).astype(np.float32),
        "terminated": done & (rng.random(shape) < 0.5),
        "done": done,
        "alive": np.ones(shape, bool),
        "span": rng.integers(1, 5, (slots, columns)),
        "valid": np.ones((slots, columns), bool),
        "reset": np.zeros((slots, columns), bool),
    }
    return RolloutBatch(**{**content, **changes})
