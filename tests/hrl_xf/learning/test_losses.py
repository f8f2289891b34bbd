"""Losses of batches."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

from echelon.hrl_xf.dataset.datasets import macro_of, micro_of
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.layers.l3_play import View
from echelon.hrl_xf.layers.l3_situation import Situation
from echelon.hrl_xf.learning.advantages import Advantages, outcomes_of
from echelon.hrl_xf.learning.fit import fit
from echelon.hrl_xf.learning.losses import l2_loss, l3_loss, weigh
from echelon.hrl_xf.learning.sources import L2Source, L3Batch, L3Rows, L3Source, in_order, shuffled, take
from echelon.hrl_xf.learning.task import FitSettings, FitTask
from echelon.hrl_xf.networks.day_critic import DayCritic
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l3_inputs import L3Inputs
from echelon.hrl_xf.state.day_state import ACCEPT, REJECT
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.runtime.arrays import Ints
from tests.hrl_xf.layers.examples import played, small_l3, tokens
from tests.hrl_xf.log_examples import PENGUIN_MIDDLE

pytestmark = pytest.mark.numeric


def test_l2_reports_errors_in_pieces_and_currency_of_the_numbers_that_count(data: TournamentData) -> None:
    source, layer = L2Source(macro_of(data)), HorizonManagerPPO()
    b = source.load(np.arange(len(source)))
    loss, sums = l2_loss("log1p", 3.0)(layer, b)
    goal = layer(b.x_static, b.X_temporal, b.x_role, b.spot).goal.detach()
    each = {"q": [], "p": []}  # type: dict[str, list[float]]
    for row, column in (b.mask > 0).nonzero().tolist():
        each["qp"[column % 2]].append(float((goal - b.goal)[row, column]))
    for name, errors in each.items():
        error, n = sums[f"mae_{name}"]
        assert n == len(errors) < len(b.goal) * 8
        assert error == pytest.approx(np.abs(errors).sum(), rel=1e-4)
    total, n = sums["loss"]
    assert total / n == pytest.approx(loss.item())
    assert loss.item() == pytest.approx((3 * sums["loss_q"][0] + sums["loss_p"][0]) / (2 * n), rel=1e-5)
    assert sums["loss_p"][0] / n == pytest.approx(np.mean(np.square(each["p"])), rel=1e-4)
    with pytest.raises(ValueError, match="q_weight=0"):
        l2_loss(q_weight=0.0)(layer, b)


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
    outcomes = outcomes_of(micro_of(data), DayCritic())
    advantages = Advantages.fit(outcomes)
    weigh(source, outcomes, advantages)
    better = torch.as_tensor(advantages.advantage(outcomes) > 0)
    assert source.weight[better].min() > 1 > source.weight[~better].max()
    assert torch.equal(source.load(at).weight, source.weight[:100])  # type: ignore[arg-type]


class Memories:
    """Negotiations alike in all but their offers, where the expert's answer is the `place`-th offer's price: high or
    low. The context is that of one real decision, the same everywhere: only the history can tell."""

    def __init__(self, n: int, place: int, seed: int) -> None:
        situation = played(PENGUIN_MIDDLE, L1SafetyLayer()).situation
        legal = L3Inputs.of(situation, "residual").legal
        row = int((legal.accept & legal.reject).nonzero()[0, 0])
        same = Situation(**{f.name: getattr(situation, f.name)[np.full(n, row)] for f in fields(situation)})
        self.inputs = L3Inputs.of(same, "residual")
        self.tokens = tokens(np.random.default_rng(seed), n, 6)
        self.op = torch.where(self.tokens[:, place, 1] > 0.5, ACCEPT, REJECT)

    def __len__(self) -> int:
        return len(self.op)

    def load(self, at: Ints) -> L3Batch:
        n, no, zero = len(at), torch.zeros(len(at), dtype=torch.bool), torch.zeros(len(at), dtype=torch.long)
        rows = L3Rows(
            inputs=take(self.inputs, torch.as_tensor(at)), thread=torch.arange(n), history=torch.full((n,), 6),
            op=self.op[at], day=zero, dq=zero, dp=zero, op_counts=~no, offer_counts=no,
        )  # fmt: skip
        return L3Batch(self.tokens[at], torch.ones(n, 6, dtype=torch.bool), rows)

    def epoch(self, batch_size: int, rng: np.random.Generator | None) -> list[Ints]:
        return in_order(len(self), batch_size) if rng is None else shuffled(len(self), batch_size, rng)


@pytest.mark.parametrize(("view", "place"), [("all", 0), ("all", 3), ("context", 0), ("last_token", 0)])
def test_information_in_an_earlier_offer_is_learnt_and_not_by_the_controls(
    view: View, place: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    layer = TemporalDecisionTransformer(width=16, heads=2, layers=1, hidden=32, view=view)
    task = FitTask("l3_bc", layer, Memories(1024, place, 1), Memories(256, place, 2), l3_loss, "memories")
    settings = FitSettings(epochs=12, batch_size=64, lr=3e-3, average=0.0, warmup_steps=20, save_every=100)
    *_, last = fit(task, settings, tmp_path)
    if view == "all":
        assert last.val["acc_op"] > 0.85
    else:
        assert last.val["acc_op"] < 0.65
