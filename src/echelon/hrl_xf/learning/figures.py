"""Figures of how good a layer is: pure functions of predictions and labels, in natural units."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.state.day_state import ANSWERS
from echelon.runtime.arrays import Bools, Floats, Ints

Figures = dict[str, Any]
SIDES = ("buy", "sell")
CALIBRATION_BINS = 10


def goal_errors(predicted: NDArray[np.floating], target: NDArray[np.floating], mask: Bools) -> dict[str, Figures]:
    """Errors of goals (N, 16) where `mask`, in pieces and currency; in all, and by bucket and side."""
    p, t, m = (np.asarray(x).reshape(-1, 4, 2, 2) for x in (predicted, target, mask))
    found: dict[str, Figures] = {}
    for kind, name in enumerate(("Q", "P")):
        found[name] = _errors(p[..., kind], t[..., kind], m[..., kind])
        for bucket in range(4):
            for side in range(2):
                at = (slice(None), bucket, side, kind)
                if m[at].any():
                    found[f"{name} bucket {bucket} {SIDES[side]}"] = _errors(p[at], t[at], m[at])
    return found


def _errors(p: Floats, t: Floats, m: Bools) -> Figures:
    """MAE, RMSE, mean target, and mean relative error |p − t| / max(|t|, 1) over the masked numbers."""
    error, target = np.abs(p[m] - t[m]).astype(np.float64), t[m].astype(np.float64)
    if not len(error):
        return {"n": 0}
    return {
        "n": len(error),
        "MAE": float(error.mean()),
        "RMSE": float(np.sqrt((error**2).mean())),
        "mean_target": float(target.mean()),
        "mean_rel_err": float((error / np.maximum(np.abs(target), 1.0)).mean()),
    }


def yesterdays(goal: NDArray[np.floating], day: Ints, log: Ints, default: NDArray[np.floating]) -> NDArray[np.floating]:
    """The goal of the day before in the same log; `otherwise` (16,) where there is none.  # (N, 16)"""
    before = np.roll(goal, 1, axis=0)
    follows = np.zeros(len(goal), np.bool_)
    follows[1:] = (log[1:] == log[:-1]) & (day[1:] == day[:-1] + 1)
    found: Floats = np.where(follows[:, None], before, default)
    return found


def masked_mean(values: NDArray[np.floating], mask: Bools) -> Floats:
    """The mean of each column where `mask`; 0 where nothing is.  # (N, K) -> (K,)"""
    total = np.where(mask, values, 0.0).sum(axis=0, dtype=np.float64)
    mean: Floats = total / np.maximum(mask.sum(axis=0), 1)
    return mean


def answer_figures(chosen: Ints, label: Ints) -> Figures:
    """Accuracy, and precision and recall of each answer."""
    figures: Figures = {"n": len(label), "accuracy": float((chosen == label).mean()) if len(label) else float("nan")}
    for op, name in enumerate(ANSWERS):
        hit = float(((chosen == op) & (label == op)).sum())
        figures[name] = {
            "share": float((label == op).mean()) if len(label) else float("nan"),
            "precision": hit / max(float((chosen == op).sum()), 1.0),
            "recall": hit / max(float((label == op).sum()), 1.0),
        }
    return figures


def calibration(probability: Floats, happened: Bools, bins: int = CALIBRATION_BINS) -> Figures:
    """How often predicted events happen, by predicted probability: one line per bin, and the mean gap (ECE)."""
    place = np.minimum((probability * bins).astype(np.int64), bins - 1)
    table, gap = [], 0.0
    for b in range(bins):
        there = place == b
        if there.any():
            said, came = float(probability[there].mean()), float(happened[there].mean())
            table.append({"n": int(there.sum()), "said": said, "happened": came})
            gap += abs(said - came) * float(there.mean())
    return {"expected_calibration_error": gap, "bins": table}


def rank_correlation(a: Floats, b: Floats) -> float:
    """Spearman's, with mean ranks for ties; NaN where one of them is constant."""
    ranks = [_ranks(x) for x in (a, b)]
    deviations = [r - r.mean() for r in ranks]
    norm = float(np.sqrt((deviations[0] ** 2).sum() * (deviations[1] ** 2).sum()))
    return float((deviations[0] * deviations[1]).sum()) / norm if norm > 0 else float("nan")


def _ranks(x: Floats) -> Floats:
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: Floats = (last - (counts - 1) / 2.0)[place]
    return mean
