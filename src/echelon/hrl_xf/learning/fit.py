"""A fit that can be stopped at any moment and resumes bit for bit: the loop of every phase of training.

    for report in fit(task, settings, folder, resume=True): ...      # one report per epoch

The order of batches and the learning rate are functions of seed, epoch and step; what else there is (weights,
optimiser, place in the epoch, sums so far, history, the best so far) is in the checkpoint. Checkpoints are written at
the end of epochs (`l2_bc_epoch3`) and, for long epochs, every `checkpoint_seconds` in between; when they are written
has no effect on the numbers.

With `average`, the weights that count (validated, saved, returned) are a running mean of those that are trained; a
checkpoint holds both.
"""

from __future__ import annotations

import logging
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.layers.weight_files import LayerFileError
from echelon.hrl_xf.learning.task import EpochReport, FitSettings, FitTask, add_sums, mean_of, measure
from echelon.hrl_xf.networks.files import fit_weights
from echelon.hrl_xf.state.day_batch import FEATURE_VERSION
from echelon.onpolicy.optimizer import JointAdam
from echelon.runtime.checkpoint import Checkpoint, CheckpointError, latest, load_checkpoint, save_checkpoint
from echelon.runtime.devices import device_of_layer, on_device
from echelon.runtime.rundir import diff_options
from echelon.runtime.seeding import rng

log = logging.getLogger(__name__)


@dataclass
class _Progress:
    """The progress of a fit."""

    epoch: int = 1
    """the epoch in work"""
    batch: int = 0
    """batches of it that are done"""
    step: int = 0
    sums: dict[str, list[float]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    best_loss: float | None = None
    best_epoch: int = 0
    lr: float = 0.0

    @property
    def place(self) -> tuple[int, int]:
        return self.epoch, self.batch


class _Fit:
    """One phase of training with its checkpoints."""

    def __init__(self, task: FitTask, settings: FitSettings, folder: Path) -> None:
        self.task, self.settings = task, settings
        self.epochs_dir, self.partial_dir = folder / task.name, folder / f".{task.name}-partial"
        self.device = device_of_layer(task.layer)
        self.optimiser: JointAdam | None = None
        """made at the first step, over the parameters that the loss reaches"""
        self.learnt: list[str] = []
        """their names"""
        self.average: Tensor | None = None
        """running mean of the weights, as one array"""
        self.progress = _Progress()

    def _learn(self, names: list[str]) -> JointAdam:
        parameters, s = dict(self.task.layer.named_parameters()), self.settings
        self.learnt = names
        self.optimiser = JointAdam((parameters[n] for n in names), s.lr, eps=1e-8, weight_decay=s.weight_decay)
        if s.average:
            self.average = self.optimiser.joint.clone()
        return self.optimiser

    @contextmanager
    def _averaged(self) -> Iterator[Tensor | None]:
        """The layer with the mean weights; gives those of training, if they are others."""
        if self.optimiser is None or self.average is None:
            yield None
            return
        joint = self.optimiser.joint
        training = joint.clone()
        joint.copy_(self.average)
        yield training
        joint.copy_(training)

    # -- checkpoints

    def config(self) -> dict[str, Any]:
        task, settings = self.task, self.settings
        return {
            "phase": task.name, "class": type(task.layer).__name__, "options": task.layer.options,
            "data": task.fingerprint, "feature_version": FEATURE_VERSION, "task": dict(task.describe),
            "batch_size": settings.batch_size, "seed": settings.seed, "weight_decay": settings.weight_decay,
            "clip_norm": settings.clip_norm, "warmup_steps": settings.warmup_steps, "average": settings.average,
        }  # fmt: skip

    def save(self, directory: Path, name: str, *, best: bool = False, keep_last: int | None = None) -> None:
        optimiser = {} if self.optimiser is None else self.optimiser.state_dict()
        state = {
            "progress": asdict(self.progress), "learnt": self.learnt,
            "versions": {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()},
            "settings": asdict(self.settings),
        }  # fmt: skip
        with self._averaged() as training:
            tensors = {"weights": dict(self.task.layer.state_dict()), "optimiser": optimiser}
            if training is not None and self.optimiser is not None:
                tensors["optimiser"]["training"] = self.optimiser.without_gaps(training)
            save_checkpoint(
                directory, name, tensors=tensors, state=state, config=self.config(), best=best, keep_last=keep_last
            )

    def restore(self, path: Path) -> None:
        """Go on from a checkpoint; `CheckpointError` says why it cannot be."""
        saved = load_checkpoint(path)
        if not isinstance(saved.config, dict) or "phase" not in saved.config:
            raise CheckpointError(f"{path} is not a checkpoint of a layer's training")
        differences = diff_options(saved.config, self.config())
        if differences:
            lines = "\n".join(f"  {line}" for line in differences)
            raise CheckpointError(
                f"{path} belongs to another training:\n{lines}\n"
                "give the same as at its start, or start again (--no-resume)"
            )
        try:
            fit_weights(self.task.layer, saved.tensors["weights"], path)
        except LayerFileError as error:
            raise CheckpointError(str(error)) from error
        if "learnt" not in saved.state:
            raise CheckpointError(f"{path} is of an earlier Echelon, whose optimiser was kept otherwise; --no-resume")
        if saved.state["learnt"]:
            moments = dict(saved.tensors["optimiser"])
            training = moments.pop("training", None)
            optimiser = self._learn(saved.state["learnt"])  # the mean of the weights begins as those in the layer
            optimiser.load_state_dict(moments)
            if training is not None:
                optimiser.joint.copy_(optimiser.with_gaps(training))
        self.progress = _Progress(**saved.state["progress"])

    def find(self) -> Path | None:
        """The checkpoint that is furthest on."""
        there = [path for path in (latest(self.epochs_dir), latest(self.partial_dir)) if path is not None]
        return max(there, key=lambda path: _place_of(load_checkpoint(path)), default=None)

    def take_best(self) -> None:
        """Give the layer the best weights so far. By the epoch's number: a fit that began again at an earlier
        checkpoint must not take the best of what it left behind."""
        if self.progress.best_epoch:
            path = self.epochs_dir / f"{self.task.name}_epoch{self.progress.best_epoch}"
            fit_weights(self.task.layer, load_checkpoint(path).tensors["weights"], path)
        self.task.layer.eval()

    def forget(self) -> None:
        for folder in (self.epochs_dir, self.partial_dir):
            if folder.exists():
                shutil.rmtree(folder)

    # -- the loop

    def run(self, stop: Callable[[], bool]) -> Iterator[EpochReport]:
        settings, progress = self.settings, self.progress
        while progress.epoch <= settings.epochs and not self._gave_up():
            begun = time.perf_counter()
            done = self._epoch(stop)
            if done is None:
                return
            samples, loading = done
            yield self._close(time.perf_counter() - begun, samples, loading)

    def _gave_up(self) -> bool:
        patience, progress = self.settings.early_stop, self.progress
        return bool(patience and progress.best_epoch and progress.epoch - 1 - progress.best_epoch >= patience)

    def _epoch(self, stop: Callable[[], bool]) -> tuple[int, float] | None:
        """The rest of the epoch in work; returns samples and seconds of loading, or None if it was stopped."""
        task, settings, progress = self.task, self.settings, self.progress
        batches = task.train.epoch(settings.batch_size, rng(settings.seed, task.name, "epoch", progress.epoch))
        task.layer.train()
        samples, loading, saved_at = 0, 0.0, time.perf_counter()
        for number in range(progress.batch, len(batches)):
            if stop():
                self._save_partial()
                return None
            begun = time.perf_counter()
            batch = on_device(task.train.load(batches[number]), self.device)
            loading += time.perf_counter() - begun
            self._step(batch)
            progress.batch = number + 1
            samples += len(batches[number])
            if settings.log_every and progress.batch % settings.log_every == 0:
                loss = mean_of(progress.sums).get("loss", 0.0)
                place = task.name, progress.epoch, number + 1, len(batches)
                log.info("%s epoch %d batch %d/%d  loss %.4g", *place, loss)
            if time.perf_counter() - saved_at >= settings.checkpoint_seconds and progress.batch < len(batches):
                self._save_partial()
                saved_at = time.perf_counter()
        return samples, loading

    def _save_partial(self) -> None:
        name = f"{self.task.name}_epoch{self.progress.epoch}_batch{self.progress.batch}"
        self.save(self.partial_dir, name, keep_last=1)

    def _step(self, batch: Any) -> None:
        task, settings, progress = self.task, self.settings, self.progress
        progress.step += 1
        progress.lr = settings.lr * min(1.0, progress.step / max(1, settings.warmup_steps))
        loss, sums = task.loss(task.layer, batch)
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"{task.name} epoch {progress.epoch} batch {progress.batch}: the loss is {loss.item()}"
            )
        if self.optimiser is not None:
            self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser = self.optimiser or self._learn([n for n, p in task.layer.named_parameters() if p.grad is not None])
        optimiser.lr = progress.lr  # from the settings at each step: a resumed run uses the rate it was given
        gradient = optimiser.gather()
        gradient.mul_((settings.clip_norm / (torch.linalg.vector_norm(gradient) + 1e-6)).clamp_(max=1.0))
        optimiser.step()
        if self.average is not None:
            share = min(settings.average, (progress.step + 1) / (progress.step + 10))  # soon forgets where it began
            self.average.lerp_(optimiser.joint, 1.0 - share)
        add_sums(progress.sums, sums)

    def _close(self, seconds: float, samples: int, loading: float) -> EpochReport:
        """Validate, save, and go to the next epoch."""
        task, settings, progress = self.task, self.settings, self.progress
        train = mean_of(progress.sums)
        val: dict[str, float] = {}
        if task.val is not None and len(task.val):
            with self._averaged():
                val = measure(task.layer, task.val, task.loss, 4 * settings.batch_size)
        if "loss" not in train:
            raise ValueError(f"{task.name}: no row of the training split has a target; collect more, or another expert")
        judged = (val if "loss" in val else train)["loss"]
        is_best = progress.best_loss is None or judged < progress.best_loss
        if is_best:
            progress.best_loss, progress.best_epoch = judged, progress.epoch
        report = EpochReport(
            task.name, progress.epoch, settings.epochs, train, val, progress.lr, seconds, samples / max(seconds, 1e-9),
            loading / max(seconds, 1e-9), is_best,
        )  # fmt: skip
        progress.history.append(asdict(report))
        epoch = progress.epoch
        progress.epoch, progress.batch, progress.sums = epoch + 1, 0, {}
        if is_best or epoch % settings.save_every == 0 or epoch >= settings.epochs or self._gave_up():
            self.save(self.epochs_dir, f"{task.name}_epoch{epoch}", best=is_best)
        else:
            self._save_partial()
        return report


def _place_of(saved: Checkpoint) -> tuple[int, int]:
    progress = saved.state["progress"]
    return progress["epoch"], progress["batch"]


def fit(
    task: FitTask,
    settings: FitSettings,
    folder: Path,
    *,
    resume: bool | Path = False,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[EpochReport]:
    """Fit a task, epoch by epoch; afterwards the layer has the best weights (by validation, if there is any).

    `resume=True` resumes from the newest checkpoint in `folder`, a path from that one; otherwise the task's checkpoints
    are removed and it starts again. `stop()` is asked before each batch: True saves and ends.
    """
    if not len(task.train):
        raise ValueError(f"{task.name}: there is nothing to train on; the training split is empty")
    this = _Fit(task, settings, folder)
    if resume is False:
        this.forget()
    else:
        path = this.find() if resume is True else checkpoint_path(folder, resume)
        if path is not None:
            this.restore(path)
            log.info("%s resumes at epoch %d, batch %d", task.name, this.progress.epoch, this.progress.batch)
    yield from this.run(stop)
    if not stop():
        this.take_best()
        shutil.rmtree(this.partial_dir, ignore_errors=True)  # the last epoch is saved: nothing is in between


def history_of(task_name: str, folder: Path) -> list[dict[str, Any]]:
    """The epochs that are done, from the newest checkpoint."""
    path = latest(folder / task_name)
    return [] if path is None else list(load_checkpoint(path).state["progress"]["history"])


def checkpoint_path(folder: Path, named: Path) -> Path:
    """The checkpoint a path means: `…/l2_bc_epoch3`, also written `…/l2_bc_epoch3.ckpt.pt`."""
    name = re.sub(r"(\.ckpt)?\.pt$", "", named.name)
    stem = re.sub(r"_epoch\d+(_batch\d+)?$", "", name)
    for path in (named, named.with_name(name), folder / stem / name):
        if (path / "state.json").is_file():
            return path
    raise FileNotFoundError(f"checkpoint {named} does not exist; looked for {folder / stem / name} too")
