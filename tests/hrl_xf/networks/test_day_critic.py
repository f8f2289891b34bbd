"""The critic: its inputs by hand, its files, what it learns, and how it is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from echelon.hrl_xf.commands import evaluate
from echelon.hrl_xf.commands import train as train_command
from echelon.hrl_xf.dataset.datasets import macro_of
from echelon.hrl_xf.dataset.tournament import TournamentData, open_tournament
from echelon.hrl_xf.learning.critic import CriticSource, critic_loss, explained_variance
from echelon.hrl_xf.learning.day_returns import returns_to_go, values_of
from echelon.hrl_xf.learning.phases import train_critic
from echelon.hrl_xf.learning.task import measure
from echelon.hrl_xf.networks.day_critic import GAME, DayCritic, game_inputs, load_critic
from echelon.hrl_xf.networks.files import save_layer
from echelon.hrl_xf.options.train import EvaluateOptions, TrainConfig, TrainOptions
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.schema import DailyStatusEntry
from echelon.runtime.metrics import read_metrics
from tests.hrl_xf.log_examples import LOGS, PENGUIN_MIDDLE, log_of, train_options


@pytest.fixture(scope="module")
def everyone(cache: Path) -> TournamentData:
    return open_tournament(LOGS, "all", 1, cache_dir=cache, quiet=True)


def wild() -> DayCritic:
    torch.manual_seed(3)
    critic = DayCritic(channels=(4, 8), hidden=16)
    with torch.no_grad():
        critic.value.weight.normal_()
    critic.scale_to(-0.1, 0.3)
    return critic


def test_inputs_by_hand() -> None:
    day = next(e.data for e in log_of(PENGUIN_MIDDLE).entries if isinstance(e, DailyStatusEntry) and e.day == 20)
    costs = np.array([[day.shortfall_penalty, day.storage_cost, day.disposal_cost]])
    (found,) = game_inputs(day_batch([day]), costs)
    left, start, L = day.n_steps - 20, day.initial_balance, day.n_lines
    wanted = [
        left / 100, day.n_steps / 100, *(left * L * p / start for p in (day.spot_price_in, day.spot_price_out)),
        left * L * day.production_cost / start, day.inventory_input / L, day.commitments.Q_in[0] / L,
        day.commitments.Q_out[0] / L, left * day.storage_cost * day.spot_price_in * day.inventory_input / start,
        day.shortfall_penalty, day.my_input_product / (day.n_products - 1),
    ]  # fmt: skip
    assert found == pytest.approx(np.clip(wanted, -5, 5), rel=1e-5)
    assert found.shape == (GAME,)


def test_a_new_critic_predicts_the_mean_and_its_file_holds_its_scale(everyone: TournamentData, tmp_path: Path) -> None:
    critic = DayCritic()
    critic.scale_to(0.25, 2.0)
    assert critic.is_new
    rows = everyone.rows("day")
    assert (values_of(everyone, critic)[rows] == 0.25).all()
    other = wild()
    assert not other.is_new
    save_layer(other, tmp_path / "critic", {})
    assert np.array_equal(values_of(everyone, load_critic(tmp_path / "critic"))[rows], values_of(everyone, other)[rows])
    with pytest.raises(ValueError, match="std not negative"):
        critic.scale_to(0.0, -1.0)


def test_the_loss_and_its_figures(everyone: TournamentData) -> None:
    """Batch by batch they sum to the figures of the whole, in initial balances."""
    critic, source = wild(), CriticSource(macro_of(everyone))
    predicted = values_of(everyone, critic)[everyone.rows("day")]
    target = returns_to_go(everyone)[everyone.rows("day")]
    found = measure(critic, source, critic_loss, 50)
    assert found["explained_variance"] == pytest.approx(explained_variance(target, predicted), rel=1e-4)
    assert found["mae"] == pytest.approx(np.abs(target - predicted).mean(), rel=1e-4)
    assert found["loss"] == pytest.approx(((target - predicted) ** 2).mean() / 0.09, rel=1e-4)


def test_explained_variance_by_hand() -> None:
    target = np.array([0.0, 1.0, 2.0])
    assert explained_variance(target, target) == 1.0
    assert explained_variance(target, np.ones(3)) == 0.0
    assert explained_variance(target, np.array([0.0, 1.0, 3.0])) == pytest.approx(0.5)
    assert np.isnan(explained_variance(np.ones(3), np.zeros(3)))


def test_it_learns_the_days_of_all_agents(everyone: TournamentData, tmp_path: Path) -> None:
    torch.manual_seed(0)
    cfg = TrainConfig(output_dir=tmp_path, critic_epochs=60, critic_batch_size=32, critic_lr=3e-3, average=0.0)
    reports = train_critic(DayCritic(channels=(8, 8), hidden=32), macro_of(everyone), cfg)
    assert reports[-1].train["explained_variance"] > 0.6
    assert reports[0].train["explained_variance"] < 0.3
    critic = load_critic(tmp_path / "critic")
    rows = everyone.rows("day")
    assert explained_variance(returns_to_go(everyone)[rows], values_of(everyone, critic)[rows]) > 0.6


def test_resumed_it_ends_with_the_same_weights(everyone: TournamentData, tmp_path: Path) -> None:
    def train(folder: str, epochs: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        cfg = TrainConfig(output_dir=tmp_path / folder, critic_epochs=epochs, critic_batch_size=32, resume=True)
        train_critic(DayCritic(channels=(4, 4), hidden=8), macro_of(everyone), cfg)
        return load_critic(tmp_path / folder / "critic").state_dict()

    whole = train("whole", 4)
    train("parts", 2)
    parts = train("parts", 4)
    assert all(torch.equal(parts[name], value) for name, value in whole.items())


@pytest.fixture(scope="module")
def run(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training with AWR on every agent's decisions; nobody asked for the critic."""
    folder = tmp_path_factory.mktemp("run")
    assert train_command.run(options(folder, cache)) == 0
    return folder


def options(folder: Path, cache: Path, **more: Any) -> TrainOptions:
    return train_options(
        cache_dir=cache, output_dir=folder, num_workers=1, quiet=True, val_ratio=0.3, test_ratio=0.3,
        split_seed=1, phases="l2,l3", l3_awr=True, l2_epochs=1, l3_epochs=1, l3_awr_epochs=1, critic_epochs=3,
        critic_batch_size=32, awr_agents="all", **more,
    )  # fmt: skip


def test_awr_trains_the_critic_first_and_only_once(run: Path, cache: Path) -> None:
    metrics = read_metrics(run)
    assert metrics["critic/train_loss"].steps.tolist() == [1, 2, 3]
    for name in ("critic/val_explained_variance", "critic/test_explained_variance", "l3_awr/train_weight"):
        assert np.isfinite(metrics[name].values).all()
    written = (run / "critic.safetensors").read_bytes()
    assert train_command.phases_of(options(run, cache)) == ["l2", "l3", "l3_awr"]
    assert train_command.phases_of(options(run, cache, resume=False)) == ["l2", "l3", "critic", "l3_awr"]
    assert train_command.run(options(run, cache)) == 0, "the same command resumes"
    assert (run / "critic.safetensors").read_bytes() == written
    log = (run / "log.txt").read_text()
    assert "agent 'all' is" in log
    with pytest.raises(ValueError, match="lambda"):
        train_command.run(options(run, cache, awr_lambda=0.5))


def test_it_is_compared_with_predictors_that_see_less(run: Path, cache: Path) -> None:
    assert evaluate.run(
        EvaluateOptions(data_dir=LOGS, cache_dir=cache, output_dir=run, layer="critic", split="test", num_workers=1)
    ) == 0  # fmt: skip
    found = json.loads((run / "evaluation_critic_test.json").read_text())
    logged = read_metrics(run)["critic/test_explained_variance"].values[-1]
    assert found["network"]["explained_variance"] == pytest.approx(logged, abs=1e-4)
    assert found["network"]["first third"]["n"] + found["network"]["last third"]["n"] < found["days"]["n"]
    assert found["training mean"]["explained_variance"] <= 0
    assert "mean by level and days left" in found
