"""The worlds of a run, made from its options."""

from __future__ import annotations

from collections.abc import Sequence

from echelon.envs.make import is_built_in, make_vector_env
from echelon.envs.vector import VectorEnv
from echelon.hmasd.config import HMASDConfig


def make_worlds(config: HMASDConfig, count: int, seed: int | Sequence[int] = 0, workers: int | None = 0) -> VectorEnv:
    """`count` worlds. `workers`: processes of a third-party environment, None for one per core; ours have none."""
    its_workers = None if is_built_in(config.env) else workers
    return make_vector_env(config.env, count, seed, workers=its_workers, **config.environment_options())
