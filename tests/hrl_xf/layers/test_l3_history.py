"""Histories: causal, free of padding, and extended offer by offer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from echelon.hrl_xf.layers.l3_history import HistoryCache
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from tests.hrl_xf.layers.examples import tokens, wild
from tests.laws import examples
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric


@examples(20)
@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 2**31))
def test_padding_changes_nothing_and_later_offers_change_nothing_earlier(L: int, more: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    layer = wild(TemporalDecisionTransformer(width=16, heads=2), 1, 0.5)
    short, later = tokens(rng, 3, L), tokens(rng, 3, more)
    alone = layer.trunk(short, torch.ones(3, L, dtype=torch.bool))
    followed = layer.trunk(torch.cat([short, later], 1), torch.ones(3, L + more, dtype=torch.bool))
    assert_equal_but_for_rounding(followed[:, : L + 1], alone)
    mask = torch.arange(L + more).expand(3, -1) < L
    padded = layer.trunk(torch.cat([short, torch.full_like(later, torch.nan)], 1), mask)
    assert_equal_but_for_rounding(padded[:, : L + 1], alone)


def test_the_history_matters_and_its_order_too() -> None:
    layer = wild(TemporalDecisionTransformer(width=16, heads=2), 1, 0.5)
    told = tokens(np.random.default_rng(0), 1, 5)
    mask = torch.ones(1, 5, dtype=torch.bool)
    swapped = told[:, [1, 0, 2, 3, 4]]
    assert (layer.trunk(told, mask)[0, 5] - layer.trunk(swapped, mask)[0, 5]).abs().max() > 1e-3


def tell_one(cache: HistoryCache, rows: NDArray[np.int64], told: torch.Tensor) -> None:
    """One more offer in each of these threads.  # (n,), (n, 4)"""
    cache.tell(rows, told.numpy()[:, None], np.ones(len(rows), np.int64))


def test_extending_a_cached_history_equals_the_full_pass() -> None:
    rng = np.random.default_rng(0)
    layer = wild(TemporalDecisionTransformer(width=16, heads=2, max_tokens=12), 1, 0.5)
    told = tokens(rng, 5, 12)
    full = layer.trunk(told, torch.ones(5, 12, dtype=torch.bool)).detach()
    cache = layer.new_cache(7)
    at = [6, 2, 3, 0, 5]  # rows of the cache, in no order
    length = np.zeros(5, np.int64)
    for _ in range(40):  # threads speak at different times
        speaks = np.flatnonzero((rng.random(5) < 0.5) & (length < 12))
        tell_one(cache, np.array([at[i] for i in speaks], np.int64), told[speaks, length[speaks]])
        length[speaks] += 1
        assert_equal_but_for_rounding(cache.states(np.array(at)), full[np.arange(5), length])
    assert length.max() == 12
    cache.restart()
    assert_equal_but_for_rounding(cache.states(np.arange(7)), full[:1, 0].expand(7, -1))
    tell_one(cache, np.array([6]), told[3:4, 0])
    assert_equal_but_for_rounding(cache.states(np.array([6])), full[3:4, 1])


def test_several_offers_at_once_equal_one_by_one() -> None:
    rng = np.random.default_rng(3)
    layer = wild(TemporalDecisionTransformer(width=16, heads=2, max_tokens=12), 1, 0.5)
    told = tokens(rng, 4, 12).numpy()
    at, length, cache = np.array([3, 0, 4, 1]), np.zeros(4, np.int64), layer.new_cache(5)
    full = layer.trunk(torch.from_numpy(told), torch.ones(4, 12, dtype=torch.bool)).detach()
    for count in ([1, 3, 2, 1], [2, 1, 1, 4], [9, 1, 1, 1]):  # the longest of a thread's, up to what fits
        n = np.array(count)
        longest = max(count)
        upcoming = np.stack([told[i, length[i] + np.minimum(np.arange(longest), n[i] - 1)] for i in range(4)])
        cache.tell(at, upcoming, n)
        length += n
        assert_equal_but_for_rounding(cache.states(np.array(at)), full[np.arange(4), length])
    assert length.tolist() == [12, 5, 4, 6]


def test_a_hundred_rounds_forget_the_oldest_offers_as_in_training() -> None:
    """200 offers where 48 fit: play and the full pass agree at every length, and what is forgotten changes nothing."""
    rng = np.random.default_rng(5)
    layer = wild(TemporalDecisionTransformer(width=16, heads=2, layers=1), 1, 0.5)
    assert layer.trunk.max_tokens == 48
    told = tokens(rng, 2, 200)
    mask = torch.ones(2, 200, dtype=torch.bool)
    full = layer.trunk(told, mask).detach()
    short = layer.trunk(told[:, :48], mask[:, :48]).detach()
    assert_equal_but_for_rounding(full[:, :49], short)
    cache, done = layer.new_cache(2), 0
    while done < 200:
        n = min(int(rng.integers(1, 5)), 200 - done)
        cache.tell(np.array([0, 1]), told[:, done : done + n].numpy(), np.array([n, n]))
        done += n
        assert_equal_but_for_rounding(cache.states(np.array([0, 1])), full[:, done])
    other = told.clone()
    other[:, :152] = tokens(rng, 2, 152)
    assert_equal_but_for_rounding(layer.trunk(other, mask)[:, 200], full[:, 200])
    other[:, 152] = tokens(rng, 2, 1)[:, 0]
    assert (layer.trunk(other, mask)[:, 200] - full[:, 200]).abs().max() > 1e-4, "the last 48 are seen"
