"""Options of `echelon hrl evolve`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from echelon.hrl_xf.options.checks import at_least_one, not_negative, positive
from echelon.hrl_xf.options.playing import PlayingOptions


@dataclass(frozen=True)
class EvolveOptions(PlayingOptions):
    """Improve trained layers by trying habits out: evolution strategies in the simulator.

    `echelon hrl evolve --init training_runs/online --output-dir training_runs/evolved --generations 40`

    A habit is a choice that lasts for a whole world: how long to wait for a large deal, how much to offer to whom,
    how prices fall. First every habit is tried at a large weight, and what pays is taken, one after another. Then, in
    each generation, our seats play pairs of worlds with opposite deviations of L3's habits and of the level of L2's
    quantities; what pays is kept. The same command on the same directory resumes after the last
    finished generation. What wins on the validation worlds is in the directory as l2_evolved, l3_evolved and L4's
    file: `echelon hrl compete --agent LitaAgentHRL:training_runs/evolved` plays with it.
    """

    output_dir: Path = Path("training_runs/evolved")
    """weights, checkpoints, metrics.jsonl and tb/ go here"""
    generations: int = 40
    """generations in all, those before a resume included; 0: only the screening"""
    pairs: int = 30
    """pairs of worlds in a generation"""
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
    """how often habits are taken, one of a buyer and one of a seller, each time beside those before"""
    screening_worlds: int = 12
    """configurations of each field in such a round"""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "pairs", "screening_worlds", "screening_rounds")
        not_negative(self, "generations", "screening")
        positive(self, "deviation", "rate")
        if not 0 <= self.memory < 1:
            raise ValueError(f"--memory {self.memory} must be 0 or more and less than 1")
