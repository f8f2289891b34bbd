"""Options of `echelon hrl new-agent`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.runtime.flags import Flag

Own = Literal["l2", "l3", "weights"]


@dataclass(frozen=True)
class NewAgentOptions:
    """Make a folder with an agent of your own that begins as LitaAgentHRL.

    `echelon hrl new-agent MyAgent --own l3`

    The folder my_agent holds agent.py with a class MyAgent, in which one method is marked EDIT HERE, a test, and a
    README with the commands to try, measure, watch and export the agent. It plays at once.
    """

    name: tyro.conf.Positional[str]
    """name of the class, e.g. MyAgent; the folder is called my_agent"""
    own: Own = "l3"
    """what is yours: l2 (a rule about what to buy and sell today), l3 (a rule about the answers to offers), or weights
    (those of a training run of your own)"""
    layers: Path | None = None
    """with --own weights: folder of a training run whose weights are copied into the new folder; the bundled ones if
    not given"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """say nothing but errors"""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", self.name):
            raise ValueError(f"{self.name!r} is not the name of a class; use letters and digits, e.g. MyAgent")
        if self.layers is not None and self.own != "weights":
            raise ValueError(f"--layers {self.layers} goes with --own weights, not with --own {self.own}")
        if self.layers is not None and not self.layers.is_dir():
            raise ValueError(f"--layers {self.layers} is not a folder; give the --output-dir of `echelon hrl train`")


def snake(name: str) -> str:
    """LitaAgentHRL -> lita_agent_hrl"""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
