"""What is fitted and how: a task, its settings, and what an epoch gives."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.networks.files import Layer
from echelon.hrl_xf.options.train import FitOptions
from echelon.runtime.arrays import Ints
from echelon.runtime.devices import device_of_layer, on_device

log = logging.getLogger(__name__)
Sums = dict[str, tuple[float, float]]
"""By name: the sum over samples, and over how many."""


class Source(Protocol):
    """Rows that can be loaded as batches."""

    def __len__(self) -> int: ...
    def load(self, at: Ints) -> Any: ...
    def epoch(self, batch_size: int, rng: np.random.Generator | None) -> list[Ints]:
        """Batches of an epoch; without a generator, in the order of the rows."""


@dataclass(frozen=True)
class FitTask:
    """Something to learn: a layer, its data, and the loss of a batch with the sums to report."""

    name: str
    layer: Layer
    train: Source
    val: Source | None
    loss: Callable[[Layer, Any], tuple[Tensor, Sums]]
    fingerprint: str
    """of the data, so that a checkpoint is not continued on others"""
    describe: Mapping[str, Any] = field(default_factory=dict)
    """what else must be the same to resume: options of the loss"""


@dataclass(frozen=True, kw_only=True)
class FitSettings(FitOptions):
    """How one phase is fitted: what all phases have in common, and its own numbers."""

    epochs: int
    batch_size: int
    lr: float
    weight_decay: float = 1e-4
    clip_norm: float = 1.0
    warmup_steps: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs < 0 or self.batch_size < 1:
            raise ValueError(f"epochs={self.epochs} must not be negative, batch_size={self.batch_size} at least 1")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr={self.lr} must be positive")


@dataclass(frozen=True)
class EpochReport:
    """What an epoch gave."""

    phase: str
    epoch: int
    epochs: int
    train: dict[str, float]
    val: dict[str, float]
    lr: float
    seconds: float
    samples_per_second: float
    loader_share: float
    is_best: bool

    def line(self) -> str:
        """For the console."""
        shown = "  ".join(f"{name} {value:.4g}" for name, value in self.train.items())
        val = "  ".join(f"{name} {value:.4g}" for name, value in self.val.items())
        return (
            f"{self.phase} epoch {self.epoch}/{self.epochs}{' *' if self.is_best else ''} | {shown}"
            + (f" | val {val}" if val else "")
            + f" | {self.samples_per_second:,.0f} samples/s"
        )


def mean_of(sums: Mapping[str, tuple[float, float] | list[float]]) -> dict[str, float]:
    """Means of what was summed; a name without samples (a head without targets) has none."""
    return {name: s / n for name, (s, n) in sums.items() if n}


def measure(
    layer: Layer, source: Source, loss: Callable[[Layer, Any], tuple[Tensor, Sums]], batch_size: int
) -> dict[str, float]:
    """The means over a whole source, without learning."""
    total: dict[str, list[float]] = {}
    layer.eval()
    device = device_of_layer(layer)
    with torch.no_grad():
        for at in source.epoch(batch_size, None):
            add_sums(total, loss(layer, on_device(source.load(at), device))[1])
    return mean_of(total)


def add_sums(total: dict[str, list[float]], sums: Sums) -> None:
    """Add the sums of a batch to a total."""
    for name, (s, n) in sums.items():
        entry = total.setdefault(name, [0.0, 0.0])
        entry[0] += s
        entry[1] += n


def shown(reports: Iterator[EpochReport]) -> list[EpochReport]:
    """All epochs, each logged as it ends; a script that has set up no logging sees them on its standard output."""
    silent = not log.hasHandlers()
    handler, package = logging.StreamHandler(sys.stdout), logging.getLogger("echelon")
    level = package.level
    if silent:
        package.addHandler(handler)
        package.setLevel(logging.INFO)
    try:
        done = []
        for report in reports:
            log.info("%s", report.line())
            done.append(report)
        return done
    finally:
        if silent:
            package.removeHandler(handler)
            package.setLevel(level)
