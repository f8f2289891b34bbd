"""Goals come from where they were asked for, or there is an error; never silent zeros."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from echelon.hrl_xf.data_pipeline import load_l4_distill_data, load_tournament_data
from echelon.hrl_xf.dataset.goal_backfill import predicted_goals
from echelon.hrl_xf.layers.l2_play import LearntManager, predicted
from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.hrl_xf.state.features import DayFeatures
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, data_of, log_of
from tests.hrl_xf.state.examples import same_bits


class Linear(LearntManager):
    """A stand-in for a trained L2: any function of the features will do."""

    def __init__(self, horizon: int = 40, size: int = 16, value: float = 1.0) -> None:
        self.horizon, self.size, self.value = horizon, size, value
        self.sizes: list[int] = []

    def goals_of_features(self, days: DayBatch, x: DayFeatures) -> NDArray[Any]:
        return predicted(self.predict_goals, self.horizon, days, x)

    def predict_goals(self, x_static: Any, X_temporal: Any, x_role: Any, *, spot: Any, goal_mask: Any) -> NDArray[Any]:
        assert X_temporal.shape[1:] == (41, 10)
        assert x_role.shape == spot.shape == (len(x_static), 2)
        self.sizes.append(len(x_static))
        goal = x_static[:, :1] + X_temporal.sum(axis=(1, 2))[:, None] + spot.sum(axis=1)[:, None]
        out: NDArray[Any] = (self.value * goal * np.ones((1, self.size)) * goal_mask[:, : self.size]).astype(np.float32)
        return out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data_of(tmp_path / "data", [log_of(PENGUIN_FIRST), log_of(PENGUIN_MIDDLE)])
    return tmp_path / "data"


@pytest.fixture
def with_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Linear, Path]:
    """`load_l2` gives the stand-in."""
    model, manager = Linear(), ModuleType("echelon.hrl_xf.networks.l2_manager")
    manager.load_l2 = lambda path, device: model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "echelon.hrl_xf.networks.l2_manager", manager)
    (tmp_path / "l2_bc.safetensors").write_bytes(b"x")
    return model, tmp_path / "l2_bc.safetensors"


def load(folder: Path, **options: Any) -> Any:
    return load_tournament_data(folder, "Pe", 1, quiet=True, **options)


def test_none_is_zeros_and_v2_is_the_days_label(folder: Path) -> None:
    macro, micro = load(folder)
    assert not micro.batch(np.arange(len(micro))).goal.any()
    macro, micro = load(folder, goal_backfill="v2")
    goals = micro.batch(np.arange(len(micro))).goal
    days = macro.data.tables.decisions(micro.rows).day
    assert same_bits(goals, macro.data.tables.store.take("day.goal", days))
    assert goals.any()


def test_l2_predicts_every_day_once_in_large_batches(folder: Path, with_model: tuple[Linear, Path]) -> None:
    model, path = with_model
    macro, micro = load(folder, goal_backfill="l2", l2_model_path=path)
    assert model.sizes == [60]
    m = macro.batch(np.arange(len(macro)))
    wanted = model.predict_goals(m.x_static, m.X_temporal, m.x_role, spot=m.spot, goal_mask=m.goal_mask)
    days = macro.data.tables.decisions(micro.rows).day
    place = np.searchsorted(np.sort(macro.rows), days)
    assert same_bits(micro.batch(np.arange(len(micro))).goal, wanted[np.argsort(macro.rows)][place])
    assert same_bits(predicted_goals(macro.data, model, batch_size=7), macro.data.goals.values)
    sets = load_l4_distill_data(folder, "Pe", "l2", path, 1, quiet=True)
    assert sets.batch(np.arange(3)).global_feat[:, :16].any()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"goal_backfill": "l2"}, "need l2_model_path"),
        ({"goal_backfill": "l2", "l2_model_path": "nowhere.pt"}, "'nowhere.pt' does not exist"),
        ({"goal_backfill": "none", "l2_model_path": "nowhere.pt"}, "do not use it"),
        ({"goal_backfill": "v2", "l2_model_path": "nowhere.pt"}, "do not use it"),
        ({"goal_backfill": "L2"}, "use one of none, v2, l2"),
    ],
)
def test_half_a_wish_is_an_error(folder: Path, options: dict[str, str], error: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=error):
        load(folder, **options)


def test_l4_has_no_goals_of_none(folder: Path) -> None:
    with pytest.raises(ValueError, match="use one of v2, l2"):
        load_l4_distill_data(folder, "Pe", "none", num_workers=1, quiet=True)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (Linear(horizon=20), "horizon 20, the data have 40"),
        (Linear(size=8), r"goals of shape \(60, 8\)"),
        (Linear(value=float("nan")), "values that are not finite"),
    ],
)
def test_a_model_that_does_not_fit_is_an_error(folder: Path, model: Linear, error: str) -> None:
    macro, _ = load(folder)
    with pytest.raises(ValueError, match=error):
        predicted_goals(macro.data, model)
