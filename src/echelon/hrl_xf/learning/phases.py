"""The phases of training. Each is a function that trains and shows its epochs, or a generator of epochs for those
who want to do something between them:

    reports = train_l2_bc(l2, macro, cfg, val=macro_val)
    for report in l2_bc_epochs(l2, macro, cfg, val=macro_val): ...

What every phase writes below `output_dir`:

    checkpoints/l2_bc/l2_bc_epoch{N}/     whole state; `pointers.json` names `last` and `best`
    l2_bc.safetensors                     the best weights, self-describing (l3_bc, critic, l3_awr, l4_distill alike)
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from echelon.hrl_xf.dataset.datasets import L4Dataset, MacroDataset, MicroDataset, Rows, macro_of
from echelon.hrl_xf.layers.weight_files import layer_path
from echelon.hrl_xf.learning.advantages import Advantages, outcomes_of
from echelon.hrl_xf.learning.critic import CriticSource, critic_loss
from echelon.hrl_xf.learning.fit import checkpoint_path, fit, history_of
from echelon.hrl_xf.learning.losses import l2_loss, l3_loss, l4_loss, weigh, weight_distribution
from echelon.hrl_xf.learning.sources import L2Source, L3Source, L4Source
from echelon.hrl_xf.learning.task import EpochReport, FitSettings, FitTask, measure, shown
from echelon.hrl_xf.networks.day_critic import DayCritic, load_critic
from echelon.hrl_xf.networks.files import Layer, save_layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator
from echelon.hrl_xf.options.train import FitOptions, TrainConfig
from echelon.hrl_xf.weights import CRITIC
from echelon.runtime.devices import device_of

log = logging.getLogger(__name__)
Stop = Callable[[], bool]
P = ParamSpec("P")


def _never() -> bool:
    return False


def _fingerprint(*sets: Rows[Any] | None) -> str:
    """Names the data of a training: the logs, and which rows of them are in which part."""
    digest = hashlib.blake2b(digest_size=16)
    for part in sets:
        if part is not None and len(part):
            digest.update(part.data.fingerprint.encode())
            digest.update(part.rows.tobytes())
        digest.update(b"|")
    return digest.hexdigest()


def goal_digest(data: Rows[Any]) -> str:
    """Names the goals that L3 and L4 see."""
    goals = data.data.goals.values
    return (
        "zeros" if goals is None else hashlib.blake2b(goals[data.data.rows("day")].tobytes(), digest_size=8).hexdigest()
    )


def _digest(layer: Layer) -> str:
    """Names the weights a phase starts from."""
    digest = hashlib.blake2b(digest_size=8)
    for tensor in layer.state_dict().values():
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _check_horizon(
    layer: HorizonManagerPPO | TemporalDecisionTransformer | GlobalCoordinator | DayCritic, data: Rows[Any]
) -> None:
    if layer.horizon != data.data.horizon:
        raise ValueError(
            f"the {type(layer).__name__} has horizon {layer.horizon}, the data {data.data.horizon}; use one horizon"
        )


def _settings(cfg: TrainConfig, epochs: int, batch_size: int, lr: float, average: float | None = None) -> FitSettings:
    """The settings of one phase."""
    shared = {field.name: getattr(cfg, field.name) for field in fields(FitOptions)}
    if average is not None:
        shared["average"] = average
    return FitSettings(**shared, epochs=epochs, batch_size=batch_size, lr=lr)


def _phase(
    task: FitTask, settings: FitSettings, cfg: TrainConfig, resume_path: Path | None, stop: Stop
) -> Iterator[EpochReport]:
    """Fit on the device asked for, then write the best weights under the phase's name."""
    task.layer.to(device_of(cfg.device))
    resume = cfg.resume if resume_path is None else checkpoint_path(cfg.checkpoints, resume_path)
    yield from fit(task, settings, cfg.checkpoints, resume=resume, stop=stop)
    if not stop():
        best: dict[str, Any] = next((e for e in reversed(history_of(task.name, cfg.checkpoints)) if e["is_best"]), {})
        figures = {key: best[key] for key in ("epoch", "train", "val") if key in best}
        note = {"phase": task.name, "data": task.fingerprint, "epochs": settings.epochs, **task.describe}
        save_layer(task.layer, cfg.output_dir / task.name, note | {"best": figures})


def _begun(layer: Layer, cfg: TrainConfig) -> dict[str, Any]:
    """A digest of given first weights, for the checkpoints and the layer's file."""
    return {} if cfg.init_from is None else {"from": _digest(layer)}


def l2_bc_epochs(
    layer: HorizonManagerPPO, data: MacroDataset, cfg: TrainConfig, val: MacroDataset | None = None, stop: Stop = _never
) -> Iterator[EpochReport]:
    """L2 by behaviour cloning of the v2 goals."""
    _check_horizon(layer, data)
    describe = {"q_transform": cfg.l2_q_transform, "q_weight": cfg.l2_q_weight} | _begun(layer, cfg)
    sources = L2Source(data), None if val is None else L2Source(val)
    loss = l2_loss(cfg.l2_q_transform, cfg.l2_q_weight)
    task = FitTask("l2_bc", layer, *sources, loss, _fingerprint(data, val), describe)
    settings = _settings(cfg, cfg.l2_epochs, cfg.l2_batch_size, cfg.l2_lr)
    yield from _phase(task, settings, cfg, cfg.l2_resume_path, stop)


def _goals(data: Rows[Any], cfg: TrainConfig) -> dict[str, Any]:
    return {"goals": goal_digest(data)} if cfg.check_goals else {}


def _l3_describe(layer: TemporalDecisionTransformer, data: MicroDataset, cfg: TrainConfig) -> dict[str, Any]:
    source = data.data.goals.source
    if source != "l2":
        log.warning(
            "L3 learns with goals from %r; in play goals are L2's: load the data with goal_backfill='l2'", source
        )
    return {"mode": layer.mode} | _goals(data, cfg)


def l3_bc_epochs(
    layer: TemporalDecisionTransformer,
    data: MicroDataset,
    cfg: TrainConfig,
    val: MicroDataset | None = None,
    stop: Stop = _never,
) -> Iterator[EpochReport]:
    """L3 by behaviour cloning of the expert's answers."""
    _check_horizon(layer, data)
    sources = L3Source(data, layer.mode), None if val is None else L3Source(val, layer.mode)
    describe = _l3_describe(layer, data, cfg) | _begun(layer, cfg)
    task = FitTask("l3_bc", layer, *sources, l3_loss, _fingerprint(data, val), describe)
    settings = _settings(cfg, cfg.l3_epochs, cfg.l3_batch_size, cfg.l3_lr)
    yield from _phase(task, settings, cfg, cfg.l3_bc_resume_path, stop)


def critic_epochs(
    layer: DayCritic, data: MacroDataset, cfg: TrainConfig, val: MacroDataset | None = None, stop: Stop = _never
) -> Iterator[EpochReport]:
    """The critic from the returns of recorded days, of good agents and bad ones."""
    _check_horizon(layer, data)
    train, check = CriticSource(data), None if val is None else CriticSource(val)
    if len(train) and layer.is_new:
        layer.scale_to(float(train.target.mean()), float(train.target.std()))
    task = FitTask(CRITIC, layer, train, check, critic_loss, _fingerprint(data, val))
    settings = _settings(cfg, cfg.critic_epochs, cfg.critic_batch_size, cfg.critic_lr)
    yield from _phase(task, settings, cfg, cfg.critic_resume_path, stop)


def l3_awr_epochs(
    layer: TemporalDecisionTransformer,
    data: MicroDataset,
    cfg: TrainConfig,
    val: MicroDataset | None = None,
    stop: Stop = _never,
    critic: DayCritic | None = None,
) -> Iterator[EpochReport]:
    """L3 by advantage-weighted regression, from the weights of `layer` (behaviour cloning). Its files are its own.

    Without a `critic`, the one in `output_dir` is used.
    """
    _check_horizon(layer, data)
    judge = load_critic(cfg.output_dir / CRITIC) if critic is None else critic
    train, check = L3Source(data, layer.mode), None if val is None else L3Source(val, layer.mode)
    outcomes = outcomes_of(data, judge, cfg.awr_lambda)
    advantages = Advantages.fit(outcomes, cfg.awr_beta, cfg.awr_max_weight)
    weigh(train, outcomes, advantages)
    if val is not None and check is not None and len(check):
        weigh(check, outcomes_of(val, judge, cfg.awr_lambda), advantages)
    weights = weight_distribution(train)
    log.info("l3_awr: %s", "  ".join(f"{name} {value:.3g}" for name, value in weights.items()))
    describe = _l3_describe(layer, data, cfg) | {"beta": cfg.awr_beta, "max_weight": cfg.awr_max_weight}
    describe |= {"lambda": cfg.awr_lambda, "critic": _digest(judge)}
    describe |= {"from": _digest(layer), "weights": {name: round(value, 6) for name, value in weights.items()}}
    task = FitTask("l3_awr", layer, train, check, l3_loss, _fingerprint(data, val), describe)
    settings = _settings(cfg, cfg.l3_awr_epochs, cfg.l3_batch_size, cfg.l3_awr_lr)
    yield from _phase(task, settings, cfg, cfg.l3_awr_resume_path, stop)


def l4_distill_epochs(
    layer: GlobalCoordinator, data: L4Dataset, cfg: TrainConfig, val: L4Dataset | None = None, stop: Stop = _never
) -> Iterator[EpochReport]:
    """L4 from the heuristic coordinator."""
    _check_horizon(layer, data)
    sources = L4Source(data), None if val is None else L4Source(val)
    describe = _goals(data, cfg) | _begun(layer, cfg)
    task = FitTask("l4_distill", layer, *sources, l4_loss, _fingerprint(data, val), describe)
    settings = _settings(cfg, cfg.l4_epochs, cfg.l4_batch_size, cfg.l4_lr, average=0.0)
    yield from _phase(task, settings, cfg, cfg.l4_resume_path, stop)


def _all_epochs(epochs: Callable[P, Iterator[EpochReport]]) -> Callable[P, list[EpochReport]]:
    """The function that runs a phase to its end; each epoch is shown."""

    @wraps(epochs)
    def train(*args: P.args, **kwargs: P.kwargs) -> list[EpochReport]:
        return shown(epochs(*args, **kwargs))

    return train


train_l2_bc = _all_epochs(l2_bc_epochs)
train_l3_bc = _all_epochs(l3_bc_epochs)
train_critic = _all_epochs(critic_epochs)
train_l4_distill = _all_epochs(l4_distill_epochs)


def train_l3_awr(
    layer: TemporalDecisionTransformer,
    data: MicroDataset,
    cfg: TrainConfig,
    val: MicroDataset | None = None,
    critic: DayCritic | None = None,
) -> list[EpochReport]:
    """Train L3 by advantage-weighted regression from its current weights; each epoch is logged.

    Without a `critic`, the one in `output_dir` is used; where there is none, one is trained on the days of `data`.
    """
    if critic is None and not layer_path(cfg.output_dir / CRITIC).exists():
        train_critic(DayCritic(data.data.horizon), macro_of(data.data).of_logs(np.unique(data.log)), cfg)
    return shown(l3_awr_epochs(layer, data, cfg, val, critic=critic))


def measure_phase(phase: str, layer: Layer, data: Rows[Any], cfg: TrainConfig) -> dict[str, float]:
    """What a phase reports, on other data: for the test split, once at the end."""
    if isinstance(layer, HorizonManagerPPO):
        assert isinstance(data, MacroDataset)
        return measure(layer, L2Source(data), l2_loss(cfg.l2_q_transform, cfg.l2_q_weight), 4096)
    if isinstance(layer, DayCritic):
        assert isinstance(data, MacroDataset)
        return measure(layer, CriticSource(data), critic_loss, 4096)
    if isinstance(layer, TemporalDecisionTransformer):
        assert isinstance(data, MicroDataset)
        return measure(layer, L3Source(data, layer.mode), l3_loss, 4096)
    assert isinstance(data, L4Dataset), phase
    return measure(layer, L4Source(data), l4_loss, 4096)
