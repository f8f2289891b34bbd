"""`echelon hrl compete`: the same worlds, the same seats, every competitor; resumable at any moment."""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from echelon.hrl_xf import official
from echelon.hrl_xf.agent_code import PlayedBy, played_by
from echelon.hrl_xf.agent_specs import AgentSpec
from echelon.hrl_xf.arena_competitors import check_agent, competitors_of
from echelon.hrl_xf.arena_options import CompeteOptions
from echelon.hrl_xf.arena_plan import ArenaPlan, parse_field
from echelon.hrl_xf.arena_stale import find_stale, stale_lines
from echelon.hrl_xf.arena_world import WORLDS, ArenaResult, play_and_save, read_result, result_path
from echelon.hrl_xf.history import DEFAULT_SECONDS_PER_FACTORY_DAY
from echelon.hrl_xf.standings import standings
from echelon.hrl_xf.standings_tables import console_tables, write_standings
from echelon.hrl_xf.world_folder import (
    EXIT_SOME_FAILED,
    FolderError,
    Played,
    Unit,
    check_same,
    contents,
    exclusive,
    play_units,
    write_config,
)
from echelon.runtime.executors import n_workers
from echelon.runtime.files import read_json, write_json
from echelon.runtime.progress import minutes

log = logging.getLogger(__name__)

KIND = "arena"
COMPETITORS = "competitors.json"
_MEAN_DAYS, _MEAN_FACTORIES = 125, 14


@dataclass(frozen=True)
class Contest:
    """Who competes in which worlds."""

    plan: ArenaPlan
    agents: list[str]
    """labels of those to judge"""
    competitors: list[AgentSpec]
    """all of them, rivals included"""
    worlds: int
    code: Mapping[str, PlayedBy] = field(default_factory=dict)
    """by label: the code that plays now"""

    def paths(self, output_dir: Path) -> dict[Path, str]:
        """Where its results go, and whose they are, configuration by configuration."""
        pairs = ((i, spec) for i in range(self.worlds) for spec in self.competitors)
        return {result_path(output_dir, i, spec): spec.label for i, spec in pairs}


def run(options: CompeteOptions) -> int:
    """The command: refuse what cannot work, play what is missing, then derive the tables from the results."""
    if options.official:
        return official.run(options)
    contest = contest_of(options)
    output_dir = options.folder
    if contents(output_dir):
        check_same(output_dir, KIND, deciding(options))
    for spec in (*contest.competitors, *contest.plan.field.everybody):
        check_agent(spec)
    contest = replace(contest, code=played_by(contest.competitors, contest.plan.field.everybody))
    with exclusive(output_dir, KIND):
        open_arena(output_dir, options, contest)
        set_old_apart(contest, output_dir, options.keep_old)
        units = [] if options.keep_old else missing_units(contest, output_dir, options.keep_logs)
        announce(contest, units, options, results_of(contest, output_dir))
        played = play_units(units, play_and_save, output_dir, options, lambda unit: replay_command(output_dir, unit))
        results = results_of(contest, output_dir)
        if results:
            table = standings(results, contest.agents, options.resamples)
            write_standings(output_dir, table)
            log.info("%s", console_tables(table))
        report(contest, results, played, output_dir)
        say_edited(contest)
    return EXIT_SOME_FAILED if played.failed else 0


def contest_of(options: CompeteOptions) -> Contest:
    """Turn options into competitors and a plan, checking all that can be checked before anything runs."""
    n_workers(options.parallelism)  # raises on a wrong one
    agents, competitors = competitors_of(options)
    return Contest(plan_of(deciding(options)), agents, competitors, options.worlds)


def deciding(options: CompeteOptions) -> dict[str, Any]:
    """The options that decide the worlds. Competitors and the number of worlds may grow."""
    return {"field": options.field, "seats": options.seats, "steps": options.steps, "seed": options.seed}


def plan_of(saved: dict[str, Any]) -> ArenaPlan:
    """The plan of a folder's deciding options."""
    return ArenaPlan(parse_field(saved["field"]), saved["seats"], saved["steps"], saved["seed"])


def open_arena(output_dir: Path, options: CompeteOptions, contest: Contest) -> None:
    """Write what the arena is and who competes; a label that was played by another agent is refused."""
    (output_dir / WORLDS).mkdir(exist_ok=True)
    if not (output_dir / "config.json").exists():
        write_config(output_dir, KIND, deciding(options))
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


def missing_units(contest: Contest, output_dir: Path, keep_logs: int = 0) -> list[Unit]:
    """Worlds without a result, configuration by configuration, so that what is there can be compared."""
    units = (
        Unit(
            name=f"configuration {index:05d} ({spec.label})",
            stem=f"{index:05d}_{spec.slug}",
            args=(contest.plan, index, spec, output_dir, index < keep_logs, contest.code.get(spec.label)),
            summary={"index": index, "competitor": spec.label, "seed": contest.plan.seed},
            result=result_path(output_dir, index, spec),
        )
        for index in range(contest.worlds)
        for spec in contest.competitors
    )
    return [unit for unit in units if not unit.ended]


def results_of(contest: Contest, output_dir: Path) -> list[ArenaResult]:
    return [read_result(path) for path in contest.paths(output_dir) if path.exists()]


def set_old_apart(contest: Contest, output_dir: Path, keep_old: bool) -> None:
    """Say which results are of other code than today's, and make room for new ones, unless they are to be shown."""
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
    """Code that changed while it played: nobody can say which of it played which world."""
    now = played_by(contest.competitors, contest.plan.field.everybody)
    edited = [label for label, code in contest.code.items() if code != now[label]]
    if edited:
        log.warning(
            "the code of %s changed during this run; the same command plays those worlds again", ", ".join(edited)
        )


def replay_command(output_dir: Path, unit: Unit) -> str:
    folder, label = shlex.quote(str(output_dir)), shlex.quote(unit.summary["competitor"])
    return f"echelon hrl replay {folder} --world {unit.summary['index']} --competitor {label}"


def expected_seconds(contest: Contest, units: Sequence[Unit], done: Sequence[ArenaResult]) -> float:
    """What the units will take one after the other: what their competitors' worlds took, or any, or a guess."""
    guess = (contest.plan.steps or _MEAN_DAYS) * _MEAN_FACTORIES * DEFAULT_SECONDS_PER_FACTORY_DAY
    taken: dict[str, list[float]] = {}
    for result in done:
        taken.setdefault(result.competitor, []).append(result.seconds)
    every = [seconds for mine in taken.values() for seconds in mine] or [guess]
    return sum(fmean(taken.get(unit.summary["competitor"], every)) for unit in units)


def announce(
    contest: Contest, units: Sequence[Unit], options: CompeteOptions, done: Sequence[ArenaResult] = ()
) -> None:
    """Say what is going to happen and about how long it will take."""
    total, workers = contest.worlds * len(contest.competitors), n_workers(options.parallelism)
    seconds = expected_seconds(contest, units, done) / workers
    log.info("competitors: %s", ", ".join(spec.label for spec in contest.competitors))
    others = ", ".join(spec.label for spec in contest.plan.field.agents)
    log.info("in the other seats: %s%s", "scml's default agents and 1 to 3 of " * contest.plan.field.league, others)
    log.info(
        "%d worlds to play%s: %d configurations x %d competitors; about %s with %s (%d workers)",
        len(units),
        f" ({total - len(units)} of {total} are there already)" if len(units) < total else "",
        contest.worlds,
        len(contest.competitors),
        minutes(seconds),
        options.parallelism,
        workers,
    )
    log.info("results go to %s", options.folder)


def report(contest: Contest, results: Sequence[ArenaResult], played: Played, output_dir: Path) -> None:
    """The last words: what there is now, how fast it went, what went wrong."""
    log.info(
        "%d of %d worlds in %s; this run played %d in %s (%.1f worlds/min)",
        len(results),
        contest.worlds * len(contest.competitors),
        output_dir,
        played.played,
        minutes(played.seconds),
        played.worlds_per_minute,
    )
    for line in fallback_lines(results):
        log.warning("%s", line)
    if played.failed:
        log.error("%d worlds failed; they are described in %s", len(played.failed), output_dir / "failed")


def fallback_lines(results: Sequence[ArenaResult]) -> list[str]:
    """A line for each competitor of ours whose layers failed, and one for those of the field."""
    times: Counter[str] = Counter()
    for result in results:
        times[result.competitor] += sum(seat.fallbacks for seat in result.seats)
    lines = [
        f"{name}: a layer failed {count} times, so that the rules played" for name, count in times.items() if count
    ]
    around = sum(result.background_fallbacks for result in results)
    return lines + ([f"in the field a layer of our agents failed {around} times"] if around else [])
