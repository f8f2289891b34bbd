"""Who competes in which worlds: from a command's options to a folder, the worlds that are missing, and the results."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from echelon.hrl_xf.arena.plan import ArenaPlan, parse_field
from echelon.hrl_xf.arena.stale import find_stale, stale_lines
from echelon.hrl_xf.arena.world import ArenaResult, read_result, result_path
from echelon.hrl_xf.collect.folder import PACKAGES, WORLDS, FolderError, WorldJob
from echelon.hrl_xf.collect.history import DEFAULT_SECONDS_PER_FACTORY_DAY
from echelon.hrl_xf.competitors.ablations import JUDGED, ablations
from echelon.hrl_xf.competitors.agent_code import PlayedBy, played_by
from echelon.hrl_xf.competitors.specs import HRL_AGENT, AgentSpec, SpecError, add, parse_agent, parse_list
from echelon.hrl_xf.options.compete import CompeteOptions
from echelon.runtime.execution.executors import n_workers
from echelon.runtime.files import read_json, write_json
from echelon.runtime.rundir import write_config

log = logging.getLogger(__name__)
KIND = "arena"
COMPETITORS = "competitors.json"
_MEAN_DAYS, _MEAN_FACTORIES = 125, 14

DEFAULT_RIVALS = "SBD,Rohn,TakaLinkAgent,AS0,PenguinAgent"
"""The best of 2026, and the champions of 2025 and 2024."""


def competitors_of(options: CompeteOptions) -> tuple[list[str], list[AgentSpec]]:
    """(labels of the agents to evaluate, all competitors with these first)."""
    given = [parse_agent(text) for text in options.agent]
    preset = ablations(given, options.direct_l3) if options.ablations else []
    found: dict[str, AgentSpec] = {}
    for spec in preset or given or [parse_agent(HRL_AGENT)]:
        add(found, spec)
    agents = [label for label in found if not preset or label in JUDGED or found[label] in given]
    against = options.against if options.against is not None else "" if preset else DEFAULT_RIVALS
    for spec in parse_list(against, "--against"):
        add(found, spec)
    if len(found) < 2:
        raise SpecError("one competitor alone cannot be compared; name rivals with --against")
    return agents, list(found.values())


def check_agent(spec: AgentSpec) -> None:
    """Raise if the agent cannot be imported or its layers cannot be read."""
    cls = spec.load()
    if spec.name != HRL_AGENT:
        return  # other agents may do anything as they are made
    try:
        cls(**spec.params)
    except (TypeError, ValueError, OSError) as error:
        raise SpecError(f"{spec.label}: {error}") from error


@dataclass(frozen=True)
class Contest:
    """Who competes in which worlds."""

    plan: ArenaPlan
    agents: list[str]
    """labels of the agents to evaluate"""
    competitors: list[AgentSpec]
    """all of them, rivals included"""
    worlds: int
    code: Mapping[str, PlayedBy] = field(default_factory=dict)
    """by label: the code that plays now"""

    def paths(self, output_dir: Path) -> dict[Path, str]:
        """Where its results go, and whose they are, configuration by configuration."""
        pairs = ((i, spec) for i in range(self.worlds) for spec in self.competitors)
        return {result_path(output_dir, i, spec): spec.label for i, spec in pairs}


def contest_of(options: CompeteOptions) -> Contest:
    """Turn options into competitors and a plan, checking all that can be checked before anything runs."""
    n_workers(options.parallelism)  # raises on a wrong one
    agents, competitors = competitors_of(options)
    return Contest(arena_plan(plan_options(options)), agents, competitors, options.worlds)


def plan_options(options: CompeteOptions) -> dict[str, Any]:
    """The options that decide the worlds. Competitors and the number of worlds may grow."""
    return {"field": options.field, "seats": options.seats, "steps": options.steps, "seed": options.seed}


def arena_plan(saved: dict[str, Any]) -> ArenaPlan:
    """The plan of a folder's plan_options options."""
    return ArenaPlan(parse_field(saved["field"]), saved["seats"], saved["steps"], saved["seed"])


def open_arena(output_dir: Path, options: CompeteOptions, contest: Contest) -> None:
    """Write what the arena is and who competes; a label that was played by another agent is refused."""
    (output_dir / WORLDS).mkdir(exist_ok=True)
    if not (output_dir / "config.json").exists():
        write_config(output_dir, KIND, plan_options(options), PACKAGES)
    file = output_dir / COMPETITORS
    known: dict[str, Any] = read_json(file)["competitors"] if file.exists() else {}
    slugs = {saved["slug"]: label for label, saved in known.items()}
    for spec in contest.competitors:
        now = spec.identity() | {"slug": spec.slug}
        before = known.get(spec.label, now)
        known[spec.label] = now
        changed = [key for key in now if now[key] != before.get(key) and key != "files"]  # other weights: played again
        if changed:
            raise FolderError(
                f"{output_dir} holds results of another {spec.label!r} ({', '.join(changed)} differ); "
                f"give this one a label of its own: new={spec.name}…, or choose another --output-dir"
            )
        if slugs.get(spec.slug, spec.label) != spec.label:
            raise FolderError(f"the labels {spec.label!r} and {slugs[spec.slug]!r} make one file name; use another")
    write_json(file, {"format_version": 1, "competitors": known})


def missing_worlds(contest: Contest, output_dir: Path, keep_logs: int = 0) -> list[WorldJob]:
    """Worlds without a result, configuration by configuration, so that what is there can be compared."""
    jobs = (
        WorldJob(
            name=f"configuration {index:05d} ({spec.label})",
            stem=f"{index:05d}_{spec.slug}",
            args=(contest.plan, index, spec, output_dir, index < keep_logs, contest.code.get(spec.label)),
            summary={"index": index, "competitor": spec.label, "seed": contest.plan.seed},
            result=result_path(output_dir, index, spec),
        )
        for index in range(contest.worlds)
        for spec in contest.competitors
    )
    return [job for job in jobs if not job.ended]


def results_of(contest: Contest, output_dir: Path) -> list[ArenaResult]:
    return [read_result(path) for path in contest.paths(output_dir) if path.exists()]


def set_old_apart(contest: Contest, output_dir: Path, keep_old: bool) -> None:
    """Report results of other code than today's, and remove them so that they are played again, unless `keep_old`."""
    stale = find_stale(contest.paths(output_dir), contest.code)
    for line in stale_lines(stale, keep_old):
        log.warning("%s", line)
    if keep_old and any(one.result is None for one in stale):
        raise FolderError(
            "results of an earlier format cannot be shown; leave out --keep-old, and they are played again"
        )
    for one in () if keep_old else stale:
        one.path.unlink()


def say_edited(contest: Contest) -> None:
    """Warn about code that changed during the run: it is unknown which version played which world."""
    now = played_by(contest.competitors, contest.plan.field.everybody)
    edited = [label for label, code in contest.code.items() if code != now[label]]
    if edited:
        log.warning(
            "the code of %s changed during this run; the same command plays those worlds again", ", ".join(edited)
        )


def expected_seconds(contest: Contest, jobs: Sequence[WorldJob], done: Sequence[ArenaResult]) -> float:
    """What the jobs will take one after the other: what their competitors' worlds took, or any, or a guess."""
    guess = (contest.plan.steps or _MEAN_DAYS) * _MEAN_FACTORIES * DEFAULT_SECONDS_PER_FACTORY_DAY
    taken: dict[str, list[float]] = {}
    for result in done:
        taken.setdefault(result.competitor, []).append(result.seconds)
    every = [seconds for mine in taken.values() for seconds in mine] or [guess]
    return sum(fmean(taken.get(job.summary["competitor"], every)) for job in jobs)
