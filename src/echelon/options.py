"""Options of the commands that belong to neither system. Imports stay light."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class DemoOptions:
    """The whole chain, small: a real tournament of real expert agents, recorded, evaluated, and made training data."""

    output_dir: Path = Path("runs/demo")
    """where everything goes; run it again and it goes on where it stopped"""
    steps: int = 20
    """days in each world"""


@dataclass(frozen=True)
class ReportOptions:
    """One page about any mix of runs, in one file that opens offline.

    `echelon report arena_runs/arena training_runs/first -o report.html`

    Of an arena: standings with intervals, scores by level, paired differences, balance and stock over the days, where
    money went, conduct, and negotiations to browse. Of a training run (HRL-XF or HMASD): its curves. Of a collection:
    standings and negotiations. Of a dataset: its figures.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """run folders; a folder of runs stands for the runs directly in it"""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """the page; its folder is made if there is none"""

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("give at least one run's folder, e.g. `echelon report arena_runs/arena -o report.html`")


@dataclass(frozen=True)
class DoctorOptions:
    """Look at this installation: versions, cores, executors, expert agents; and for each fault, the cure."""
