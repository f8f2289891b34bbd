"""One root seed, and a seed per task derived from its path: 1 worker and 8 workers give the same result.

A path consists of names and indices: `task_seed(7, "world", 3)`. Different paths give independent
streams (numpy's SeedSequence spawn keys); the same path gives the same seed in every process, on every
machine and Python version. Nothing here depends on `hash()`.
"""

from __future__ import annotations

import hashlib
import random
import sys

import numpy as np


def sequence(root: int, *path: str | int) -> np.random.SeedSequence:
    """The seed sequence of a path below `root`."""
    if isinstance(root, bool) or not isinstance(root, int) or not 0 <= root < 2**64:
        raise ValueError(f"root seed {root!r} is not an integer in [0, 2**64); use e.g. 0")
    return np.random.SeedSequence(root, spawn_key=tuple(word for element in path for word in _words(element)))


def task_seed(root: int, *path: str | int) -> int:
    """A seed of 63 bits for the task at `path`."""
    return int(sequence(root, *path).generate_state(1, np.uint64)[0]) >> 1


def rng(root: int, *path: str | int) -> np.random.Generator:
    """A generator for the work at `path`."""
    return np.random.Generator(np.random.PCG64(sequence(root, *path)))


def seed_everything(seed: int) -> None:
    """Seed the global generators of random and numpy, and of torch if it is loaded.

    Only for foreign code that reads them, such as scml's worlds; our code takes a generator as an argument.
    """
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed {seed} is not in [0, 2**63); make it with task_seed()")
    # Each has its own: random and numpy are one algorithm and would draw the same numbers from one
    # seed, and torch's CPU generator looks at the low 32 bits only.
    random.seed(task_seed(seed, "random"))
    np.random.seed(sequence(seed, "numpy").generate_state(4))
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(task_seed(seed, "torch"))


def _words(element: str | int) -> tuple[int, int, int]:
    """Three 32-bit words: a tag and 64 bits. A fixed length keeps ("a", "b") apart from ("ab",)."""
    if isinstance(element, str):
        number = int.from_bytes(hashlib.sha256(element.encode()).digest()[:8], "little")
        return 1, number & 0xFFFFFFFF, number >> 32
    if isinstance(element, bool) or not isinstance(element, int) or not 0 <= element < 2**63:
        raise ValueError(f"path element {element!r} is neither a string nor an integer in [0, 2**63)")
    return 0, element & 0xFFFFFFFF, element >> 32
