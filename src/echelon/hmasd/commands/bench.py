"""`echelon hmasd bench`: many runs over any executor, resumed by the same command, compared at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from echelon.hmasd.bench import progress
from echelon.hmasd.bench.picture import draw
from echelon.hmasd.bench.plan import PlannedRun, plan_runs
from echelon.hmasd.bench.results import BenchResults, is_finished, rows, summarise, table
from echelon.hmasd.commands import train
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.options import BenchOptions, TrainOptions
from echelon.runtime.execution.tasks import Task, TaskResult, run_tasks
from echelon.runtime.files import LockedError, locked, read_json, write_csv, write_json
from echelon.runtime.film import write_picture
from echelon.runtime.rundir import check_options, read_config
from echelon.runtime.wandb_run import require_wandb

log = logging.getLogger(__name__)

FORMAT_VERSION = 1


def run(options: BenchOptions) -> int:
    """The command."""
    planned = plan_runs(options)
    if options.dry_run:
        for each in planned:
            log.info("%s (%s steps)", each.name, f"{each.options.config.total_steps:,}")
        return 0
    require_wandb(options.wandb)
    folder = options.output_dir
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        known = with_earlier_runs(folder, planned)
        write_json(folder / "bench.json", bench_json(options, known))

        def compare() -> BenchResults:
            return write_results(folder, summarise(known, options.metric, options.resamples))

        with mute_runs():
            failed = train_all(folder, planned, options.executor, compare)
        log_results(folder, compare(), swept=bool(options.sweep))
    return 3 if failed else 0


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """One bench at a time in a folder."""
    try:
        with locked(folder / ".lock", waiting=None):
            yield
    except LockedError as error:
        raise ValueError(
            f"another bench (pid {error.pid}) is running in {folder}; wait for it, or use another --output-dir"
        ) from None


def with_earlier_runs(folder: Path, planned: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The planned runs and those that the folder has from earlier commands; changed options of one are refused."""
    for each in planned:
        there = read_config(each.options.directory)
        if there is not None:
            saved = train.run_options(each.options)
            check_options(each.options.directory, there.options, saved, train.may_change(each.options), train.DEFAULTS)
    names = {each.name for each in planned}
    file = folder / "bench.json"
    earlier = read_json(file)["runs"] if file.is_file() else []
    return [*planned, *(run_from_json(folder, entry) for entry in earlier if entry["name"] not in names)]


def bench_json(options: BenchOptions, runs: Sequence[PlannedRun]) -> dict[str, Any]:
    """The content of bench.json: the command's options, and every option of every run."""
    asked = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(options).items()}
    listed = [
        {
            "name": each.name,
            "env": each.env,
            "algorithm": each.algorithm,
            "settings": dict(each.settings),
            "seed": each.seed,
            "options": train.run_options(each.options),
        }
        for each in runs
    ]
    return {"format_version": FORMAT_VERSION, "kind": "bench", "options": asked, "runs": listed}


def run_from_json(folder: Path, entry: dict[str, Any]) -> PlannedRun:
    """A run as bench.json describes it."""
    saved = dict(entry["options"])
    config = HMASDConfig.from_json(saved.pop("config"))
    options = TrainOptions(**{**saved, "config": config, "output_dir": folder / "runs" / entry["name"], "quiet": True})
    return PlannedRun(
        entry["name"], entry["env"], entry["algorithm"], tuple(entry["settings"].items()), entry["seed"], options
    )


@contextmanager
def mute_runs() -> Iterator[None]:
    """Keep what runs in this process say off the console; their log.txt has it."""
    handlers = list(logging.getLogger("echelon").handlers)

    def is_ours(record: logging.LogRecord) -> bool:
        return record.name.startswith((__name__, progress.__name__)) or record.levelno >= logging.ERROR

    for handler in handlers:
        handler.addFilter(is_ours)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_ours)


def train_all(folder: Path, planned: Sequence[PlannedRun], executor: str, compare: Callable[[], object]) -> int:
    """Train what is not finished and compare whenever a run is; returns how many runs failed."""
    waiting = [each for each in planned if not is_finished(each)]
    done = progress.BenchProgress(planned)
    done.finished = len(planned) - len(waiting)
    log.info("%s: %s", folder, done.counts)
    tasks = [Task(each.name, (each.options,)) for each in waiting]
    with done.logged():
        for result in run_tasks(executor, train_one, tasks):
            record(folder, result)
            done.finished += result.status == "ok"
            done.failed += result.status != "ok"
            done.log_line()
            compare()
    return done.failed


def train_one(options: TrainOptions) -> None:
    """One run from its last checkpoint to its end; runs on a worker."""
    train.run(options)


def record(folder: Path, result: TaskResult[None]) -> None:
    """Record a failure under failed/, with how to repeat it; remove the record of a run that succeeded."""
    note = folder / "failed" / f"{result.name}.json"
    if result.status == "ok":
        note.unlink(missing_ok=True)
        return
    note.parent.mkdir(exist_ok=True)
    where = folder / "runs" / result.name
    error = result.error or ""
    command = f"echelon hmasd train --config {where / 'config.json'} --output-dir {where}"
    write_json(note, {"format_version": 1, "run": result.name, "status": result.status, "error": error,
                      "command": command})  # fmt: skip
    last = error.strip().splitlines()[-1] if error.strip() else result.status
    log.error("run %s: %s; %s; the others continue", result.name, last, note)


def write_results(folder: Path, results: BenchResults) -> BenchResults:
    """The comparison in files, which `echelon report` reads."""
    write_json(folder / "results.json", msgspec.to_builtins(results))
    write_csv(folder / "results.csv", rows(results))
    return results


def log_results(folder: Path, results: BenchResults, swept: bool) -> None:
    """Curves as a picture, and the tables on the console."""
    write_picture(draw(results), folder / "curves.svg")
    for text in table(results):
        log.info("%s", text)
    if swept:
        log.info(
            "the best of several settings is partly luck: compare it on seeds that did not choose it (--first-seed)"
        )
    log.info("%s, %s; one page: echelon report %s", folder / "results.csv", folder / "curves.svg", folder)
