"""`echelon hrl train`: a data set becomes three trained layers. The same command resumes."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from echelon.hrl_xf.dataset.datasets import Rows, l4_of, macro_of, micro_of
from echelon.hrl_xf.dataset.goal_backfill import with_goals
from echelon.hrl_xf.dataset.split import SPLITS, WorldSplit, world_split
from echelon.hrl_xf.dataset.tournament import TournamentData, open_tournament
from echelon.hrl_xf.layers.weight_files import layer_path
from echelon.hrl_xf.learning.fit import history_of
from echelon.hrl_xf.learning.phases import (
    critic_epochs,
    l2_bc_epochs,
    l3_awr_epochs,
    l3_bc_epochs,
    l4_distill_epochs,
    measure_phase,
)
from echelon.hrl_xf.learning.task import EpochReport
from echelon.hrl_xf.networks.day_critic import DayCritic
from echelon.hrl_xf.networks.files import Layer, load_layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO, load_l2
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer, load_l3
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator
from echelon.hrl_xf.options.train import TrainConfig, TrainOptions
from echelon.hrl_xf.weights import CRITIC, STEMS
from echelon.runtime.devices import device_of
from echelon.runtime.files import write_atomic
from echelon.runtime.metrics import MetricsWriter, read_metrics, without_console_lines
from echelon.runtime.rundir import TRAINING, RunDir, open_run, read_config, write_config
from echelon.runtime.seeding import task_seed

log = logging.getLogger(__name__)
Stop = Callable[[], bool]
STOPPED = 130
L = TypeVar("L", bound=Layer)


@dataclass(frozen=True)
class Training:
    """A run of the command."""

    options: TrainOptions
    data: TournamentData
    """of the agents to clone"""
    others: TournamentData | None
    """of all agents, where the critic is trained"""
    weighed: TournamentData
    """of the agents that AWR learns from"""
    split: WorldSplit
    stop: Stop

    @property
    def cfg(self) -> TrainConfig:
        return self.options.config

    def parts(self, rows: Rows[Any]) -> tuple[Any, Any, Any]:
        """Rows to train on, to validate on, to test on."""
        train, val, test = (rows.part(self.split, split) for split in SPLITS)
        return train, val, test


def run(options: TrainOptions) -> int:
    """The command: open the run and the data, divide them, train the phases that were asked for."""
    check_devices(options)
    torch.set_num_threads(options.threads)
    if options.quiet:
        for handler in logging.getLogger("echelon").handlers:
            handler.setLevel(logging.ERROR)  # log.txt still gets everything
    with open_training(options).logging():
        for line in options.history.lines():
            log.info("%s", line)
        return train(options)


def check_devices(options: TrainOptions) -> None:
    """Raise for an unknown device before anything is written."""
    device_of(options.config.device)
    device_of(options.l2_backfill_device, "--l2-backfill-device")


def open_training(options: TrainOptions) -> RunDir:
    """The run's directory. What may not change within a phase, its checkpoints refuse; the rest may."""
    values = asdict(options)
    values |= values.pop("config")
    del values["history"]
    config = {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
    folder = options.config.output_dir
    before = read_config(folder)
    known = set(config) | set(before.options if before else ())  # an earlier version may have had other options
    run_dir = open_run(folder, config, may_change=known - {"agent_name", "horizon"})
    write_config(folder, TRAINING, config)
    return run_dir


def train(options: TrainOptions) -> int:
    """Open the data, divide them, and train phase by phase."""
    data = _logs_of(options, options.agent_name)
    others = _logs_of(options, "all") if CRITIC in phases_of(options) and not options.stats_only else None
    weighed = data if options.awr_agents is None else _logs_of(options, options.awr_agents)
    configs = {record.config_id for some in (data, others, weighed) if some is not None for record in some.records}
    split = world_split(
        options.config.output_dir, configs, val_ratio=options.val_ratio, test_ratio=options.test_ratio,
        seed=options.split_seed, regenerate=options.regen_split,
    )  # fmt: skip
    with stopping() as stop:
        training = Training(options, data, others, weighed, split, stop)
        show_stats(training)
        if options.stats_only:
            return 0
        for phase in phases_of(options):
            PHASES[phase](training)
            if stop():
                log.info("stopped and saved; the same command resumes")
                return STOPPED
    folder = options.config.output_dir
    log.info("weights in %s; curves: echelon report %s", folder, folder)
    return 0


def _logs_of(options: TrainOptions, agents: str) -> TournamentData:
    return open_tournament(
        options.data_dir, agents, options.num_workers, cache_dir=options.cache_dir,
        horizon=options.config.horizon, quiet=options.quiet or options.no_progress_bar,
    )  # fmt: skip


def phases_of(options: TrainOptions) -> list[str]:
    """The phases in their order; AWR needs a critic, which is trained first if it does not exist."""
    names = list(options.phase_names)
    if options.l3_awr:
        missing = not options.config.resume or not layer_path(options.config.output_dir / CRITIC).exists()
        after = names.index("l3") + 1
        names[after:after] = [CRITIC, "l3_awr"] if missing and CRITIC not in names else ["l3_awr"]
    return names


def show_stats(training: Training) -> None:
    macro, micro, l4 = macro_of(training.data), micro_of(training.data), l4_of(training.data)
    for split in SPLITS:
        days, decisions, sets = (len(rows.part(training.split, split)) for rows in (macro, micro, l4))
        configs = len(training.split.of(split))
        log.info("%-5s  %3d configurations  %7d days  %8d decisions  %7d sets", split, configs, days, decisions, sets)


@contextmanager
def stopping() -> Iterator[Stop]:
    """Ctrl-C and SIGTERM end the run after the batch in work, saved; a second Ctrl-C ends it at once."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked = True
        log.info("stopping after this batch …")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(training: Training, phase: str, reports: Iterator[EpochReport], layer: Layer, test: Rows[Any]) -> None:
    """Console, metrics.jsonl, TensorBoard; the test split once at the end."""
    cfg = training.cfg
    if not cfg.resume:
        forget_metrics(cfg.output_dir / "metrics.jsonl", phase)
    with without_console_lines(), MetricsWriter(cfg.output_dir) as metrics:
        if cfg.resume:
            recorded = _steps(metrics, f"{phase}/train_loss")
            for entry in history_of(phase, cfg.checkpoints):  # the machine may have died between saving and recording
                if entry["epoch"] not in recorded:
                    _record(metrics, phase, EpochReport(**entry))
        for report in reports:
            log.info("%s", report.line())
            _record(metrics, phase, report)
        tested = _last_epoch(cfg, phase) in _steps(metrics, f"{phase}/test_loss")
        if not (training.stop() or tested) and len(test):
            figures = measure_phase(phase, layer, test, cfg)
            metrics.record_all(
                {f"{phase}/test_{name}": value for name, value in figures.items()}, _last_epoch(cfg, phase)
            )
            log.info("%s test | %s", phase, "  ".join(f"{name} {value:.4g}" for name, value in figures.items()))


def _steps(metrics: MetricsWriter, name: str) -> set[int]:
    known = read_metrics(metrics.path).get(name)
    return set() if known is None else set(known.steps.tolist())


def forget_metrics(path: Path, phase: str) -> None:
    """Remove a phase's lines: it starts again."""
    if path.exists():
        others = [line for line in path.read_bytes().splitlines(keepends=True) if f'"{phase}/'.encode() not in line]
        write_atomic(path, b"".join(others))


def _last_epoch(cfg: TrainConfig, phase: str) -> int:
    history = history_of(phase, cfg.checkpoints)
    return int(history[-1]["epoch"]) if history else 0


def _record(metrics: MetricsWriter, phase: str, report: EpochReport) -> None:
    values = {f"train_{name}": value for name, value in report.train.items()}
    values |= {f"val_{name}": value for name, value in report.val.items()}
    values |= {
        "lr": report.lr, "seconds": report.seconds, "samples_per_second": report.samples_per_second,
        "loader_share": report.loader_share,
    }  # fmt: skip
    metrics.record_all({f"{phase}/{name}": value for name, value in values.items()}, report.epoch)


def _first(training: Training, kind: type[L], name: str, **options: Any) -> L:
    """A layer to train: new, or with the weights of --init-from, which must be of the options asked for."""
    cfg = training.cfg
    options = {"horizon": cfg.horizon} | options
    if cfg.init_from is None:
        torch.manual_seed(task_seed(cfg.seed, name, "weights"))
        return kind(**options)
    path = _given(cfg.init_from, name)
    layer = load_layer(kind, path).train()
    wrong = [
        f"{key}={layer.options.get(key, False)} there, {value} here"
        for key, value in options.items()
        if layer.options.get(key, False) != value
    ]
    if wrong:
        raise ValueError(f"--init-from {path} was trained with other options ({', '.join(wrong)}); use the same")
    log.info("%s starts from %s", name, path)
    return layer


def _given(folder: Path, layer: str) -> Path:
    """The file of a layer in --init-from: cloned weights before those of later stages, which start from cloned ones."""
    stems = STEMS[layer][::-1]
    found = [path for stem in stems if (path := layer_path(folder / stem)).exists()]
    if not found:
        raise FileNotFoundError(
            f"--init-from {folder} has no {' or '.join(f'{stem}.safetensors' for stem in stems)}; give the folder of a "
            f"training that has {layer}, or leave {layer} out of --phases"
        )
    return found[0]


def _l2(training: Training) -> None:
    train, val, test = training.parts(macro_of(training.data))
    layer = _first(training, HorizonManagerPPO, "l2", in_days=training.options.l2_in_days)
    follow(training, "l2_bc", l2_bc_epochs(layer, train, training.cfg, val, training.stop), layer, test)


def _with_goals(training: Training, source: str, data: TournamentData) -> TournamentData:
    """Logs with goals for L3 and L4; those of L2 need a trained one."""
    options = training.options
    path = None
    if source == "l2":
        path = layer_path(options.l2_model_path or training.cfg.output_dir / "l2_bc")
        if not path.exists():
            raise ValueError(
                f"{path} does not exist: L3 and L4 see the goals of a trained L2 (guide §1.4); "
                "train it first (--phases l2,l3), or name one with --l2-model-path"
            )
        load_l2(path)  # says what is wrong with it before the data are touched
    return with_goals(data, source, path, options.l2_backfill_batch_size, options.l2_backfill_device)


def _l3(training: Training) -> None:
    data = _with_goals(training, training.options.l3_goal_backfill, training.data)
    train, val, test = training.parts(micro_of(data))
    layer = _first(training, TemporalDecisionTransformer, "l3", mode=training.options.l3_mode)
    follow(training, "l3_bc", l3_bc_epochs(layer, train, training.cfg, val, training.stop), layer, test)


def _l3_awr(training: Training) -> None:
    data = _with_goals(training, training.options.l3_goal_backfill, training.weighed)
    train, val, test = training.parts(micro_of(data))
    layer = load_l3(training.cfg.output_dir / "l3_bc")
    follow(training, "l3_awr", l3_awr_epochs(layer, train, training.cfg, val, training.stop), layer, test)


def _critic(training: Training) -> None:
    assert training.others is not None
    train, val, test = training.parts(macro_of(training.others))
    torch.manual_seed(task_seed(training.cfg.seed, CRITIC, "weights"))
    layer = DayCritic(training.cfg.horizon)
    follow(training, CRITIC, critic_epochs(layer, train, training.cfg, val, training.stop), layer, test)


def _l4(training: Training) -> None:
    data = _with_goals(training, training.options.l4_goal_source, training.data)
    train, val, test = training.parts(l4_of(data))
    layer = _first(training, GlobalCoordinator, "l4")
    follow(training, "l4_distill", l4_distill_epochs(layer, train, training.cfg, val, training.stop), layer, test)


PHASES: dict[str, Callable[[Training], None]] = {
    CRITIC: _critic, "l2": _l2, "l3": _l3, "l3_awr": _l3_awr, "l4": _l4,
}  # fmt: skip
