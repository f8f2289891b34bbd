"""Options of `echelon hrl dataset`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from echelon.runtime.flags import Flag


@dataclass(frozen=True)
class DatasetOptions:
    """Turn recorded tournaments into training data: parsed once, opened quickly afterwards.

    `echelon hrl dataset --data-dir tournament_history/hrl_data_…_std --agent-name PenguinAgent`

    Writes world_split.json and summary.json, for `echelon report`. New logs are added when the command runs again.
    """

    data_dir: Path
    """a collection's folder, or a parent of several"""
    agent_name: str = "PenguinAgent"
    """whose decisions to learn: a class name, or its unique beginning; several separated by commas, or all"""
    output_dir: Path | None = None
    """where split and summary go; default hrl_dataset in --data-dir"""
    cache_dir: Path | None = None
    """where parsed logs are kept; default .hrl_cache in --data-dir"""
    num_workers: int | None = None
    """processes that parse logs; one per core if not given"""
    val_ratio: float = 0.1
    """share of world configurations to validate on"""
    test_ratio: float = 0.05
    """share of world configurations to test on"""
    split_seed: int = 0
    """another seed divides the configurations differently"""
    regen_split: Flag = False
    """divide again where world_split.json was made with other ratios or another seed"""
    strict: Flag = False
    """stop at the first log that cannot be used; otherwise it is named, counted and left out (exit code 3)"""
    horizon: int = 40
    """days ahead that the features look"""
    no_progress_bar: Flag = False
    """show no progress"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """log errors only"""

    def __post_init__(self) -> None:
        if self.num_workers is not None and self.num_workers < 1:
            raise ValueError(f"--num-workers {self.num_workers} must be at least 1")
        if not 1 <= self.horizon <= 200:
            raise ValueError(f"--horizon {self.horizon} is not within 1..200 days")
