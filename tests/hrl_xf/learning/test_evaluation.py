"""`echelon hrl evaluate` on real logs: controls beside every layer, and L3 that learns beats the last-token control."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.hrl_xf.commands.evaluate import lines, run
from echelon.hrl_xf.commands.train import run as train
from echelon.hrl_xf.dataset.datasets import micro_of
from echelon.hrl_xf.dataset.goal_backfill import with_goals
from echelon.hrl_xf.dataset.tournament import open_tournament
from echelon.hrl_xf.layers.rules import HeuristicExecutor
from echelon.hrl_xf.learning.evaluation import rule_figures
from echelon.hrl_xf.learning.sources import L3Source, alphas_of, situation_of
from echelon.hrl_xf.options.train import EvaluateOptions
from echelon.hrl_xf.state.day_state import REJECT
from tests.hrl_xf.log_examples import LOGS, train_options


@pytest.fixture(scope="module")
def trained(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All the worlds train: what is tested is that figures and controls are right, not that so few worlds suffice."""
    folder = tmp_path_factory.mktemp("run")
    shared: dict[str, Any] = {
        "data_dir": LOGS,
        "cache_dir": cache,
        "num_workers": 1,
        "quiet": True,
    }
    options = train_options(
        **shared, output_dir=folder, val_ratio=0.0, test_ratio=0.0, split_seed=2, l2_epochs=10, l3_epochs=15,
        l4_epochs=4, l2_batch_size=16, l3_batch_size=32, l4_batch_size=16, save_every=100,
    )  # fmt: skip
    assert train(options) == 0
    return {**shared, "output_dir": folder}


def figures(trained: dict[str, Any], layer: Any, split: Any = "train", **more: Any) -> Any:
    assert run(EvaluateOptions(**trained, layer=layer, split=split, **more)) == 0
    return json.loads((trained["output_dir"] / f"evaluation_{layer}_{split}.json").read_text())


def test_l2_beside_naive_predictors(trained: dict[str, Any]) -> None:
    found = figures(trained, "l2")
    assert {"network", "training mean", "yesterday's goal", "heuristic L2"} <= set(found)
    assert {"MAE", "RMSE", "mean_target", "mean_rel_err"} <= set(found["network"]["Q"])
    assert found["network"]["P"]["MAE"] < found["training mean"]["P"]["MAE"]
    targets = [found[name]["Q"]["mean_target"] for name in ("network", "heuristic L2")]
    assert targets[0] == targets[1]


def test_l3_beats_the_last_token_control_on_what_it_was_trained_on(trained: dict[str, Any]) -> None:
    found = figures(trained, "l3")
    network, control = found["network"], found["control: last token only"]
    assert network["nll_op"] < control["nll_op"]
    assert network["nll_op"] < found["control: most frequent answer"]["nll_op"]
    assert network["answers"]["accuracy"] == pytest.approx(network["acc_op"])
    assert network["answers"]["accuracy"] > found["L1"]["answers"]["accuracy"]
    assert 0 <= network["calibration"]["expected_calibration_error"] < 0.5
    assert 0 < found["decisions"]["with a choice, expert's legal"] <= 1
    apart = {name: found[name]["configurations"] for name in ("network", "control: last token only")}
    assert set(apart["network"]) == set(apart["control: last token only"])
    losses = [each["nll_op"] for each in apart["network"].values()]
    assert min(losses) - 1e-5 <= network["nll_op"] <= max(losses) + 1e-5, "the whole is a mean of its parts"


def test_l4_beside_uniform_and_the_teacher(trained: dict[str, Any]) -> None:
    found = figures(trained, "l4")
    assert found["teacher"]["rank_correlation"] == pytest.approx(1)
    assert found["uniform"]["rank_correlation"] is None  # it ranks nothing
    teacher, network = found["teacher"]["cross_entropy"], found["network"]["cross_entropy"]
    assert teacher <= network + 1e-6
    assert network < found["uniform"]["cross_entropy"]
    assert network - teacher == pytest.approx(found["network"]["excess"], abs=1e-4)


def test_a_split_that_is_empty_is_an_error(trained: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the test split has no rows"):
        run(EvaluateOptions(**trained, layer="l2", split="test"))
    with pytest.raises(FileNotFoundError, match=r"world_split\.json"):
        run(EvaluateOptions(**(trained | {"output_dir": tmp_path})))


def test_lines_show_every_number() -> None:
    text = "\n".join(lines({"a": {"n": 1200, "MAE": 0.5}, "b": {"x": 1.0, "c": {"y": 2.0}}}))
    assert "a: n 1,200  MAE 0.5" in text
    assert "c: y 2" in text


def test_the_heuristic_l3_has_the_alpha_of_its_decision(trained: dict[str, Any]) -> None:
    """α decides how much of the goal a thread offers: the figures are those of the rules as they play."""
    data = open_tournament(LOGS, "PenguinAgent", 1, cache_dir=trained["cache_dir"], quiet=True)
    data = with_goals(data, "l2", trained["output_dir"] / "l2_bc.safetensors")
    rows = micro_of(data)
    batch, alpha = rows.batch(np.arange(len(rows))), alphas_of(data)[rows.rows]
    assert len(np.unique(alpha)) > 10
    chosen = HeuristicExecutor().act(None, situation_of(batch, alpha))
    source = L3Source(rows)
    found = rule_figures(source, rows, "heuristic")
    counts = source.column("op_counts")
    both = counts & source.column("offer_counts") & (chosen.op == REJECT)
    error = np.abs(batch.decisions.offer[both, 0] - chosen.offer[both, 0])
    assert found["mae_dq"] == pytest.approx(float(error.mean()))
    fixed = HeuristicExecutor().act(None, situation_of(batch, np.full(len(rows), 0.1, np.float32)))
    assert not np.array_equal(fixed.offer, chosen.offer), "it matters"
