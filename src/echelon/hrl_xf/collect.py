"""`echelon hrl collect`: real tournaments of tracked experts, on all cores, resumable at any moment."""

from __future__ import annotations

import logging
import math
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from echelon.hrl_xf import history, roster
from echelon.hrl_xf.agent_specs import AgentSpec
from echelon.hrl_xf.evaluation_tables import write_tables
from echelon.hrl_xf.negotiations_table import write_negotiations
from echelon.hrl_xf.options import CollectOptions
from echelon.hrl_xf.tournament import (
    FACTORIES_PER_LEVEL,
    LEAGUE_COMPETITORS,
    PlannedWorld,
    TournamentPlan,
    fingerprint,
    plan_worlds,
)
from echelon.hrl_xf.world_folder import (
    EXIT_SOME_FAILED,
    FORMAT_VERSION,
    LOG_FILE,
    FolderError,
    How,
    Played,
    Unit,
    check_same,
    contents,
    exclusive,
    play_units,
    write_config,
)
from echelon.hrl_xf.world_run import LOGS, WORLDS, WorldResult, play_and_save, read_result, result_path
from echelon.runtime.executors import n_workers
from echelon.runtime.files import write_json
from echelon.runtime.progress import minutes

log = logging.getLogger(__name__)

KIND = "collection"
_LOOKED_AT = 20
"""Results an estimate of time is made from: more would take longer to read than they tell."""
_HOW = {
    "parallelism", "foreground", "quiet", "resumable", "fail_fast", "world_timeout", "auto_collect", "output_dir",
    "negotiations_csv",
}  # fmt: skip
"""Options that say how to run, not what: a resumed run may change them."""


@dataclass(frozen=True)
class Collected:
    """What a collection holds after a run."""

    results: list[WorldResult]
    planned: int
    run: Played


def run(options: CollectOptions) -> int:
    """The command: refuse what cannot work, then play what is missing, evaluate, register and report."""
    plan = plan_of(options)
    output_dir = options.output_dir or default_output_dir()
    check_output_dir(output_dir, options)
    if not options.foreground:
        return detach(options, output_dir)
    with exclusive(output_dir, KIND):
        worlds, params = plan_worlds(plan)
        open_collection(output_dir, options, plan, worlds, params)
        missing = [w for w in worlds if not result_path(output_dir, w.index).exists()]
        announce(plan, worlds, missing, options, output_dir)
        collected = play_missing(worlds, missing, options, output_dir, tracked_by(options), options.compress)
        if collected.results:
            write_tables(output_dir, collected.results, detailed=not options.no_csv)
        if options.negotiations_csv:
            log.info("%d negotiations in negotiations.csv", write_negotiations(output_dir, collected.results))
        if options.auto_collect:
            history.register(history.entry_of(output_dir, plan, collected.results, collected.run.failed))
        report(collected, output_dir)
    return EXIT_SOME_FAILED if collected.run.failed else 0


def plan_of(options: CollectOptions) -> TournamentPlan:
    """Turn options into a plan, checking all that can be checked before anything runs."""
    n_workers(options.parallelism)  # raises on a wrong one
    competitors = options.competitors
    roster.check_names([*competitors, *options.tracked_agents])
    absent = [name for name in options.tracked_agents if name not in competitors]
    if absent:
        raise FolderError(f"--track {' '.join(absent)}: not in this field, which is {', '.join(competitors)}")
    standard = options.field == "standard"
    k = options.n_competitors_per_world or (len(competitors) if standard else min(LEAGUE_COMPETITORS, len(competitors)))
    most = options.max_worlds_per_config
    if options.target_worlds is not None:
        sets = math.comb(len(competitors), k) if options.round_robin else math.ceil(len(competitors) / k)
        rotations = options.target_worlds / (options.configs * options.runs * sets * k)
        most = k * max(1, round(rotations))
    return TournamentPlan(
        competitors=tuple(competitors),
        configs=options.configs,
        runs=options.runs,
        n_competitors_per_world=k,
        max_worlds_per_config=most,
        round_robin=options.round_robin,
        steps=options.steps,
        seed=options.seed,
        min_factories_per_level=FACTORIES_PER_LEVEL,
        fill_ups=tuple(competitors) if options.field == "champions" else (),
    )


def default_output_dir() -> Path:
    return history.FOLDER / f"hrl_data_{datetime.now():%Y%m%d_%H%M%S}_std"


def check_output_dir(output_dir: Path, options: CollectOptions) -> None:
    """Never mix a new collection into something that is already there."""
    there = contents(output_dir)
    if there and not options.resumable:
        raise FolderError(
            f"--output-dir {output_dir} is not empty ({len(there)} entries); add --resumable to go on with it, "
            "or choose another folder"
        )
    if there:
        check_same(output_dir, KIND, _what(options))


def _what(options: CollectOptions) -> dict[str, Any]:
    """The options that decide what is collected, as they stand in config.json."""
    plain: dict[str, Any] = msgspec.to_builtins(asdict(options), enc_hook=str)
    return {name: value for name, value in plain.items() if name not in _HOW}


def tracked_by(options: CollectOptions) -> tuple[str, ...]:
    """Class names of those who record themselves."""
    return options.tracked_agents or tuple(name.rsplit(".", 1)[-1] for name in options.competitors)


def open_collection(
    output_dir: Path, options: CollectOptions, plan: TournamentPlan, worlds: list[PlannedWorld], params: dict[str, Any]
) -> None:
    """Write what the collection is, or make sure that it is still the same."""
    (output_dir / LOGS).mkdir(exist_ok=True)
    open_plan(output_dir, KIND, _what(options), plan, worlds, params)


def open_plan(
    output_dir: Path,
    kind: str,
    what: dict[str, Any],
    plan: TournamentPlan,
    worlds: list[PlannedWorld],
    params: dict[str, Any],
) -> None:
    """Write what is going to be played, or make sure that it is still the same."""
    (output_dir / WORLDS).mkdir(exist_ok=True)
    mark = fingerprint(plan, worlds)
    plan_file = output_dir / "worlds.json"
    if plan_file.exists():
        saved = msgspec.json.decode(plan_file.read_bytes())["fingerprint"]
        if saved != mark:
            raise FolderError(
                f"{output_dir} was planned by other versions of scml or negmas (fingerprint {saved[:12]}, now "
                f"{mark[:12]}); install the versions named in its config.json, or choose another folder"
            )
        return
    write_config(output_dir, kind, what)
    write_json(output_dir / "params.json", params | {"n_runs_per_world": plan.runs, "n_worlds": len(worlds)})
    write_json(
        plan_file,
        {"format_version": FORMAT_VERSION, "fingerprint": mark, "worlds": [w.summary() for w in worlds]},
    )


def announce(
    plan: TournamentPlan,
    worlds: list[PlannedWorld],
    missing: list[PlannedWorld],
    how: How,
    output_dir: Path,
) -> None:
    """Say what is going to happen and how long it is likely to take."""
    factory_days = sum(len(w.agent_types) * w.n_steps for w in missing)
    workers = n_workers(how.parallelism)
    done = len(worlds) - len(missing)
    seconds = factory_days * _seconds_per_factory_day(worlds, output_dir) / workers
    log.info("field: %s", ", ".join(plan.labels or plan.competitors))
    log.info(
        "%d worlds to play%s: %d configurations x %d runs, %d competitors each; about %s with %s (%d workers)",
        len(missing),
        f" ({done} of {len(worlds)} are there already)" if done else "",
        plan.configs,
        plan.runs,
        plan.n_competitors_per_world,
        minutes(seconds),
        how.parallelism,
        workers,
    )
    log.info("results go to %s", output_dir)


def _seconds_per_factory_day(worlds: list[PlannedWorld], output_dir: Path) -> float:
    """What a factory's day took in some worlds of this folder, or in the last collection."""
    paths = (result_path(output_dir, w.index) for w in worlds)
    some = [read_result(path) for path in islice((path for path in paths if path.exists()), _LOOKED_AT)]
    days = sum(result.days * result.factories for result in some)
    return sum(result.seconds for result in some) / days if days else history.seconds_per_factory_day()


def play_missing(
    worlds: list[PlannedWorld],
    missing: list[PlannedWorld],
    how: How,
    output_dir: Path,
    track: tuple[str, ...] = (),
    compress: bool = False,
    code: Mapping[int, Mapping[str, str]] | None = None,
    specs: Sequence[AgentSpec] = (),
) -> Collected:
    """Play every missing world; agents of the classes in `track` record themselves.

    `code`, by world, is noted, and must be what a worker finds of these `specs`.
    """
    units = [
        Unit(
            name=unit_name(w),
            stem=f"{w.index:05d}",
            args=(w, output_dir, track, compress, (code or {}).get(w.index), _in_world(specs, w)),
            summary=w.summary(),
            result=result_path(output_dir, w.index),
        )
        for w in missing
    ]

    def replay(unit: Unit) -> str:
        return f"echelon hrl replay {shlex.quote(str(output_dir))} --world {unit.summary['index']}"

    run = play_units(units, play_and_save, output_dir, how, replay)
    done = [result_path(output_dir, w.index) for w in worlds]
    return Collected([read_result(path) for path in done if path.exists()], len(worlds), run)


def _in_world(specs: Sequence[AgentSpec], planned: PlannedWorld) -> tuple[AgentSpec, ...]:
    return tuple(spec for spec in specs if spec.label in planned.labels)


def unit_name(planned: PlannedWorld) -> str:
    return f"world {planned.index:05d} seed {planned.seed} ({', '.join(sorted(set(planned.agent_types)))})"


def report(collected: Collected, output_dir: Path, *, with_scores: bool = True) -> None:
    """The last words: what there is now, how fast it went, who did best, what went wrong."""
    results = collected.results
    files = sum(len(r.log_files) for r in results)
    size = sum(r.log_bytes for r in results)
    log.info(
        "%d of %d worlds in %s; this run played %d in %s (%.1f worlds/min)",
        len(results),
        collected.planned,
        output_dir,
        collected.run.played,
        minutes(collected.run.seconds),
        collected.run.worlds_per_minute,
    )
    if files:
        log.info("%d logs, %.1f MB (%.0f kB each)", files, size / 1e6, size / 1e3 / files)
    for name, score, count in history.standings(results) if with_scores else ():
        log.info("  %-34s %7.3f  (%d worlds)", name, score, count)
    broken = sum(r.tracker_failures for r in results)
    if broken:
        log.warning("the tracker itself failed %d times; see first_tracker_failure in the logs' stats", broken)
    for line in fallback_lines(results):
        log.warning("%s", line)
    if collected.run.failed:
        log.error("%d worlds failed; they are described in %s", len(collected.run.failed), output_dir / "failed")


def fallback_lines(results: list[WorldResult]) -> list[str]:
    """A line for each of our agents whose layers failed."""
    times: Counter[str] = Counter()
    for result in results:
        kinds = {row["agent_id"]: row["agent_type"] for row in result.scores}
        for aid, count in result.fallbacks.items():
            times[kinds.get(aid, "an agent that fills up")] += count
    return [f"{name}: a layer failed {count} times, so that the rules played" for name, count in times.items()]


def detach(options: CollectOptions, output_dir: Path) -> int:
    """Run the same command in a session of its own and say how to follow it."""
    output_dir.mkdir(parents=True, exist_ok=True)
    log_file = output_dir / LOG_FILE
    arguments = sys.argv[1:]
    if options.output_dir is None:
        arguments += ["--output-dir", str(output_dir)]
    with log_file.open("ab") as out:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "echelon", *arguments, "--foreground"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=os.environ | {"PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
    log.info("collecting in the background: pid %d", child.pid)
    log.info("  follow it: tail -f %s", log_file)
    log.info("  stop it:   kill %d   (go on later: the same command with --resumable and its --output-dir)", child.pid)
    return 0
