"""Options of `echelon hrl compete`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.hrl_xf.options.checks import at_least_one, long_enough, not_negative, positive
from echelon.hrl_xf.options.train import default_parallelism
from echelon.runtime.flags import Flag

Seats = Literal["one", "each-level", "two-each-level"]


@dataclass(frozen=True)
class CompeteOptions:
    """Compare agents: every competitor plays the same worlds in the same seats; differences come with intervals.

    `echelon hrl compete --agent LitaAgentHRL --against top-2026:3,AS0,PenguinAgent --configs 40`

    An agent is written [LABEL=]AGENT[:ARGUMENTS], where AGENT is a roster name, LitaAgentHRL, package.module:Class or
    shielded(AGENT), and ARGUMENTS is a training run's folder or key=value,key=value… for the constructor:
    LitaAgentHRL:runs/first, L1=LitaAgentHRL:l2=heuristic,l3=l1,l4=heuristic, shielded(PenguinAgent).

    The same command on the same --output-dir resumes. More --configs and further agents may be added: results are
    kept, unless the code or the weights of an agent have changed; then its worlds are played again.
    """

    agent: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """an agent to evaluate; repeat the option for several. LitaAgentHRL if not given"""
    against: str | None = None
    """rivals, separated by commas: names and groups (top-2026, top-2025, top-2024, finalists, baselines; top-2025:3
    is the best three). SBD,Rohn,TakaLinkAgent,AS0,PenguinAgent if not given; none with --ablations"""
    ablations: Flag = False
    """evaluate LitaAgentHRL (that of --agent, or the bundled one) layer by layer: L1, rules, L1+L2, L1+L2+L3, all,
    scheme F; and PenguinAgent with and without L1's shield. Other --agent and --against come on top"""
    direct_l3: Path | None = None
    """weights of an L3 of scheme F (train --l3-mode direct) for --ablations; scheme F is left out if not given"""
    official: Flag = False
    """the league's own format instead: a round robin of anac2024_std with total scores. Every group of four competitors
    plays every configuration, once for each rotation of the seats; nothing is paired, tracked or added later"""
    worlds: Annotated[int, tyro.conf.arg(name="configs", aliases=["--worlds"])] = 20
    """world configurations; each is played once by every competitor"""
    steps: int | None = None
    """days in a world; drawn from 50..200 for each configuration if not given"""
    field: str = "league"
    """who plays in the other seats, drawn for each configuration. league: one to three finalists of 2024 to 2026 and
    scml's default agents, as in the league. champions: finalists of 2024 to 2026 in all seats. Either -NAME: without
    that finalist. Or names and groups as in --against"""
    seats: Seats = "one"
    """where the competitor sits: in one factory, level by level in turn from configuration to configuration, or in one
    or two on each level of every configuration; then it trades with itself, which is not what a league measures"""
    output_dir: Path | None = None
    """results go here: standings.json, standings.csv, worlds/, failed/, tracker_logs/. arena_runs/arena if not given,
    arena_runs/official with --official"""
    keep_logs: int = 3
    """configurations, from the first on, of which every competitor's log is kept, and for LitaAgentHRL what its layers
    computed: the negotiations that `echelon report` shows. Worlds that were already played get no logs"""
    keep_old: Flag = False
    """show the existing results, also those of code that has changed since, and play nothing"""
    parallelism: str = dataclasses.field(default_factory=default_parallelism)
    """serial | loky[:workers or :fraction] | parallel[:workers] | dask[:scheduler address]; if not given, what the
    environment variable SCML_PARALLELISM says, else loky"""
    seed: int = 0
    """the same seed gives the same worlds, with any number of workers"""
    world_timeout: float = 1800.0
    """seconds after which a world is given up and recorded under failed/"""
    resamples: int = 10_000
    """bootstrap resamples behind an interval"""
    fail_fast: Flag = False
    """stop at the first world that fails"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """log errors only"""

    def __post_init__(self) -> None:
        at_least_one(self, "resamples")
        if self.worlds < 1:
            raise ValueError(f"--configs {self.worlds} must be at least 1")
        not_negative(self, "keep_logs", "seed")
        positive(self, "world_timeout")
        long_enough(self.steps)
        if self.direct_l3 is not None and not self.ablations:
            raise ValueError("--direct-l3 is the L3 of the ablation `scheme F`; add --ablations")

    @property
    def folder(self) -> Path:
        """Where results go."""
        return self.output_dir or Path("arena_runs") / ("official" if self.official else "arena")
