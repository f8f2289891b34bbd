"""Tracker logs to training data: the public functions. Parsed once, memory-mapped afterwards.

    macro, micro = load_tournament_data("tournament_history/hrl_data_…_std", agent_name="PenguinAgent")
    macro.batch(np.arange(512)).X_temporal          # arrays, for training
    micro[0].history                                # a row, to look at

What the arrays mean stands in `dataset.samples`; how they lie on disk, in `dataset.builder` and `dataset.cache`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from echelon.hrl_xf.dataset.cache import LogRecord
from echelon.hrl_xf.dataset.datasets import L4Dataset, MacroDataset, MicroDataset, l4_of, macro_of, micro_of
from echelon.hrl_xf.dataset.goal_backfill import BATCH, check_goal_options, with_goals
from echelon.hrl_xf.dataset.samples import L4DistillSample, MacroSample, MicroSample
from echelon.hrl_xf.dataset.shards import compact
from echelon.hrl_xf.dataset.tournament import Goals, PathLike, TournamentData, open_tournament, say
from echelon.hrl_xf.state.day_state import DayState
from echelon.hrl_xf.state.features import DayFeatures, StateBuilder
from echelon.hrl_xf.state.goals import reconstruct_l2_goals
from echelon.hrl_xf.state.l1_safety import compute_l1_baseline_offline
from echelon.hrl_xf.state.state_dict import OF_FEATURES, state_of
from echelon.runtime.arrays import Ints
from echelon.runtime.files import write_atomic

__all__ = [
    "L4Dataset",
    "L4DistillSample",
    "MacroDataset",
    "MacroSample",
    "MicroDataset",
    "MicroSample",
    "compute_l1_baseline_offline",
    "extract_macro_state",
    "load_l4_distill_data",
    "load_samples",
    "load_tournament_data",
    "open_tournament",
    "reconstruct_l2_goals",
    "save_samples",
]

SAMPLES_VERSION = 1


def load_tournament_data(
    data_dir: PathLike,
    agent_name: str = "PenguinAgent",
    num_workers: int | None = None,
    goal_backfill: str = "none",
    l2_model_path: PathLike | None = None,
    *,
    cache_dir: PathLike | None = None,
    horizon: int = 40,
    strict: bool = False,
    quiet: bool = False,
    l2_backfill_device: str = "cpu",
    l2_backfill_batch_size: int = BATCH,
) -> tuple[MacroDataset, MicroDataset]:
    """The days and the sent decisions of one expert in all logs below `data_dir`.

    `agent_name` is the class name, or the beginning of one if only one begins so; or several with commas.
    `goal_backfill` says what `micro.goal` is: "none" zeros, "l2" what the model in `l2_model_path` predicts, "v2" the
    label of the day (it knows the day's deals: for analysis only). `strict`: a bad log is an error; otherwise it is
    reported and left out.
    """
    check_goal_options(goal_backfill, l2_model_path, ("none", "v2", "l2"))
    data = open_tournament(
        data_dir, agent_name, num_workers, cache_dir=cache_dir, horizon=horizon, strict=strict, quiet=quiet
    )
    data = with_goals(data, goal_backfill, l2_model_path, l2_backfill_batch_size, l2_backfill_device)
    macro, micro = macro_of(data), micro_of(data)
    say(f"{len(macro)} macro samples, {len(micro)} micro samples", quiet)
    return macro, micro


def load_l4_distill_data(
    data_dir: PathLike,
    agent_name: str = "PenguinAgent",
    goal_source: str = "v2",
    l2_model_path: PathLike | None = None,
    num_workers: int | None = None,
    *,
    cache_dir: PathLike | None = None,
    horizon: int = 40,
    strict: bool = False,
    quiet: bool = False,
    l2_backfill_device: str = "cpu",
    l2_backfill_batch_size: int = BATCH,
) -> L4Dataset:
    """The sets of threads one expert decided together, with the heuristic coordinator's α."""
    check_goal_options(goal_source, l2_model_path, ("v2", "l2"))
    data = open_tournament(
        data_dir, agent_name, num_workers, cache_dir=cache_dir, horizon=horizon, strict=strict, quiet=quiet
    )
    data = with_goals(data, goal_source, l2_model_path, l2_backfill_batch_size, l2_backfill_device)
    return l4_of(data)


def extract_macro_state(state_dict: DayState | Mapping[str, Any], horizon: int = 40) -> DayFeatures:
    """L2's features of one logged day, by the function that the agent uses in play: (12,), (H+1, 10) and (2,)."""
    return StateBuilder(horizon).build(state_of(state_dict, OF_FEATURES))


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    """samples.json: all that is needed beside the shards."""

    format_version: int = SAMPLES_VERSION
    horizon: int
    goal_source: str
    records: list[LogRecord]


def save_samples(macro: MacroDataset, micro: MicroDataset, output_dir: PathLike, horizon: int = 40) -> None:
    """Write both data sets into a folder of their own, independent of the logs and of the cache."""
    data = macro.data
    if micro.data is not data:
        raise ValueError("macro and micro samples come from two loads; save those of one load together")
    if horizon != data.horizon:
        raise ValueError(f"horizon={horizon}, but the samples were made with {data.horizon}; load them with that one")
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    for name in data.shards:
        write_atomic(folder / name, (data.folder / name).read_bytes())
    arrays = {"macro": compact(macro.rows), "micro": compact(micro.rows)}
    if data.goals.values is not None:
        arrays["goals"] = data.goals.values
    write_atomic(folder / "rows.safetensors", save_arrays(arrays))
    saved = _Saved(horizon=horizon, goal_source=data.goals.source, records=list(data.records))
    write_atomic(folder / "samples.json", msgspec.json.encode(saved))  # last: a folder with it is complete


def load_samples(samples_dir: PathLike) -> tuple[MacroDataset, MicroDataset]:
    """What `save_samples` wrote."""
    folder = Path(samples_dir)
    path = folder / "samples.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} holds no saved samples (no samples.json); write them with save_samples")
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=_Saved)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if saved.format_version != SAMPLES_VERSION:
        raise ValueError(f"{path} has format_version {saved.format_version}, this Echelon reads {SAMPLES_VERSION}")
    arrays = load_arrays((folder / "rows.safetensors").read_bytes())
    data = TournamentData.open(folder, saved.records, saved.horizon)
    data = data.with_goals(Goals(saved.goal_source, arrays.get("goals")))
    rows: list[Ints] = [arrays[name].astype(np.int64) for name in ("macro", "micro")]
    return MacroDataset(data, rows[0]), MicroDataset(data, rows[1])
