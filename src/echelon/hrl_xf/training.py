"""Training of the layers, as the guides call it; the phases themselves are in `learning.phases` and `online`.

`HRLXFTrainer` holds layers and runs phases for scripts. The order is the guides' §1.4: L2 on v2 goals; its predictions
are the goals L3 sees (`load_tournament_data(goal_backfill="l2")`); L3 by behaviour cloning, then AWR from there, with
a critic that has learnt what days earn; L4 from its teacher.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from echelon.hrl_xf.dataset.datasets import L4Dataset, MacroDataset, MicroDataset
from echelon.hrl_xf.learning.phases import (
    critic_epochs,
    l2_bc_epochs,
    l3_awr_epochs,
    l3_bc_epochs,
    l4_distill_epochs,
    train_critic,
    train_l2_bc,
    train_l3_awr,
    train_l3_bc,
    train_l4_distill,
)
from echelon.hrl_xf.learning.task import EpochReport
from echelon.hrl_xf.networks.files import Layer, load_layer, save_layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator
from echelon.hrl_xf.online.run import train_online
from echelon.hrl_xf.options.online import OnlineOptions
from echelon.hrl_xf.options.train import TrainConfig

__all__ = [
    "HRLXFTrainer",
    "TrainConfig",
    "critic_epochs",
    "l2_bc_epochs",
    "l3_awr_epochs",
    "l3_bc_epochs",
    "l4_distill_epochs",
    "save_model",
    "train_critic",
    "train_l2_bc",
    "train_l3_awr",
    "train_l3_bc",
    "train_l4_distill",
]

T = TypeVar("T")


def save_model(model: Layer, output_dir: str | Path, name: str) -> Path:
    """Write a layer's weights under a name such as `l2_bc.pt`; the file is `l2_bc.safetensors`, and both names load."""
    return save_layer(model, Path(output_dir) / name)


class HRLXFTrainer:
    """The phases for scripts; a layer that is not trained may be None, and so may data sets be empty."""

    def __init__(
        self,
        l2: HorizonManagerPPO | None,
        l3: TemporalDecisionTransformer | None,
        l4: GlobalCoordinator | None,
        cfg: TrainConfig,
    ) -> None:
        self.l2, self.l3, self.l4, self.cfg = l2, l3, l4, cfg
        self.l3_awr: TemporalDecisionTransformer | None = None
        """L3 after AWR; `l3` stays what behaviour cloning made it"""

    def train_phase0_bc(
        self,
        macro: MacroDataset | Sequence[Any],
        micro: MicroDataset | Sequence[Any],
        macro_val: MacroDataset | None = None,
        micro_val: MicroDataset | None = None,
    ) -> list[EpochReport]:
        """Behaviour cloning of L2 and L3, as far as there is data."""
        reports: list[EpochReport] = []
        if len(macro):
            layer = _needed(self.l2, "L2", "macro samples")
            reports += train_l2_bc(layer, _data_set(macro, MacroDataset), self.cfg, macro_val)
        if len(micro):
            l3 = _needed(self.l3, "L3", "micro samples")
            reports += train_l3_bc(l3, _data_set(micro, MicroDataset), self.cfg, micro_val)
        return reports

    def train_phase1_awr(self, micro: MicroDataset, micro_val: MicroDataset | None = None) -> list[EpochReport]:
        """AWR of a copy of L3; the cloned weights and their files stay. The critic is that of `output_dir`, or is
        trained first."""
        self.l3_awr = copy.deepcopy(_needed(self.l3, "L3", "micro samples"))
        return train_l3_awr(self.l3_awr, _data_set(micro, MicroDataset), self.cfg, micro_val)

    def train_l4_distill(self, samples: L4Dataset, val: L4Dataset | None = None) -> list[EpochReport]:
        """L4 from its teacher."""
        layer = _needed(self.l4, "L4", "sets of threads")
        return train_l4_distill(layer, _data_set(samples, L4Dataset), self.cfg, val)

    def train_phase2_ppo(self, options: OnlineOptions) -> None:
        """Improve the layers by playing, as `echelon hrl online` does; afterwards the trainer holds the best by
        validation. It starts from the trainer's own layers, written to `start` in the run's folder: `options.init` is
        not looked at."""
        layers = {"l2_bc": self.l2, "l3_bc": self.l3, "l4_distill": self.l4}
        start = options.output_dir.with_name(f"{options.output_dir.name}_start")
        for stem, layer in layers.items():
            save_layer(_needed(layer, stem[:2].upper(), "worlds to play"), start / stem)
        train_online(replace(options, init=str(start)))
        self.l2 = load_layer(HorizonManagerPPO, options.output_dir / "l2_ppo")
        self.l3 = load_layer(TemporalDecisionTransformer, options.output_dir / "l3_ppo")
        self.l4 = load_layer(GlobalCoordinator, options.output_dir / "l4_ppo")

    def save_all(self, tag: str) -> list[Path]:
        """Write the layers there are as `<tag>_l2`, `<tag>_l3`, `<tag>_l3_awr`, `<tag>_l4`."""
        layers: dict[str, Layer | None] = {"l2": self.l2, "l3": self.l3, "l3_awr": self.l3_awr, "l4": self.l4}
        folder = self.cfg.output_dir
        return [save_model(layer, folder, f"{tag}_{name}") for name, layer in layers.items() if layer is not None]


def _needed(layer: T | None, name: str, what: str) -> T:
    if layer is None:
        raise ValueError(f"there are {what} to learn from, but the trainer was made without an {name}")
    return layer


def _data_set(data: Any, kind: type[T]) -> T:
    if not isinstance(data, kind):
        raise ValueError(f"training needs a {kind.__name__} as data_pipeline loads it, not a {type(data).__name__}")
    return data
