"""Options of `echelon hrl export`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from echelon.runtime.flags import Flag


@dataclass(frozen=True)
class ExportOptions:
    """Write an agent as one zip file that can be sent to the league.

    `echelon hrl export -o submission.zip --layers runs/first`

    The zip holds the agent's class, only those modules of Echelon that play needs, its weights, a requirements file
    (numpy, scml, negmas), a README with the fields of the submission form, and try_it.py, which plays one world.
    Nothing in it needs Echelon or torch. An agent of your own (`echelon hrl new-agent`) is exported with its own
    modules and the data files of its folder: `--agent myagent:MyAgent`.
    """

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("submission.zip")
    """the zip file to write; an older one is replaced"""
    agent: str = "LitaAgentHRL"
    """who is exported: LitaAgentHRL, LitaAgentRules or module:Class of a class derived from them, with arguments as in
    `compete --agent`: LitaAgentHRL:l4=heuristic"""
    layers: Path | None = None
    """folder of a training run whose layers take the place of the bundled ones"""
    skip_check: Flag = False
    """do not try the export; otherwise a world of a few days is played from it in a process that has no Echelon, and
    nothing is written if that fails"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """say nothing but errors"""

    def __post_init__(self) -> None:
        if self.output.suffix != ".zip":
            raise ValueError(f"--output {self.output} must be a .zip file, e.g. submission.zip")
        if self.layers is not None and not self.layers.is_dir():
            raise ValueError(f"--layers {self.layers} is not a folder; give the --output-dir of `echelon hrl train`")
