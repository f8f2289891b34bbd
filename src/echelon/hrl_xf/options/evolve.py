"""Options of `echelon hrl evolve`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from echelon.hrl_xf.options.checks import at_least_one, positive
from echelon.hrl_xf.options.playing import PlayingOptions


@dataclass(frozen=True)
class EvolveOptions(PlayingOptions):
    """Improve trained layers by trying habits out in whole worlds.

    `echelon hrl evolve --init training_runs/online --output-dir training_runs/evolved --generations 40`

    A habit is a choice that lasts for a whole world: how long to wait for a large deal, how much to offer to whom,
    how prices fall. In each generation our seats play with the habits that stand so far and try a few others out; a
    regression over all seats tells what each is worth, and what pays stands. The same command on the same directory
    resumes after the last finished generation. What wins on the validation worlds is in the directory as l2_evolved,
    l3_evolved and L4's file: `echelon hrl compete --agent LitaAgentHRL:training_runs/evolved` plays with it.
    """

    output_dir: Path = Path("training_runs/evolved")
    """weights, checkpoints, metrics.jsonl and tb/ go here"""
    generations: int = 40
    """generations in all, those before a resume included"""
    configurations: int = 8
    """world configurations in a generation"""
    plays: int = 6
    """plays of each configuration, with other habits in every seat"""
    weight: float = 6.0
    """the largest weight of a habit, in nats; a third of it is tried too, and both signs. L2's quantities change by a
    tenth of it, in units of five pieces"""
    share: float = 0.4
    """share of all habits with which a seat does not play as they stand: half of these it leaves out, half it tries
    at another weight"""
    memory: float = 0.98
    """what a generation's scores still count a generation later"""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "generations", "configurations")
        positive(self, "weight", "share", "memory")
        if self.plays < 2:
            raise ValueError(f"--plays {self.plays} must be at least 2: plays of one configuration are compared")
        for name in ("share", "memory"):
            if getattr(self, name) > 1:
                raise ValueError(f"--{name} {getattr(self, name)} must be at most 1")

    @property
    def worlds(self) -> int:
        """Worlds in a generation."""
        return self.configurations * self.plays
