"""Options of `echelon hrl play`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from echelon.hrl_xf.options.checks import not_negative
from echelon.runtime.flags import Flag

Place = Literal["first", "middle", "last"]


@dataclass(frozen=True)
class PlayOptions:
    """Play one world with LitaAgentHRL, or an agent derived from it, and tell what happens to it, day by day.

    `echelon hrl play --days 20 --against PenguinAgent,AS0 --agent-level middle`
    """

    agent: str = "LitaAgentHRL"
    """who is watched: LitaAgentHRL, or a class derived from it, as in `compete --agent`: my_agent:MyAgent"""
    days: int = 20
    """days in the world"""
    seed: int = 0
    """the same seed and options give the same output"""
    levels: int = 3
    """levels of the supply chain, 2 to 4"""
    agent_level: Place | None = None
    """the level of the agent's factory: the first level gets its material, the last one its orders, by exogenous
    contracts; in the middle if not given, or last if there is no middle"""
    factories: int = 4
    """factories on each level"""
    against: str = "PenguinAgent,AS0,CautiousStdAgent,RandomStdAgent"
    """who plays in the other factories, in turn: names and groups (top-2025, top-2024, baselines), with commas"""
    l2: str = "bundled"
    """the day's goal: bundled | heuristic | weights of your own (a file, or a training run's folder)"""
    l3: str = "bundled"
    """the round's action: bundled | heuristic | l1 | weights of your own"""
    l4: str = "bundled"
    """all threads together: bundled | heuristic | weights of your own"""
    sample: Flag = False
    """draw L3's actions instead of taking the most probable ones"""
    verbose: Annotated[Flag, tyro.conf.arg(aliases=["-v"])] = False
    """every offer of every round, not only the first and the last of each thread"""

    def __post_init__(self) -> None:
        if not 2 <= self.levels <= 4:
            raise ValueError(f"--levels {self.levels} must be between 2 and 4, as in the league")
        if self.levels == 2 and self.agent_level == "middle":
            raise ValueError("a chain of --levels 2 has no middle; use --agent-level first or last")
        if self.days <= self.levels:
            raise ValueError(
                f"--days {self.days} is too short for {self.levels} levels; use at least {self.levels + 1}"
            )
        if self.factories < 2:
            raise ValueError(f"--factories {self.factories} must be at least 2, so that there is a competitor")
        not_negative(self, "seed")
