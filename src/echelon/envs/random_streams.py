"""One random stream for each world, drawn for many worlds at once.

World b holds the state of a SplitMix64 generator (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
2014), so k numbers for any set of worlds are a few array operations, and a world's numbers depend on its own seed and
on what it drew before, never on its neighbours. `np.random.Generator` objects would need a Python loop over worlds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from echelon.runtime.arrays import Array

U64 = NDArray[np.uint64]
MAX_SEED = 2**31  # what every third-party environment takes

_GAMMA = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, odd: visits every state
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11, _S40 = (np.uint64(k) for k in (30, 27, 31, 11, 40))


def mix64(z: U64) -> U64:
    """SplitMix64's output function: a bijection of 64-bit numbers that scatters neighbours."""
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


def world_seeds(seed: int | Sequence[int], num_envs: int) -> list[int]:
    """The seed of each world: the given ones, or derived from one root seed by the world's index alone."""
    if isinstance(seed, int | np.integer):
        check_seed(int(seed))
        sequences = (np.random.SeedSequence(int(seed), spawn_key=(b,)) for b in range(num_envs))
        return [int(s.generate_state(1)[0]) % MAX_SEED for s in sequences]
    seeds = [int(s) for s in seed]
    if len(seeds) != num_envs:
        raise ValueError(f"{len(seeds)} seeds for {num_envs} worlds; give one seed per world, or one int for all")
    for s in seeds:
        check_seed(s)
    return seeds


def check_seed(seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed={seed} must be in 0 .. 2**63 - 1")


def episode_seed(world_seed: int, episode: int) -> int:
    """The seed of a world's episode: the first one is the world's own, later ones are derived from it."""
    if episode == 0:
        return world_seed
    state = np.array([world_seed], dtype=np.uint64) + np.array([episode], dtype=np.uint64) * _GAMMA
    return int(mix64(mix64(state))[0]) % MAX_SEED


class WorldStreams:
    """The random streams of B worlds; `state` is all there is to save."""

    def __init__(self, seeds: Sequence[int]) -> None:
        # Mixed first, so that near seeds start far apart on the one cycle all streams share.
        self.state = mix64(np.array(seeds, dtype=np.uint64) ^ _GAMMA)  # (B,)

    def bits(self, worlds: slice | Array, count: int) -> U64:
        """The next `count` 64-bit numbers of each of these worlds."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * _GAMMA
        numbers = mix64(self.state[worlds, None] + steps)  # (W, count)
        self.state[worlds] += steps[-1]
        return numbers

    def uniform(self, worlds: slice | Array, count: int) -> NDArray[np.float64]:
        """Uniform in [0, 1), 53 bits."""
        return (self.bits(worlds, count) >> _S11).astype(np.float64) * 2.0**-53  # (W, count)

    def uniform32(self, worlds: slice | Array, count: int) -> NDArray[np.float32]:
        """Uniform in [0, 1) as float32, 24 bits: rounding 53 bits to float32 would now and then give 1."""
        return (self.bits(worlds, count) >> _S40).astype(np.float32) * np.float32(2.0**-24)  # (W, count)

    def integers(self, worlds: slice | Array, count: int, below: int) -> NDArray[np.int64]:
        """Uniform in 0 .. below − 1 (bias below 2**-53 × below: negligible)."""
        return (self.uniform(worlds, count) * below).astype(np.int64)  # (W, count)

    def normal(self, worlds: slice | Array, count: int) -> NDArray[np.float64]:
        """Standard normal, by Box and Muller: pairs (r cos φ, r sin φ) with r = √(−2 ln(1 − u))."""
        half = (count + 1) // 2
        u = self.uniform(worlds, 2 * half)  # (W, 2 half)
        r, phi = np.sqrt(-2.0 * np.log1p(-u[:, :half])), 2.0 * np.pi * u[:, half:]
        return np.concatenate([r * np.cos(phi), r * np.sin(phi)], axis=1)[:, :count]  # (W, count)
