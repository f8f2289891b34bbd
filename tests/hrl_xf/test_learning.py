"""Losses of batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from echelon.hrl_xf.batches import L3Source
from echelon.hrl_xf.data_pipeline import micro_of, open_tournament
from echelon.hrl_xf.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.learning import l3_loss, weigh
from echelon.hrl_xf.rewards import Advantages
from echelon.hrl_xf.tournament_data import TournamentData
from tests.hrl_xf.log_examples import LOGS

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TournamentData:
    return open_tournament(LOGS, "PenguinAgent", 1, cache_dir=tmp_path_factory.mktemp("cache"), quiet=True)


def small_l3() -> TemporalDecisionTransformer:
    torch.manual_seed(0)
    return TemporalDecisionTransformer(width=16, heads=2, layers=1, hidden=32)


def test_a_batchs_loss_is_the_mean_over_its_decisions(data: TournamentData) -> None:
    """One pass over many threads gives what one pass for each gives: threads and padding do not mix."""
    source, layer = L3Source(micro_of(data)), small_l3().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
        total = l3_loss(layer, source.load(np.arange(120)))[1]
        one_by_one = [l3_loss(layer, source.load(np.array([i])))[1] for i in range(120)]
    for name in ("loss", "nll_op", "nll_day", "nll_dq", "nll_dp"):
        assert total[name][0] == pytest.approx(sum(s[name][0] for s in one_by_one), rel=1e-3)
        assert total[name][1] == sum(s[name][1] for s in one_by_one)


def test_weights_multiply_the_loss(data: TournamentData) -> None:
    source, layer = L3Source(micro_of(data)), small_l3().eval()
    at = np.arange(100)
    plain = l3_loss(layer, source.load(at))[0]
    source.weight = torch.full((len(source),), 3.0)
    torch.testing.assert_close(l3_loss(layer, source.load(at))[0], 3 * plain)
    fitted = weigh(source, None, 0.5, 20.0)
    assert isinstance(fitted, Advantages)
    won = source.column("reward") > 0
    assert source.weight[torch.as_tensor(won)].mean() > source.weight[torch.as_tensor(~won)].mean()
