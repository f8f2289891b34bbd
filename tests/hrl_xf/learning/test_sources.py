"""Sources: the same numbers for the same rows, in any order, held in memory or loaded again."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.dataset.datasets import l4_of, macro_of, micro_of
from echelon.hrl_xf.dataset.thread_tables import REPRESENTABLE
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.learning.losses import l3_loss
from echelon.hrl_xf.learning.sources import L2Source, L3Source, alphas_of, shuffled
from echelon.hrl_xf.state.day_state import REJECT
from tests.hrl_xf.layers.examples import small_l3, teacher_alpha

pytestmark = pytest.mark.numeric


def test_the_sources_give_what_the_data_say(data: TournamentData, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held in memory or made for each batch, in any order: the same numbers for the same decisions."""
    micro = micro_of(data)
    held = L3Source(micro)
    monkeypatch.setattr("echelon.hrl_xf.learning.sources.IN_MEMORY", 0)
    made = L3Source(micro)
    layer = small_l3().eval()
    rng = np.random.default_rng(0)
    batches = held.epoch(50, rng)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(micro)))
    for at in batches[:6]:
        a, b = held.load(at), made.load(at)
        assert torch.equal(a.rows.inputs.context, b.rows.inputs.context)
        assert torch.equal(a.rows.offer_counts, b.rows.offer_counts)
        torch.testing.assert_close(l3_loss(layer, a)[0], l3_loss(layer, b)[0])
    batch = micro.batch(np.arange(len(micro)))
    d = batch.decisions
    assert np.array_equal(held.column("offer_counts"), (d.op == REJECT) & (d.l1_rules == REPRESENTABLE))
    assert np.array_equal(held.column("op"), batch.decisions.op)


def test_threads_keep_their_histories_in_any_order_of_logs(data: TournamentData) -> None:
    """A cache that grew agent by agent holds logs in another order than the data set names them."""
    micro = micro_of(data)
    later = np.argsort(-micro.thread, kind="stable")  # the last thread first, its decisions in order
    source = L3Source(micro.pick(later))
    for at in source.epoch(50, np.random.default_rng(0))[:4]:
        b = source.load(at)
        for i, row in enumerate(later[at].tolist()):
            alone = micro.batch(np.array([row]))
            history = int(alone.decisions.history[0])
            assert int(b.rows.history[i]) == history
            assert np.array_equal(b.tokens[b.rows.thread[i], :history], alone.threads.tokens[0, :history])


def test_days_held_in_memory_equal_those_loaded_again(data: TournamentData, monkeypatch: pytest.MonkeyPatch) -> None:
    macro = macro_of(data)
    held = L2Source(macro)
    monkeypatch.setattr("echelon.hrl_xf.learning.sources.IN_MEMORY", 0)
    made = L2Source(macro)
    at = np.random.default_rng(0).permutation(len(macro))[:40]
    a, b = held.load(at), made.load(at)
    for f in fields(a):
        column = getattr(a, f.name)
        assert column.dtype == getattr(b, f.name).dtype, f.name
        assert torch.equal(column, getattr(b, f.name)), f.name
    assert a.mask.any()
    assert not a.mask.all()


@given(n=st.integers(1, 200), size=st.integers(1, 40), seed=st.integers(0, 99))
def test_an_epoch_has_every_row_once(n: int, size: int, seed: int) -> None:
    batches = shuffled(n, size, np.random.default_rng(seed))
    assert [len(b) for b in batches[:-1]] == [size] * (len(batches) - 1)
    assert sorted(np.concatenate(batches)) == list(range(n))


def test_an_epoch_of_days_is_in_random_order_and_batches_share_no_memory(data: TournamentData) -> None:
    macro = macro_of(data)
    source = L2Source(macro)
    first, second = (source.epoch(16, np.random.default_rng(seed)) for seed in (0, 1))
    assert sorted(np.concatenate(first)) == list(range(len(macro)))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))
    assert (np.diff(np.concatenate(first)) == 1).mean() < 0.1, "days of a log are not seen one after the other"
    batch = source.load(first[0])
    before = batch.X_temporal.clone()
    source.load(first[1])
    assert torch.equal(batch.X_temporal, before)


def test_alphas_are_the_teachers(data: TournamentData) -> None:
    alpha = alphas_of(data)
    l4 = l4_of(data)
    for i in (0, 5, len(l4) - 1):
        sample = l4[i]
        wanted = teacher_alpha(sample.days, sample.thread_feat[:, 0].astype(np.float64))
        np.testing.assert_allclose(sample.alpha, wanted.astype(np.float32), rtol=1e-5)
        take = data.tables.store.take
        row = l4.rows[i : i + 1]
        first, size = int(take("set.first_member", row)[0]), int(take("set.n_members", row)[0])
        members = take("member.decision", np.arange(first, first + size))
        np.testing.assert_allclose(alpha[members], sample.alpha, rtol=1e-6)
