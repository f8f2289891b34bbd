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
import numpy as np
from negmas.helpers.numeric import truncated_mean

from echelon.hrl_xf.agent_code import codes_of, versions
from echelon.hrl_xf.agent_specs import AgentSpec, SpecError
from echelon.hrl_xf.arena_competitors import check_agent, competitors_of
from echelon.hrl_xf.arena_options import CompeteOptions
from echelon.hrl_xf.arena_stale import KEPT, PLAYED_AGAIN
from echelon.hrl_xf.collect import announce, open_plan, play_missing, report
from echelon.hrl_xf.evaluation_tables import write_tables
from echelon.hrl_xf.standings import Estimate, bootstrap
from echelon.hrl_xf.standings_tables import total_scores_table
from echelon.hrl_xf.tournament import (
    FACTORIES_PER_LEVEL,
    LEAGUE_COMPETITORS,
    PlannedWorld,
    TournamentPlan,
    plan_worlds,
)
from echelon.hrl_xf.world_folder import EXIT_SOME_FAILED, check_same, contents, exclusive
from echelon.hrl_xf.world_run import WorldResult, read_result, result_path
from echelon.runtime.executors import n_workers
from echelon.runtime.files import write_atomic

log = logging.getLogger(__name__)

KIND = "official"
FORMAT_VERSION = 1


class TotalScore(msgspec.Struct, frozen=True, kw_only=True):
    """One competitor of an official tournament."""

    competitor: str
    worlds: int
    configurations: int
    total_score: float
    """the league's: the mean without outliers above the third quartile + 2 interquartile ranges"""
    score: Estimate
    """plain mean, with an interval that resamples configurations"""


class TotalScores(msgspec.Struct, frozen=True, kw_only=True):
    """official.json"""

    format_version: int = FORMAT_VERSION
    agents: list[str]
    """those to judge; the others are rivals"""
    worlds: int
    resamples: int
    competitors: list[TotalScore]
    """best first, by total score"""


def run(options: CompeteOptions) -> int:
    """Refuse what cannot work, play what is missing, then derive the tables from the results."""
    n_workers(options.parallelism)  # raises on a wrong one
    agents, competitors = competitors_of(options)
    what, output_dir = deciding(options, competitors), options.folder
    plan = plan_of(what)
    if contents(output_dir):
        check_same(output_dir, KIND, what)
    for spec in competitors:
        check_agent(spec)
    with exclusive(output_dir, KIND):
        worlds, params = plan_worlds(plan)
        open_plan(output_dir, KIND, what, plan, worlds, params)
        code = code_by_world(worlds, codes_of(competitors))
        set_old_apart(worlds, code, output_dir, options.keep_old)
        missing = [w for w in worlds if not options.keep_old and not result_path(output_dir, w.index).exists()]
        announce(plan, worlds, missing, options, output_dir)
        played = play_missing(worlds, missing, options, output_dir, code=code, specs=competitors)
        if played.results:
            write_tables(output_dir, played.results, detailed=False)
            table = total_scores(played.results, agents, options.resamples)
            write_atomic(output_dir / "official.json", msgspec.json.format(msgspec.json.encode(table)))
            log.info("%s", console_table(table))
        report(played, output_dir, with_scores=False)
    return EXIT_SOME_FAILED if played.run.failed else 0


def deciding(options: CompeteOptions, competitors: Sequence[AgentSpec]) -> dict[str, Any]:
    """The options that decide the tournament, as they stand in config.json."""
    _check_different(competitors)
    who = {spec.label: {"module": spec.module, "name": spec.name} | spec.identity() for spec in competitors}
    for one in who.values():
        del one["files"]  # other weights, as other code, are played again
    return {"competitors": who, "worlds": options.worlds, "steps": options.steps, "seed": options.seed}


def _check_different(competitors: Sequence[AgentSpec]) -> None:
    """In the stored worlds a competitor is its class and arguments, so two with the same could not be told apart."""
    known: dict[str, str] = {}
    for spec in competitors:
        key = json.dumps([spec.base, spec.shielded, dict(spec.params)], sort_keys=True)
        other = known.setdefault(key, spec.label)
        if other != spec.label:
            raise SpecError(f"{other!r} and {spec.label!r} are the same agent twice; leave one of them out")


def plan_of(saved: Mapping[str, Any]) -> TournamentPlan:
    """The plan of a folder's deciding options."""
    specs = [
        AgentSpec(label, one["module"], one["name"], one["shielded"], one["params"])
        for label, one in saved["competitors"].items()
    ]
    classes = [spec.load() for spec in specs]
    return TournamentPlan(
        competitors=tuple(f"{cls.__module__}.{cls.__qualname__}" for cls in classes),
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


def code_by_world(worlds: Sequence[PlannedWorld], codes: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """By world: the code of each competitor in it, by label, and the versions of the rest."""
    rest = {f"version of {name}": number for name, number in versions().items()}
    return {w.index: {label: codes[label] for label in w.labels if label} | rest for w in worlds}


def set_old_apart(
    worlds: Sequence[PlannedWorld], code: Mapping[int, Mapping[str, str]], output_dir: Path, keep_old: bool
) -> None:
    """Say which results are of other code than today's, and make room for new ones, unless they are to be shown."""
    paths = {w.index: result_path(output_dir, w.index) for w in worlds}
    found = {i: read_result(path).code for i, path in paths.items() if path.exists()}
    stale = {i: sorted(n for n in code[i] if before.get(n) != code[i][n]) for i, before in found.items()}
    for names, count in Counter(", ".join(changed) for changed in stale.values() if changed).items():
        fate = KEPT if keep_old else PLAYED_AGAIN
        log.warning("%d worlds there were played by other code (%s changed); %s", count, names, fate)
    for i in (i for i, changed in stale.items() if changed and not keep_old):
        paths[i].unlink()


def total_scores(results: Sequence[WorldResult], agents: Sequence[str], resamples: int) -> TotalScores:
    """The league's table from the worlds' results."""
    scores: dict[str, list[tuple[str, float]]] = {}
    for result in results:
        for row in result.scores:
            scores.setdefault(row["agent_type"], []).append((result.config_id, row["score"]))
    lines = [_line(name, rows, resamples) for name, rows in scores.items()]
    return TotalScores(
        agents=[name for name in agents if name in scores],
        worlds=len(results),
        resamples=resamples,
        competitors=sorted(lines, key=lambda line: -line.total_score),
    )


def _line(name: str, rows: Sequence[tuple[str, float]], resamples: int) -> TotalScore:
    values = np.array([score for _, score in rows])
    names, cluster = np.unique([config for config, _ in rows], return_inverse=True)
    total, count = np.zeros(len(names)), np.zeros(len(names))
    np.add.at(total, cluster, values)
    np.add.at(count, cluster, 1.0)
    return TotalScore(
        competitor=name,
        worlds=len(rows),
        configurations=len(names),
        total_score=float(truncated_mean(values)),
        score=bootstrap(total, count, resamples, "total score"),
    )


def console_table(table: TotalScores) -> str:
    """The table as text."""
    rows = [
        (line.competitor, line.worlds, line.configurations, line.total_score, line.score) for line in table.competitors
    ]
    return total_scores_table(rows, table.agents)
