"""`echelon hrl compete`: the same worlds, the same seats, every competitor; resumable at any moment."""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from echelon.hrl_xf.arena.contest import (
    KIND,
    Contest,
    check_agent,
    contest_of,
    expected_seconds,
    missing_worlds,
    open_arena,
    plan_options,
    results_of,
    say_edited,
    set_old_apart,
)
from echelon.hrl_xf.arena.standings import standings
from echelon.hrl_xf.arena.tables import console_tables, write_scores, write_standings
from echelon.hrl_xf.arena.world import ArenaResult, play_and_save
from echelon.hrl_xf.collect.folder import (
    EXIT_SOME_FAILED,
    RunOutcome,
    WorldJob,
    check_same,
    contents,
    exclusive,
    play_worlds,
)
from echelon.hrl_xf.commands import official
from echelon.hrl_xf.competitors.agent_code import played_by
from echelon.hrl_xf.options.compete import CompeteOptions
from echelon.runtime.execution.executors import n_workers
from echelon.runtime.progress import minutes

log = logging.getLogger(__name__)


def run(options: CompeteOptions) -> int:
    """The command: refuse what cannot work, play what is missing, then derive the tables from the results."""
    if options.official:
        return official.run(options)
    contest = contest_of(options)
    output_dir = options.folder
    if contents(output_dir):
        check_same(output_dir, KIND, plan_options(options))
    for spec in (*contest.competitors, *contest.plan.field.everybody):
        check_agent(spec)
    contest = replace(contest, code=played_by(contest.competitors, contest.plan.field.everybody))
    with exclusive(output_dir, KIND):
        open_arena(output_dir, options, contest)
        set_old_apart(contest, output_dir, options.keep_old)
        jobs = [] if options.keep_old else missing_worlds(contest, output_dir, options.keep_logs)
        announce(contest, jobs, options, results_of(contest, output_dir))
        played = play_worlds(jobs, play_and_save, output_dir, options, lambda job: replay_command(output_dir, job))
        results = results_of(contest, output_dir)
        if results:
            table = standings(results, contest.agents, options.resamples)
            write_standings(output_dir, table)
            write_scores(output_dir, results)
            log.info("%s", console_tables(table))
        report(contest, results, played, output_dir)
        say_edited(contest)
    return EXIT_SOME_FAILED if played.failed else 0


def replay_command(output_dir: Path, job: WorldJob) -> str:
    folder, label = shlex.quote(str(output_dir)), shlex.quote(job.summary["competitor"])
    return f"echelon hrl replay {folder} --world {job.summary['index']} --competitor {label}"


def announce(
    contest: Contest, jobs: Sequence[WorldJob], options: CompeteOptions, done: Sequence[ArenaResult] = ()
) -> None:
    """Announce what will be played and about how long it will take."""
    total, workers = contest.worlds * len(contest.competitors), n_workers(options.parallelism)
    seconds = expected_seconds(contest, jobs, done) / workers
    log.info("competitors: %s", ", ".join(spec.label for spec in contest.competitors))
    others = ", ".join(spec.label for spec in contest.plan.field.agents)
    log.info("in the other seats: %s%s", "scml's default agents and 1 to 3 of " * contest.plan.field.league, others)
    log.info(
        "%d worlds to play%s: %d configurations x %d competitors; about %s with %s (%d workers)",
        len(jobs),
        f" ({total - len(jobs)} of {total} exist already)" if len(jobs) < total else "",
        contest.worlds,
        len(contest.competitors),
        minutes(seconds),
        options.parallelism,
        workers,
    )
    log.info("results go to %s", options.folder)


def report(contest: Contest, results: Sequence[ArenaResult], played: RunOutcome, output_dir: Path) -> None:
    """Report what exists now, how fast it went and what failed."""
    log.info("%s", played.line(len(results), contest.worlds * len(contest.competitors), output_dir))
    for line in fallback_lines(results):
        log.warning("%s", line)
    played.log_failures(output_dir)


def fallback_lines(results: Sequence[ArenaResult]) -> list[str]:
    """A line for each competitor of ours whose layers failed, and one for those of the field."""
    times: Counter[str] = Counter()
    for result in results:
        times[result.competitor] += sum(seat.fallbacks for seat in result.seats)
    lines = [
        f"{name}: a layer failed {count} times, and the rules played instead" for name, count in times.items() if count
    ]
    around = sum(result.background_fallbacks for result in results)
    return lines + ([f"in the field a layer of our agents failed {around} times"] if around else [])
