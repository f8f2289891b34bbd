"""Options of `echelon hrl evolve`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from echelon.hrl_xf.options.compete import Seats
from echelon.hrl_xf.options.train import default_parallelism
from echelon.runtime.flags import Flag


@dataclass(frozen=True)
class EvolveOptions:
    """Improve trained layers by trying habits out: evolution strategies in the simulator.

    `echelon hrl evolve --init training_runs/online --output-dir training_runs/evolved --generations 40`

    A habit is a choice that lasts for a whole world: how long to wait for a large deal, how much to offer to whom,
    how prices fall. First every habit is tried at a large weight, and what pays is taken, one after another. Then, in
    each generation, our seats play pairs of worlds with opposite deviations of L3's habits and of the level of L2's
    quantities; what pays is kept. The same command on the same directory resumes after the last
    finished generation. What wins on the validation worlds is in the directory as l2_evolved, l3_evolved and L4's
    file: `echelon hrl compete --agent LitaAgentHRL:training_runs/evolved` plays with it.
    """

    init: str = "bundled"
    """a training's folder whose layers to start from; cloned or bundled: those that come with the package"""
    output_dir: Path = Path("training_runs/evolved")
    """weights, checkpoints, metrics.jsonl and tb/ go here"""
    generations: int = 40
    """generations in all, those before a resume included; 0: only the screening"""
    pairs: int = 30
    """pairs of worlds in a generation"""
    field: str = "league+champions"
    """who plays in the other seats: league, champions, or names and groups as in `compete --against`; several with a +
    take turns from pair to pair"""
    seats: Seats = "each-level"
    """where our policy sits in a world: one factory, or one on each level"""
    steps: int | None = 50
    """days in a world; None: drawn from 50..200 for each pair"""
    deviation: float = 1.0
    """standard deviation of the habits' weights, in nats; L2's quantities deviate by a fifth of it, in units of five
    pieces"""
    rate: float = 0.3
    """how far a number moves in a generation, in deviations per standard error of its slope"""
    memory: float = 0.95
    """what evidence still counts a generation later"""
    screening: float = 6.0
    """weight at which each habit is first tried alone, in nats; those that pay are where evolution begins. 0: it begins
    with the layers as they are"""
    screening_rounds: int = 4
    """how many habits are taken at most, one after another, each beside those before"""
    screening_worlds: int = 12
    """configurations of each field in such a round"""
    validate_every: int = 8
    """generations between validations; 0: none"""
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
    """seconds after which a world is given up; the generation goes without its pair"""
    keep_checkpoints: int = 2
    """how many of the last checkpoints stay"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """say nothing but errors"""

    def __post_init__(self) -> None:
        for name in ("pairs", "validation_worlds", "keep_checkpoints", "screening_worlds", "screening_rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} {getattr(self, name)} must be at least 1")
        for name in ("generations", "validate_every", "seed", "screening"):
            if getattr(self, name) < 0:
                raise ValueError(f"--{name.replace('_', '-')} {getattr(self, name)} must not be negative")
        for name in ("deviation", "rate", "world_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"--{name.replace('_', '-')} {getattr(self, name)} must be positive")
        if not 0 <= self.memory < 1:
            raise ValueError(f"--memory {self.memory} must be 0 or more and less than 1")
        if self.steps is not None and self.steps < 5:
            raise ValueError(f"--steps {self.steps} is too short: a chain of four levels needs 5 days; use at least 5")

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of training."""
        return tuple(self.field.split("+"))
