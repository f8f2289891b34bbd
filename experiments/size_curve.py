"""How large the layers need to be: validation loss against parameters, for L2, L3 and L4.

Every size of a layer is trained on the same split with the same epochs, learning rate, batches and early stop, from
several seeds; what counts is the best validation loss of a run. L3 and L4 see the goals of one L2 of the default size.
Prints a table; writes size_curve.json and size_curve.svg. If stopped, the same command resumes. Run:

`python experiments/size_curve.py --data-dir DIR --agent-name NAME --output-dir runs/size-curve`
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from matplotlib.figure import Figure

from echelon.hrl_xf.dataset.datasets import Rows, l4_of, macro_of, micro_of
from echelon.hrl_xf.dataset.goal_backfill import with_goals
from echelon.hrl_xf.dataset.split import WorldSplit, world_split
from echelon.hrl_xf.dataset.tournament import TournamentData, open_tournament
from echelon.hrl_xf.learning.fit import history_of
from echelon.hrl_xf.learning.phases import l2_bc_epochs, l3_bc_epochs, l4_distill_epochs
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator
from echelon.hrl_xf.options.train import TrainConfig

SIZES: dict[str, list[dict[str, Any]]] = {
    "l2": [{"channels": (c, 2 * c), "hidden": 4 * c} for c in (2, 4, 8, 16, 32, 64)],
    "l3": [
        {"width": 8, "layers": 1, "hidden": 16}, {"width": 16, "layers": 1, "hidden": 32},
        {"width": 32, "layers": 2, "hidden": 64}, {"width": 48, "layers": 2, "hidden": 128},
        {"width": 80, "layers": 2, "hidden": 224},
    ],
    "l4": [{"width": w} for w in (4, 8, 16, 32, 64)],
}  # fmt: skip
LAYERS = {"l2": HorizonManagerPPO, "l3": TemporalDecisionTransformer, "l4": GlobalCoordinator}
PHASES = {"l2": "l2_bc", "l3": "l3_bc", "l4": "l4_distill"}
FIGURE = {"l2": "loss", "l3": "loss", "l4": "excess"}
"""Of L4's loss, nearly all is the teacher's own entropy, the same for every size: shown is what lies above it."""


@dataclass(frozen=True)
class Point:
    """One size of a layer."""

    layer: str
    size: dict[str, Any]
    parameters: int
    losses: list[float]
    """best validation loss of each seed; L4's above its teacher's entropy"""
    epochs: list[int]
    """at which it was reached"""
    seconds: float
    """of training an epoch, in the mean"""


def config(output_dir: Path, seed: int, options: argparse.Namespace) -> TrainConfig:
    return TrainConfig(
        output_dir=output_dir, seed=seed, early_stop=options.early_stop, l2_epochs=options.l2_epochs,
        l3_epochs=options.l3_epochs, l4_epochs=options.l4_epochs, save_every=1_000, resume=True, check_goals=True,
    )  # fmt: skip


def train(layer: str, size: dict[str, Any], parts: tuple[Any, Any], cfg: TrainConfig) -> int:
    """Train one size from one seed; returns its parameters."""
    train_rows, val_rows = parts
    torch.manual_seed(cfg.seed)
    made: Any = LAYERS[layer](**size)
    fit: Any = {"l2": l2_bc_epochs, "l3": l3_bc_epochs, "l4": l4_distill_epochs}[layer]
    for _ in fit(made, train_rows, cfg, val_rows):
        pass
    return sum(p.numel() for p in made.parameters())


def curve(layer: str, rows: Rows[Any], split: WorldSplit, options: argparse.Namespace) -> Iterator[Point]:
    parts = rows.part(split, "train"), rows.part(split, "val")
    for number, size in enumerate(SIZES[layer]):
        losses, epochs, seconds, parameters = [], [], [], 0
        for seed in options.seeds:
            cfg = config(options.output_dir / f"{layer}-{number}" / f"seed{seed}", seed, options)
            parameters = train(layer, size, parts, cfg)
            history = history_of(PHASES[layer], cfg.checkpoints)
            best = min(history, key=lambda epoch: epoch["val"]["loss"])
            losses.append(best["val"][FIGURE[layer]])
            epochs.append(best["epoch"])
            seconds += [epoch["seconds"] for epoch in history]
        yield Point(layer, size, parameters, losses, epochs, mean(seconds))


def goals(data: TournamentData, split: WorldSplit, options: argparse.Namespace) -> None:
    """What L3 and L4 see: the predictions of an L2 of the default size."""
    cfg = config(options.output_dir / "goals", options.seeds[0], options)
    macro = macro_of(data)
    train("l2", {}, (macro.part(split, "train"), macro.part(split, "val")), cfg)
    data = with_goals(data, "l2", options.output_dir / "goals" / "l2_bc.safetensors")


def show(point: Point) -> None:
    size = ", ".join(f"{name} {value}" for name, value in point.size.items())
    losses = " ".join(f"{loss:.4g}" for loss in point.losses)
    print(
        f"| {point.layer} | {size} | {point.parameters:,} | {mean(point.losses):.4g} | {losses} | "
        f"{' '.join(map(str, point.epochs))} | {point.seconds:.2f} |",
        flush=True,
    )


def draw(points: list[Point], path: Path) -> None:
    """Loss against parameters, one panel a layer; dots are seeds, the line is their mean."""
    layers = list(dict.fromkeys(point.layer for point in points))
    figure = Figure(figsize=(4.2 * len(layers), 3.2), layout="constrained")
    for axes, layer in zip(figure.subplots(1, len(layers), squeeze=False)[0], layers, strict=True):
        mine = [point for point in points if point.layer == layer]
        x = [point.parameters for point in mine]
        axes.plot(x, [mean(point.losses) for point in mine], color="#2a6f97")
        for point in mine:
            axes.plot([point.parameters] * len(point.losses), point.losses, ".", color="#e07a2f")
        axes.set(title=layer.upper(), xscale="log", xlabel="parameters", ylabel=f"best validation {FIGURE[layer]}")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--cache-dir", type=Path)
    parser.add_argument("--agent-name", default="PenguinAgent")
    parser.add_argument("--output-dir", type=Path, default=Path("runs/size-curve"))
    parser.add_argument("--layers", nargs="+", default=["l2", "l3", "l4"], choices=list(LAYERS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--early-stop", type=int, default=10)
    for layer, epochs in (("l2", 60), ("l3", 20), ("l4", 20)):
        parser.add_argument(f"--{layer}-epochs", type=int, default=epochs, help="at most")
    for name in ("--val-ratio", "--test-ratio"):
        parser.add_argument(name, type=float, default=0.15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = open_tournament(options.data_dir, options.agent_name, cache_dir=options.cache_dir, quiet=True)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    configs = (record.config_id for record in data.records)
    split = world_split(options.output_dir, configs, val_ratio=options.val_ratio, test_ratio=options.test_ratio, seed=0)
    if {"l3", "l4"} & set(options.layers):
        goals(data, split, options)
    print("| layer | size | parameters | best val loss | by seed | at epoch | s/epoch |\n|" + " --- |" * 7)
    points: list[Point] = []
    for layer in options.layers:
        rows: Any = {"l2": macro_of, "l3": micro_of, "l4": l4_of}[layer](data)
        for point in curve(layer, rows, split, options):
            show(point)
            points.append(point)
            table = [vars(p) for p in points]
            (options.output_dir / "size_curve.json").write_text(json.dumps({"format_version": 1, "points": table}))
            draw(points, options.output_dir / "size_curve.svg")


if __name__ == "__main__":
    main()
