"""`echelon hrl collect`: real tournaments of tracked experts, on all cores, resumable at any moment."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from echelon.hrl_xf.collect import history
from echelon.hrl_xf.collect.code import code_by_world, code_of, note_code
from echelon.hrl_xf.collect.collection import announce, open_plan, play_missing, report, write_tables
from echelon.hrl_xf.collect.folder import (
    EXIT_SOME_FAILED,
    LOG_FILE,
    FolderError,
    check_same,
    contents,
    exclusive,
)
from echelon.hrl_xf.collect.negotiations import write_negotiations
from echelon.hrl_xf.collect.plan import (
    FACTORIES_PER_LEVEL,
    LEAGUE_COMPETITORS,
    PlannedWorld,
    TournamentPlan,
    plan_worlds,
)
from echelon.hrl_xf.collect.world import result_path
from echelon.hrl_xf.competitors import roster
from echelon.hrl_xf.competitors.specs import parse_agent
from echelon.hrl_xf.options.collect import CollectOptions
from echelon.hrl_xf.recording.log_files import LOGS
from echelon.runtime.execution.executors import n_workers

log = logging.getLogger(__name__)

KIND = "collection"
_RUN_OPTIONS = {
    "parallelism", "foreground", "quiet", "resumable", "fail_fast", "world_timeout", "auto_collect", "output_dir",
    "negotiations_csv",
}  # fmt: skip
"""Options that say how to run, not what: a resumed run may change them."""


def run(options: CollectOptions) -> int:
    """The command: refuse what cannot work, then play what is missing, evaluate, register and report."""
    plan = collection_plan(options)
    output_dir = options.output_dir or default_output_dir()
    check_output_dir(output_dir, options)
    if not options.foreground:
        return detach(options, output_dir)
    with exclusive(output_dir, KIND):
        worlds, params = plan_worlds(plan)
        open_collection(output_dir, options, plan, worlds, params)
        missing = [w for w in worlds if not result_path(output_dir, w.index).exists()]
        specs = [parse_agent(name) for name in plan.competitors]
        note_code(output_dir, code_of(specs), len(worlds) - len(missing))
        announce(plan, worlds, missing, options, output_dir)
        collected = play_missing(
            worlds, missing, options, output_dir, tracked_by(options), options.compress,
            code_by_world(missing, specs), specs,
        )  # fmt: skip
        if collected.results:
            write_tables(output_dir, collected.results, detailed=not options.no_csv)
        if options.negotiations_csv:
            log.info("%d negotiations in negotiations.csv", write_negotiations(output_dir, collected.results))
        if options.auto_collect:
            history.register(history.entry_of(output_dir, plan, collected.results, collected.run.failed))
        report(collected, output_dir)
    return EXIT_SOME_FAILED if collected.run.failed else 0


def collection_plan(options: CollectOptions) -> TournamentPlan:
    """Turn options into a plan, checking all that can be checked before anything runs."""
    n_workers(options.parallelism)  # raises on a wrong one
    competitors = field_of(options)
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
    """Raise if the folder is not empty and is not this collection."""
    there = contents(output_dir)
    if there and not options.resumable:
        raise FolderError(
            f"--output-dir {output_dir} is not empty ({len(there)} entries); add --resumable to resume it, "
            "or choose another folder"
        )
    if there:
        check_same(output_dir, KIND, _plan_options(options))


def _plan_options(options: CollectOptions) -> dict[str, Any]:
    """The options that decide what is collected, as in config.json."""
    plain: dict[str, Any] = msgspec.to_builtins(asdict(options), enc_hook=str)
    return {name: value for name, value in plain.items() if name not in _RUN_OPTIONS}


def tracked_by(options: CollectOptions) -> tuple[str, ...]:
    """Class names of the agents that are recorded."""
    return options.tracked_agents or tuple(name.rsplit(".", 1)[-1] for name in field_of(options))


def open_collection(
    output_dir: Path, options: CollectOptions, plan: TournamentPlan, worlds: list[PlannedWorld], params: dict[str, Any]
) -> None:
    """Write what the collection is, or make sure that it is still the same."""
    (output_dir / LOGS).mkdir(exist_ok=True)
    open_plan(output_dir, KIND, _plan_options(options), plan, worlds, params)


def detach(options: CollectOptions, output_dir: Path) -> int:
    """Run the same command in a session of its own and log how to follow it."""
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
    log.info("  stop it:   kill %d   (resume later: the same command with --resumable and its --output-dir)", child.pid)
    return 0


def field_of(options: CollectOptions) -> list[str]:
    """The competitors."""
    of_2026 = options.max_top_2026 if options.max_top_2026 is not None else 0 if options.field == "standard" else 6
    names = roster.best(of_2026, options.max_top_2025, options.max_top_2024)
    names += roster.BASELINES if options.field == "standard" else ()
    added = (name.replace(":", ".") for name in options.add)
    return [*names, *(name for name in added if name not in names)]
