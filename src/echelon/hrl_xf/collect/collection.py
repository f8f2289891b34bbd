"""A recorded tournament: its worlds are played as far as they are missing, then evaluated by negmas and reported.

The usual files of a tournament (scores.csv, total_scores.csv, stats.csv, …) are made from the worlds' results.
"""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from negmas.helpers.numeric import truncated_mean
from negmas.tournaments import evaluate_tournament

from echelon.hrl_xf.collect import history
from echelon.hrl_xf.collect.code import agents_in
from echelon.hrl_xf.collect.folder import PACKAGES, WORLDS, FolderError, RunOutcome, RunSettings, WorldJob, play_worlds
from echelon.hrl_xf.collect.plan import PlannedWorld, TournamentPlan, plan_fingerprint
from echelon.hrl_xf.collect.scores import rank
from echelon.hrl_xf.collect.world import WorldResult, play_and_save, read_result, result_path
from echelon.hrl_xf.competitors.specs import AgentSpec
from echelon.runtime.execution.executors import n_workers
from echelon.runtime.files import write_csv, write_json
from echelon.runtime.progress import minutes
from echelon.runtime.rundir import write_config

log = logging.getLogger(__name__)
_LOOKED_AT = 20
"""Number of results for the estimate of time: reading more would take too long."""


def write_tables(output_dir: Path, results: Sequence[WorldResult], *, detailed: bool) -> None:
    """Evaluate as the league does (truncated mean) and write the tables; `detailed` adds those training never reads."""
    scores = pd.DataFrame([row | {"run_id": result.world_id} for result in results for row in result.scores])
    if detailed:
        write_csv(output_dir / "contracts.csv", [row for r in results for row in r.contract_table])
        write_csv(output_dir / "world_stats.csv", [r.world_stats for r in results])
        write_csv(output_dir / "agent_stats.csv", [row for r in results for row in r.agent_stats])
        write_csv(output_dir / "type_stats.csv", [row for r in results for row in r.type_stats])
    write_csv(output_dir / "stats.csv", [row for result in results for row in daily_rows(result)])
    no_stats = pd.DataFrame()  # ours are written above: negmas 0.16.0 cannot aggregate them with pandas 3
    evaluate_tournament(
        output_dir, scores=scores, stats=no_stats, metric=truncated_mean, recursive=False, compile=False
    )


def daily_rows(result: WorldResult) -> list[dict[str, Any]]:
    """A world's own statistics, one row per day."""
    days = max((len(values) for values in result.daily.values()), default=0)
    return [
        {"world": result.world_id, "step": day} | {k: v[day] for k, v in result.daily.items() if day < len(v)}
        for day in range(days)
    ]


@dataclass(frozen=True)
class Collection:
    """What a collection holds after a run."""

    results: list[WorldResult]
    planned: int
    run: RunOutcome


def open_plan(
    output_dir: Path,
    kind: str,
    options: dict[str, Any],
    plan: TournamentPlan,
    worlds: list[PlannedWorld],
    params: dict[str, Any],
) -> None:
    """Write the plan, or raise if it differs from the existing one."""
    (output_dir / WORLDS).mkdir(exist_ok=True)
    mark = plan_fingerprint(plan, worlds)
    plan_file = output_dir / "worlds.json"
    if plan_file.exists():
        saved = msgspec.json.decode(plan_file.read_bytes())["fingerprint"]
        if saved != mark:
            raise FolderError(
                f"{output_dir} was planned by other versions of scml or negmas (fingerprint {saved[:12]}, now "
                f"{mark[:12]}); install the versions named in its config.json, or choose another folder"
            )
        return
    write_config(output_dir, kind, options, PACKAGES)
    write_json(output_dir / "params.json", params | {"n_runs_per_world": plan.runs, "n_worlds": len(worlds)})
    write_json(
        plan_file,
        {"format_version": 1, "fingerprint": mark, "worlds": [w.summary() for w in worlds]},
    )


def announce(
    plan: TournamentPlan,
    worlds: list[PlannedWorld],
    missing: list[PlannedWorld],
    settings: RunSettings,
    output_dir: Path,
) -> None:
    """Announce what will be played and about how long it will take."""
    factory_days = sum(len(w.agent_types) * w.n_steps for w in missing)
    workers = n_workers(settings.parallelism)
    done = len(worlds) - len(missing)
    seconds = factory_days * _seconds_per_factory_day(worlds, output_dir) / workers
    log.info("field: %s", ", ".join(plan.labels or plan.competitors))
    log.info(
        "%d worlds to play%s: %d configurations x %d runs, %d competitors each; about %s with %s (%d workers)",
        len(missing),
        f" ({done} of {len(worlds)} exist already)" if done else "",
        plan.configs,
        plan.runs,
        plan.n_competitors_per_world,
        minutes(seconds),
        settings.parallelism,
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
    settings: RunSettings,
    output_dir: Path,
    track: tuple[str, ...] = (),
    compress: bool = False,
    code: Mapping[int, Mapping[str, str]] | None = None,
    specs: Sequence[AgentSpec] = (),
) -> Collection:
    """Play every missing world; agents of the classes in `track` record themselves.

    `code`, by world, is recorded in the results, and must equal what a worker has loaded of these `specs`.
    """
    jobs = [
        WorldJob(
            name=world_name(w),
            stem=f"{w.index:05d}",
            args=(w, output_dir, track, compress, (code or {}).get(w.index), agents_in(w, specs)),
            summary=w.summary(),
            result=result_path(output_dir, w.index),
        )
        for w in missing
    ]

    def replay(job: WorldJob) -> str:
        return f"echelon hrl replay {shlex.quote(str(output_dir))} --world {job.summary['index']}"

    run = play_worlds(jobs, play_and_save, output_dir, settings, replay)
    done = [result_path(output_dir, w.index) for w in worlds]
    return Collection([read_result(path) for path in done if path.exists()], len(worlds), run)


def world_name(planned: PlannedWorld) -> str:
    return f"world {planned.index:05d} seed {planned.seed} ({', '.join(sorted(set(planned.agent_types)))})"


def report(collected: Collection, output_dir: Path, *, with_scores: bool = True) -> None:
    """Report what exists now, how fast it went, the standings and what failed."""
    results = collected.results
    files = sum(len(r.log_files) for r in results)
    size = sum(r.log_bytes for r in results)
    log.info("%s", collected.run.line(len(results), collected.planned, output_dir))
    if files:
        log.info("%d logs, %.1f MB (%.0f kB each)", files, size / 1e6, size / 1e3 / files)
    for one in rank(results) if with_scores else ():
        log.info("  %-34s %7.3f  (%d seats)", one.competitor, one.truncated_mean, one.seats)
    broken = sum(r.tracker_failures for r in results)
    if broken:
        log.warning("the tracker itself failed %d times; see first_tracker_failure in the logs' stats", broken)
    for line in fallback_lines(results):
        log.warning("%s", line)
    collected.run.log_failures(output_dir)


def fallback_lines(results: list[WorldResult]) -> list[str]:
    """A line for each of our agents whose layers failed."""
    times: Counter[str] = Counter()
    for result in results:
        kinds = {row["agent_id"]: row["agent_type"] for row in result.scores}
        for aid, count in result.fallbacks.items():
            times[kinds.get(aid, "an agent that fills up")] += count
    return [f"{name}: a layer failed {count} times, and the rules played instead" for name, count in times.items()]
