"""Options of `echelon hrl collect`, `runs` and `replay`. Each docstring below an option is its `--help`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.hrl_xf.options.checks import at_least_one, long_enough, not_negative, positive
from echelon.hrl_xf.options.train import default_parallelism
from echelon.runtime.flags import Flag

CollectField = Literal["standard", "league", "champions"]


@dataclass(frozen=True)
class CollectOptions:
    """Play real SCML Standard tournaments of expert agents on all cores and keep what every agent saw and did.

    Small and in sight: `echelon hrl collect --configs 1 --runs 1 --steps 50 --foreground`.

    Interrupted? Give the same command with `--resumable` and the same `--output-dir`.
    """

    configs: int = 20
    """world configurations: each has its own factories, prices and exogenous contracts"""
    runs: int = 2
    """how often each world is played, with other random numbers"""
    field: CollectField = "standard"
    """who shares a world. standard: all competitors, the best of each year and two random agents, and scml's default
    agents in the seats that are left. league: four of the best of each year (--n-competitors-per-world), scml's default
    agents elsewhere, as in the league. champions: the best of each year in every seat"""
    max_top_2026: int | None = None
    """how many of the best 2026 agents take part; 0 in the standard field, else the six finalists if not given"""
    max_top_2025: int = 5
    """how many of the best 2025 agents take part"""
    max_top_2024: int = 5
    """how many of the 2024 finalists take part"""
    add: Annotated[tuple[str, ...], tyro.conf.arg(name="add-agents", aliases=["--add"])] = ()
    """more competitors: names of the roster (LitaAgentRules …) or module:Class; the module may be a file here"""
    n_competitors_per_world: int | None = None
    """competitors in one world; if not given all of them, or four with --field league and champions"""
    max_worlds_per_config: int | None = None
    """limit of worlds for each configuration; each rotation of seats needs one world per competitor"""
    target_worlds: int | None = None
    """about how many worlds in all; needs --n-competitors-per-world"""
    round_robin: bool = True
    """every combination of competitors meets; otherwise they are divided into groups at random, which is faster"""
    steps: int | None = None
    """days in a world; drawn from 50..200 for each configuration if not given"""
    track_only_penguin: Flag = False
    """record PenguinAgent only: much smaller logs, enough to clone that expert"""
    track: tuple[str, ...] = ()
    """record only these agents (class names); the whole field if not given"""
    no_csv: Flag = False
    """leave out the tables that training does not read (contracts, per-agent and per-type statistics)"""
    negotiations_csv: Flag = False
    """also write negotiations.csv at the end, from the logs: a line for each negotiation of the tracked agents"""
    resumable: Flag = False
    """resume in --output-dir: play exactly the missing worlds"""
    output_dir: Path | None = None
    """where results go; default tournament_history/hrl_data_<timestamp>_std"""
    parallelism: str = dataclasses.field(default_factory=default_parallelism)
    """serial | loky[:workers or :fraction] | parallel[:workers] | dask[:scheduler address]; if not given, what the
    environment variable SCML_PARALLELISM says, else loky"""
    foreground: Flag = False
    """stay in the terminal; otherwise the run detaches and writes to log.txt"""
    auto_collect: bool = True
    """register the run in tournament_history/index.json (see `echelon hrl runs`)"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """log errors only"""
    seed: int = 0
    """the same seed and options give the same logs, with any number of workers"""
    world_timeout: float = 1800.0
    """seconds after which a world is stopped and recorded under failed/"""
    compress: Flag = False
    """write logs as .json.gz: a tenth of the size, a little slower"""
    fail_fast: Flag = False
    """stop at the first world that fails"""

    def __post_init__(self) -> None:
        at_least_one(self, "configs", "runs")
        not_negative(self, "max_top_2026", "max_top_2025", "max_top_2024", "seed")
        positive(self, "world_timeout")
        long_enough(self.steps)
        if self.target_worlds is not None and self.n_competitors_per_world is None:
            raise ValueError(
                f"--target-worlds {self.target_worlds} needs --n-competitors-per-world to be turned into "
                "worlds per configuration; add e.g. --n-competitors-per-world 4"
            )
        if self.target_worlds is not None and self.max_worlds_per_config is not None:
            raise ValueError("--target-worlds and --max-worlds-per-config say the same thing twice; give one of them")
        if self.track and self.track_only_penguin:
            raise ValueError("--track and --track-only-penguin exclude each other; give one of them")

    @property
    def tracked_agents(self) -> tuple[str, ...]:
        """Class names to record; empty for the whole field."""
        return ("PenguinAgent",) if self.track_only_penguin else self.track


@dataclass(frozen=True)
class RunsOptions:
    """List the collections registered in tournament_history/index.json."""

    history: Path = Path("tournament_history")
    """folder that holds index.json"""


@dataclass(frozen=True)
class ReplayOptions:
    """Play one world of a collection or of an arena again, in the foreground, and show what happens.

    The world is made again from the folder's options and seed; nothing in the folder is changed.
    """

    run: tyro.conf.Positional[Path]
    """a folder that `collect` or `compete` wrote"""
    world: int
    """the world's number, as in worlds.json and in the names under failed/; of an arena: the configuration's"""
    competitor: str | None = None
    """of an arena: the label of who plays in the focal seats"""
