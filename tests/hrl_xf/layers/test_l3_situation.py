"""What L3 knows is the same from the tables of a data set and from L1 in play."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from echelon.hrl_xf.dataset.datasets import MicroDataset
from echelon.hrl_xf.dataset.tournament import open_tournament
from echelon.hrl_xf.layers.l3_situation import P_SIZE, Q_SIZE, Situation
from echelon.hrl_xf.learning.sources import situation_of
from echelon.hrl_xf.networks.l3_inputs import legal_of
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.runtime.arrays import Floats
from tests.hrl_xf.layers.examples import played
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, data_of, log_of

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("path", [PENGUIN_FIRST, PENGUIN_MIDDLE], ids=["first", "middle"])
def test_from_the_data_set_as_in_play(path: Path, tmp_path: Path) -> None:
    data = data_of(tmp_path, [log_of(path)])
    rows = MicroDataset(data, data.rows("decision"))
    batch = rows.batch(np.arange(len(rows)))
    offline = situation_of(batch, np.full(len(rows), 0.2, np.float32))
    live = played(path, L1SafetyLayer()).situation
    assert len(offline) == len(live)

    def table(s: Situation) -> Floats:
        legal = legal_of(s, "residual", Q_SIZE, P_SIZE)
        columns = [
            s.relative_time, s.seller, s.on_table, np.where(s.on_table[:, None], s.seen, 0), s.legal_baseline, s.issues,
            s.B_free, s.safe * s.open, s.open, s.baseline, s.l1_op, s.spot, s.acceptable, legal.day, legal.ops(),
        ]  # fmt: skip
        found = np.concatenate([np.asarray(c, np.float64).reshape(len(s), -1) for c in columns], axis=1)
        sorted_rows: Floats = found[np.lexsort(found.T)]
        return sorted_rows

    assert np.array_equal(table(offline), table(live))


def test_last_offers_are_those_before_the_decision(tmp_path: Path) -> None:
    data = open_tournament(PENGUIN_MIDDLE.parent, "PenguinAgent", 1, cache_dir=tmp_path, quiet=True)
    rows = MicroDataset(data, data.rows("decision"))
    b = rows.batch(np.arange(len(rows)))
    s = situation_of(b, np.zeros(len(rows), np.float32))
    checked = 0
    history = b.decisions.history
    for i in np.flatnonzero(history > 1)[:200]:
        whose = b.threads.tokens[b.thread[i], : history[i], 3]
        offers = b.threads.offers[b.thread[i], : history[i]]
        for mine, offer in ((0, s.seen[i]), (1, s.own[i])):
            said = offers[whose == mine]
            assert offer.tolist() == (said[-1].tolist() if len(said) else [0, 0, 0])
            checked += len(said) > 0
        assert s.last_mine[i] == (whose[-1] == 1)
    assert checked > 100


def test_columns_of_different_lengths_are_refused() -> None:
    live = played(PENGUIN_FIRST, L1SafetyLayer()).situation
    with pytest.raises(ValueError, match="one length"):
        replace(live, alpha=live.alpha[:-1])
