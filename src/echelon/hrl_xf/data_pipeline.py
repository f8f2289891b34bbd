"""Tracker logs to training data: the public functions. Parsed once, memory-mapped afterwards.

    macro, micro = load_tournament_data("tournament_history/hrl_data_…_std", agent_name="PenguinAgent")
    macro.batch(np.arange(512)).X_temporal          # arrays, for training
    micro[0].history                                # a row, to look at

What the arrays mean stands in `samples`; how they lie on disk, in `sample_builder` and `dataset_cache`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from echelon.hrl_xf.dataset_cache import LogCache, LogRecord
from echelon.hrl_xf.day_batch import Ints
from echelon.hrl_xf.goal_backfill import BATCH, check_goal_options, fill_goals
from echelon.hrl_xf.goals import reconstruct_l2_goals
from echelon.hrl_xf.l1_safety import compute_l1_baseline_offline
from echelon.hrl_xf.l4_samples import L4Dataset, L4DistillSample
from echelon.hrl_xf.log_files import BadLog, find_logs, match_agents
from echelon.hrl_xf.samples import MacroDataset, MacroSample, MicroDataset, MicroSample
from echelon.hrl_xf.schema import DayState
from echelon.hrl_xf.shards import IN_MEMORY, compact
from echelon.hrl_xf.state_builder import DayFeatures, StateBuilder
from echelon.hrl_xf.state_dict import OF_FEATURES, state_of
from echelon.hrl_xf.thread_tables import unpack_answer
from echelon.hrl_xf.tournament_data import TournamentData
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

log = logging.getLogger(__name__)
PathLike = str | Path
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
    fill_goals(data, goal_backfill, l2_model_path, l2_backfill_batch_size, l2_backfill_device)
    macro, micro = macro_of(data), micro_of(data)
    _say(f"{len(macro)} macro samples, {len(micro)} micro samples", quiet)
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
    fill_goals(data, goal_source, l2_model_path, l2_backfill_batch_size, l2_backfill_device)
    return l4_of(data)


def open_tournament(
    data_dir: PathLike,
    agent_name: str = "PenguinAgent",
    num_workers: int | None = None,
    *,
    cache_dir: PathLike | None = None,
    horizon: int = 40,
    strict: bool = False,
    quiet: bool = False,
    in_memory: int = IN_MEMORY,
) -> TournamentData:
    """Find the logs, choose the agent's, parse what is new, and open the rest."""
    folder = Path(data_dir)
    cache = LogCache(folder, None if cache_dir is None else Path(cache_dir), horizon)
    files = find_logs(folder)
    if not files:
        raise ValueError(f"{folder} holds no tracker log (agent_*.json or agent_*.json.gz), nor do its folders")
    records = cache.identify(files)
    _report(folder, [record for record in records.values() if record.error], strict)
    agents = match_agents(agent_name, (record.agent_type for record in records.values() if record.agent_type))
    agent = ", ".join(agents)
    wanted = [path for path, record in records.items() if record.agent_type in agents]
    folders = len({str(Path(path).parent) for path in records})
    _say(f"{len(files)} logs in {folders} folders; agent {agent_name!r} is {agent}: {len(wanted)} logs", quiet)
    before = {path for path, record in records.items() if record.error}
    records = cache.update(files, wanted, num_workers, strict=strict, quiet=quiet)
    _report(folder, [record for path, record in records.items() if record.error and path not in before], strict)
    good = [records[path] for path in wanted if not records[path].error]
    bad = [record for record in records.values() if record.error]
    if not good:
        raise ValueError(f"none of the {len(wanted)} logs of {agent} in {folder} can be used; see the messages above")
    return TournamentData(cache.folder, good, horizon, bad, in_memory)


def _say(text: str, quiet: bool) -> None:
    """To the log; in a script that has set up none, to the terminal: whose data these are must not go unseen."""
    log.info("%s", text)
    if not quiet and not log.isEnabledFor(logging.INFO):
        Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


def _report(folder: Path, bad: Sequence[LogRecord], strict: bool) -> None:
    for record in bad:
        error = BadLog(str(folder / record.file.path), record.error)
        if strict:
            raise error
        log.warning("left out: %s", error)


def macro_of(data: TournamentData) -> MacroDataset:
    return MacroDataset(data, data.rows("day"))


def micro_of(data: TournamentData) -> MicroDataset:
    """Decisions that reached the partner; first proposals that were overtaken are left out (see `sample_builder`)."""
    rows = data.rows("decision")
    sent = unpack_answer(data.tables.store.take("decision.answer", rows))[2]
    return MicroDataset(data, rows[sent])


def l4_of(data: TournamentData) -> L4Dataset:
    rows = data.rows("set")
    return L4Dataset(data, rows[data.tables.store.take("set.n_members", rows) >= 2])


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
    if data.goals is not None:
        arrays["goals"] = data.goals
    write_atomic(folder / "rows.safetensors", save_arrays(arrays))
    saved = _Saved(horizon=horizon, goal_source=data.goal_source, records=data.records)
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
    data = TournamentData(folder, saved.records, saved.horizon)
    arrays = load_arrays((folder / "rows.safetensors").read_bytes())
    data.goals, data.goal_source = arrays.get("goals"), saved.goal_source
    rows: list[Ints] = [arrays[name].astype(np.int64) for name in ("macro", "micro")]
    return MacroDataset(data, rows[0]), MicroDataset(data, rows[1])
