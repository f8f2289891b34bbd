"""Options of the commands that belong to neither system. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class DemoOptions:
    """Both systems end to end in about three minutes on two cores.

    HRL-XF: real tournaments of real experts are recorded and become training data; three layers are trained; the agent
    competes. HMASD: two agents discover skills in Alice_and_Bob. Then a table of what was learnt, and one page about
    all of it.
    """

    output_dir: Path = Path("runs/demo")
    """where everything is written; the same command resumes"""
    steps: int | None = None
    """days per world; 50 if not given, 6 with --quick"""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """under a minute: few and short worlds, little training; shows that everything works, not how well"""
    parallelism: str = "loky"
    """serial | loky[:workers or :fraction] | parallel[:workers] | dask[:scheduler address]"""

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 5:
            raise ValueError(f"--steps {self.steps} is too short: a chain of four levels needs 5 days; use at least 5")


@dataclass(frozen=True)
class ReportOptions:
    """One page about any runs, in one file that opens offline.

    `echelon report arena_runs/arena training_runs/first -o report.html`

    Of an arena: standings with intervals, scores by level, paired differences, balance and stock over the days, where
    money went, conduct, and negotiations to browse. Of a training run (HRL-XF or HMASD): its curves. Of a collection:
    standings and negotiations. Of a dataset: its figures.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """run folders; a folder that contains runs means the runs directly in it"""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """the page; its folder is created if needed"""

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("give at least one run's folder, e.g. `echelon report arena_runs/arena -o report.html`")


@dataclass(frozen=True)
class DoctorOptions:
    """Check this installation: versions, cores, executors, expert agents; and for each problem, how to fix it."""
