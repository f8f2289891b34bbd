"""The goals that condition L3 and L4: none, the labels of the day, or the predictions of a trained L2.

`l2` is what training uses (guide §1.4): in play there are only predictions. `v2` gives the label of the day itself,
which knows the day's deals: a decision sees the future in it. It is for analysis only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import numpy as np

from echelon.hrl_xf.dataset.tournament import Goals, TournamentData
from echelon.hrl_xf.layers.l2_play import LearntManager
from echelon.hrl_xf.state.goals import GOAL_SIZE
from echelon.runtime.arrays import Float32

GoalBackfill = Literal["none", "v2", "l2"]
BATCH = 4096


def check_goal_options(backfill: str, l2_model_path: str | Path | None, allowed: tuple[str, ...]) -> None:
    """Raise for a model that is not used, or a missing model that is needed."""
    if backfill not in allowed:
        raise ValueError(f"goals from {backfill!r} are unknown here; use one of {', '.join(allowed)}")
    if backfill == "l2" and l2_model_path is None:
        raise ValueError("goals from 'l2' need l2_model_path: train L2 first, then give its file")
    if backfill != "l2" and l2_model_path is not None:
        raise ValueError(
            f"l2_model_path={str(l2_model_path)!r} is named, but goals from {backfill!r} do not use it; "
            "ask for goals from 'l2', or leave the model out"
        )
    if l2_model_path is not None and not Path(l2_model_path).exists():
        raise FileNotFoundError(f"l2_model_path={str(l2_model_path)!r} does not exist; train L2 first")


def with_goals(
    data: TournamentData,
    backfill: str,
    l2_model_path: str | Path | None = None,
    batch_size: int = BATCH,
    device: str = "cpu",
) -> TournamentData:
    """The same logs, their days with goals; L2 predicts them on `device`."""
    check_goal_options(backfill, l2_model_path, get_args(GoalBackfill))
    values: Float32 | None = None
    if backfill == "v2":
        values = data.tables.store.column("day.goal")
    elif backfill == "l2":
        values = predicted_goals(data, load_model(Path(str(l2_model_path)), device), batch_size)
    return data.with_goals(Goals(backfill, values))


def load_model(path: Path, device: str = "cpu") -> LearntManager:
    from echelon.hrl_xf.networks.l2_manager import load_l2  # imports torch, which a data set without goals spares

    return load_l2(path, device)


def predicted_goals(data: TournamentData, model: LearntManager, batch_size: int = BATCH) -> Float32:
    """The model's goals for all chosen days, in large batches.  # (days of the store, 16)"""
    if model.horizon != data.horizon:
        raise ValueError(
            f"the L2 model was trained with horizon {model.horizon}, the data have {data.horizon}; use one horizon"
        )
    rows = data.rows("day")
    goals = np.full((data.tables.store.rows("day"), GOAL_SIZE), np.nan, np.float32)
    for begin in range(0, len(rows), batch_size):
        some = rows[begin : begin + batch_size]
        days = data.tables.days(some)
        found = np.asarray(model.goals_of_features(days, data.tables.build(days)))
        if found.shape != (len(some), GOAL_SIZE) or not np.isfinite(found).all():
            raise ValueError(
                f"the L2 model gave goals of shape {found.shape} with {int((~np.isfinite(found)).sum())} values that "
                f"are not finite; it must give finite {(len(some), GOAL_SIZE)}"
            )
        goals[some] = found
    return goals
