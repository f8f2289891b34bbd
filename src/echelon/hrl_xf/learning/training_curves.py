"""Which curves a training run has, phase by phase, and each phase in one sentence. Drawing them is others' work."""

from __future__ import annotations

from collections.abc import Mapping

from echelon.runtime.metrics import Series

PHASES = {
    "l2_bc": "L2, the day's goal, by behaviour cloning",
    "l3_bc": "L3, the round's action, by behaviour cloning",
    "critic": "The critic: what a day and those after it will earn",
    "l3_awr": "L3 by advantage-weighted regression",
    "l4_distill": "L4, attention among threads, from its teacher",
}
GROUPS = {
    "Loss": ("loss",),
    "Loss of each part": ("loss_q", "loss_p", "nll_op", "nll_day", "nll_dq", "nll_dp", "excess"),
    "Share of the returns' variance that is explained": ("explained_variance",),
    "Accuracy": ("acc_op", "acc_day", "acc_dq", "acc_dp", "acc_first"),
    "Mean error in pieces, currency, days": ("mae_q", "mae_p", "mae_dq", "mae_dp", "mae_day"),
}


def of_phase(phase: str, metrics: Mapping[str, Series]) -> dict[str, Series]:
    """The phase's series, by their names without the phase."""
    return {key.partition("/")[2]: series for key, series in metrics.items() if key.startswith(f"{phase}/")}


def groups_of(mine: Mapping[str, Series]) -> dict[str, list[str]]:
    """The plots of a phase: title and the names whose training and validation curves stand in it."""
    found = {title: [n for n in names if f"train_{n}" in mine] for title, names in GROUPS.items()}
    return {title: names for title, names in found.items() if names}


def sentence(mine: Mapping[str, Series]) -> str:
    """The phase in one sentence of figures."""
    judged = mine.get("val_loss", mine["train_loss"])
    at = int(judged.values.argmin())
    parts = [f"{len(judged.steps)} epochs, best {judged.steps[at]} (loss {judged.values[at]:.4g})"]
    if "samples_per_second" in mine:
        parts.append(f"{mine['samples_per_second'].values.mean():,.0f} samples/s")
        parts.append(f"{mine['seconds'].values.sum():,.0f} s of training")
    tests = [f"{key[5:]} {s.values[-1]:.4g}" for key, s in mine.items() if key.startswith("test_")]
    return "; ".join([*parts, *(["test: " + ", ".join(tests)] if tests else [])])
