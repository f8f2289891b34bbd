"""`echelon hrl compete --official`: the league's own format, a round robin of anac2024_std with total scores.

Planned, played and evaluated by the machinery of `collect`, with competitors of the arena's command line: classes may
have arguments and shields, and results go by label. Nothing is tracked.

    worlds = configurations · groups of at most four competitors · rotations of a group over its seats
    total score = truncated mean of a competitor's scores over its worlds
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from echelon.hrl_xf.arena.stale import KEPT, PLAYED_AGAIN
from echelon.hrl_xf.collect.plan import (
    FACTORIES_PER_LEVEL,
    LEAGUE_COMPETITORS,
    PlannedWorld,
    TournamentPlan,
)
from echelon.hrl_xf.collect.scores import Ranked, rank
from echelon.hrl_xf.collect.world import WorldResult, read_result, result_path
from echelon.hrl_xf.competitors.specs import AgentSpec, SpecError
from echelon.hrl_xf.options.compete import CompeteOptions

log = logging.getLogger(__name__)

KIND = "official"
FORMAT_VERSION = 2


class TotalScores(msgspec.Struct, frozen=True, kw_only=True):
    """official.json"""

    format_version: int = FORMAT_VERSION
    agents: list[str]
    """the agents to evaluate; the others are rivals"""
    worlds: int
    resamples: int
    competitors: list[Ranked]
    """best first, by total score: the truncated mean"""


def plan_options(options: CompeteOptions, competitors: Sequence[AgentSpec]) -> dict[str, Any]:
    """The options that decide the tournament, as in config.json."""
    _check_different(competitors)
    who = {spec.label: {"module": spec.module, "name": spec.name} | spec.identity() for spec in competitors}
    for one in who.values():
        del one["files"]  # other weights, as other code, are played again
    return {"competitors": who, "worlds": options.worlds, "steps": options.steps, "seed": options.seed}


def _check_different(competitors: Sequence[AgentSpec]) -> None:
    """In the stored worlds a competitor is its class and arguments, so two with the same could not be distinguished."""
    known: dict[str, str] = {}
    for spec in competitors:
        key = json.dumps([spec.base, spec.shielded, dict(spec.params)], sort_keys=True)
        other = known.setdefault(key, spec.label)
        if other != spec.label:
            raise SpecError(f"{other!r} and {spec.label!r} are the same agent twice; leave one of them out")


def official_plan(saved: Mapping[str, Any]) -> TournamentPlan:
    """The plan of a folder's plan_options options."""
    specs = [
        AgentSpec(label, one["module"], one["name"], one["shielded"], one["params"])
        for label, one in saved["competitors"].items()
    ]
    return TournamentPlan(
        competitors=tuple(spec.class_path() for spec in specs),
        configs=saved["worlds"],
        runs=1,
        n_competitors_per_world=min(LEAGUE_COMPETITORS, len(specs)),
        max_worlds_per_config=None,
        round_robin=True,
        steps=saved["steps"],
        seed=saved["seed"],
        labels=tuple(spec.label for spec in specs),
        params=tuple(dict(spec.params) for spec in specs),
        min_factories_per_level=FACTORIES_PER_LEVEL,
    )


def set_old_apart(
    worlds: Sequence[PlannedWorld], code: Mapping[int, Mapping[str, str]], output_dir: Path, keep_old: bool
) -> None:
    """Report results of other code than today's, and remove them so that they are played again, unless `keep_old`."""
    paths = {w.index: result_path(output_dir, w.index) for w in worlds}
    found = {i: read_result(path).code for i, path in paths.items() if path.exists()}
    stale = {i: sorted(n for n in code[i] if before.get(n) != code[i][n]) for i, before in found.items()}
    for names, count in Counter(", ".join(changed) for changed in stale.values() if changed).items():
        fate = KEPT if keep_old else PLAYED_AGAIN
        log.warning("%d existing worlds were played by other code (%s changed); %s", count, names, fate)
    for i in (i for i, changed in stale.items() if changed and not keep_old):
        paths[i].unlink()


def total_scores(results: Sequence[WorldResult], agents: Sequence[str], resamples: int) -> TotalScores:
    """The league's table from the worlds' results."""
    ranked = rank(results, resamples, name=str)
    return TotalScores(
        agents=[line.competitor for line in ranked if line.competitor in agents],
        worlds=len(results),
        resamples=resamples,
        competitors=ranked,
    )
