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
    """Draw the curves of training runs (`echelon hrl train`) on one page that opens offline."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """folders of training runs; several stand below one another, to compare"""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """the page"""

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("give at least one run's folder, e.g. `echelon report training_runs/first -o report.html`")


@dataclass(frozen=True)
class DoctorOptions:
    """Look at this installation: versions, cores, executors, expert agents; and for each fault, the cure."""
