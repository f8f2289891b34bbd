"""Options of the commands that improve layers by playing. Each docstring below an option is its `--help`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from echelon.hrl_xf.options.checks import at_least_one, long_enough, not_negative, positive
from echelon.hrl_xf.options.compete import Seats
from echelon.hrl_xf.options.train import default_parallelism
from echelon.runtime.flags import Flag


@dataclass(frozen=True)
class PlayingOptions:
    """Where it starts, who plays, how it is validated: `hrl online` and `hrl evolve`."""

    init: str = "bundled"
    """a training's folder whose layers to start from; or what comes with the package: cloned (the clones of an expert),
    played (what PPO made of them), bundled (those with habits)"""
    output_dir: Path = Path("training_runs/playing")
    """weights, checkpoints, metrics.jsonl and tb/ go here"""
    field: str = "league+champions"
    """who plays in the other seats: league, champions, or names and groups as in `compete --against`; several with a +
    take turns from configuration to configuration. league-NAME: without a finalist, for one may be slow"""
    seats: Seats = "each-level"
    """where our policy sits in a training world: one factory, or one or two on each level; validations have one each"""
    steps: int | None = 50
    """days in a training world; None: drawn from 50..200 for each configuration"""
    validate_every: int = 8
    """rounds or generations between validations; 0: none"""
    validation_worlds: int = 24
    """configurations of each field in a validation; they never occur in training"""
    validation_fields: str = "league+champions"
    """fields of the validation"""
    parallelism: str = dataclasses.field(default_factory=default_parallelism)
    """serial | loky[:workers or :fraction] | parallel[:workers] | dask[:scheduler address]: where worlds are played;
    the result is the same"""
    seed: int = 0
    """the same seed gives the same training"""
    world_timeout: float = 600.0
    """seconds after which a world is given up; training continues without it"""
    keep_checkpoints: int = 2
    """how many of the last checkpoints stay"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """say nothing but errors"""

    def __post_init__(self) -> None:
        at_least_one(self, "validation_worlds", "keep_checkpoints")
        not_negative(self, "validate_every", "seed")
        positive(self, "world_timeout")
        long_enough(self.steps)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of training."""
        return tuple(self.field.split("+"))
