"""The worlds' random streams: the published generator, independence of the batch, and sane distributions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws import examples

from echelon.envs.random_streams import WorldStreams, episode_seed, world_seeds


def test_bits_are_splitmix64s() -> None:
    streams = WorldStreams([0])
    streams.state[:] = 1234567  # the reference implementation's first outputs for this state
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert streams.bits(slice(None), 3)[0].tolist() == expected[:3]
    assert streams.bits(slice(None), 1)[0].tolist() == expected[3:]


@given(st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=6), st.integers(1, 7), st.integers(1, 7))
@examples(30)
def test_a_world_draws_the_same_in_any_company(seeds: list[int], first: int, second: int) -> None:
    together = WorldStreams(seeds)
    a, b = together.uniform(slice(None), first), together.normal(slice(None), second)
    for i, seed in enumerate(seeds):
        alone = WorldStreams([seed])
        np.testing.assert_array_equal(alone.uniform(slice(None), first)[0], a[i])
        np.testing.assert_array_equal(alone.normal(slice(None), second)[0], b[i])


def test_drawing_for_some_worlds_leaves_the_others_alone() -> None:
    streams, reference = WorldStreams([1, 2, 3]), WorldStreams([2])
    streams.uniform(np.array([0, 2]), 5)
    np.testing.assert_array_equal(streams.uniform(np.array([1]), 4), reference.uniform(slice(None), 4))


def test_a_uniform_float32_never_rounds_up_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = WorldStreams([1])
    monkeypatch.setattr(streams, "bits", lambda worlds, count: np.array([[0, 2**64 - 1]], np.uint64))
    low, high = streams.uniform32(slice(None), 2)[0]
    assert low == 0.0
    assert high == np.nextafter(np.float32(1), np.float32(0))
    assert np.float32(streams.uniform(slice(None), 2)[0, 1]) == 1.0  # why there are two of them


def test_moments_and_correlations() -> None:
    streams = WorldStreams(world_seeds(0, 400))
    u, z = streams.uniform(slice(None), 1000), streams.normal(slice(None), 1001)
    assert u.min() >= 0.0
    assert u.max() < 1.0
    # Standard errors with 400,000 draws: .00046 for the mean of u, .0016 for that of z, .0022 for its variance.
    assert abs(u.mean() - 0.5) < 0.002
    assert abs(u.var() - 1 / 12) < 0.001
    assert abs(z.mean()) < 0.007
    assert abs(z.var() - 1.0) < 0.01
    assert abs((z**4).mean() - 3.0) < 0.06
    # Neighbouring worlds and neighbouring draws are uncorrelated; 5 standard errors.
    assert abs(np.mean((u[:-1] - 0.5) * (u[1:] - 0.5))) < 5 / 12 / np.sqrt(u[1:].size)
    assert abs(np.mean((u[:, :-1] - 0.5) * (u[:, 1:] - 0.5))) < 5 / 12 / np.sqrt(u.size)


def test_integers_reach_both_ends_only() -> None:
    draws = WorldStreams([3]).integers(slice(None), 2000, 5)
    assert sorted(set(draws[0].tolist())) == [0, 1, 2, 3, 4]


def test_world_seeds_depend_on_the_index_alone() -> None:
    assert world_seeds(5, 8)[:3] == world_seeds(5, 3)
    assert len(set(world_seeds(5, 1000))) == 1000
    assert world_seeds(5, 3) != world_seeds(6, 3)
    assert max(world_seeds(0, 1000)) < 2**31
    assert world_seeds([4, 4], 2) == [4, 4]


def test_wrong_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="2 seeds for 3 worlds"):
        world_seeds([1, 2], 3)
    with pytest.raises(ValueError, match="seed=-1"):
        world_seeds(-1, 3)


def test_episode_seeds_start_at_the_worlds_own_and_differ() -> None:
    assert episode_seed(77, 0) == 77
    seeds = [episode_seed(world, k) for world in (1, 2, 3) for k in range(1, 300)]
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) >= 0
    assert max(seeds) < 2**31
