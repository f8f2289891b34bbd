"""Options of the commands that belong to neither system. Imports stay light."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DemoOptions:
    """The whole chain, small: a real tournament of real expert agents, recorded, evaluated, and made training data."""

    output_dir: Path = Path("runs/demo")
    """where everything goes; run it again and it goes on where it stopped"""
    steps: int = 20
    """days in each world"""


@dataclass(frozen=True)
class DoctorOptions:
    """Look at this installation: versions, cores, executors, expert agents; and for each fault, the cure."""
