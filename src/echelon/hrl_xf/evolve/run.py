"""A run of `echelon hrl evolve`: its directory, generations, validations, metrics and checkpoints.

The same options on the same directory resume after the last finished generation.
"""

from __future__ import annotations

import logging
import shutil
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from echelon.hrl_xf.evolve.evolution import NAMES, SIZE, Evidence, Evolution, Trial, evidence_of, play_trial
from echelon.hrl_xf.evolve.screening import (
    Tried,
    habits,
    plan,
    play_with_habits,
    screen,
    taken_of,
    tried_of,
    worth_trying,
)
from echelon.hrl_xf.networks.files import save_layer
from echelon.hrl_xf.online.collector import play_all
from echelon.hrl_xf.online.judge import Judge
from echelon.hrl_xf.online.run import MAY_CHANGE, run_options
from echelon.hrl_xf.online.trainer import initial_folder, initial_layers
from echelon.hrl_xf.online.worlds import WorldTask
from echelon.hrl_xf.options.evolve import EvolveOptions
from echelon.hrl_xf.weights import layer_in
from echelon.runtime.arrays import Floats
from echelon.runtime.checkpoint import latest, load_checkpoint, save_checkpoint
from echelon.runtime.execution.executors import NamedExecutor, make_executor
from echelon.runtime.files import read_json, write_json
from echelon.runtime.metrics import MetricsWriter, without_console_lines
from echelon.runtime.progress import minutes
from echelon.runtime.rundir import RunDir, open_run
from echelon.runtime.seeding import task_seed

log = logging.getLogger(__name__)
SHOWN = 6
"""How many of the surest slopes or habits are named."""
SCREENED = "screening.json"
"""What each habit was worth, by round."""


def evolve(options: EvolveOptions) -> None:
    """Try habits out until all generations are done; the best layers by validation are in the run's directory."""
    torch.set_num_threads(1)
    with ExitStack() as stack:
        evolution = Evolution(
            *initial_layers(options.init), deviation=options.deviation, rate=options.rate, memory=options.memory,
            generations=options.generations,
        )  # fmt: skip
        executor = stack.enter_context(make_executor(options.parallelism))
        folder = open_run(options.output_dir, run_options(options), may_change=MAY_CHANGE)
        stack.enter_context(folder.logging())
        resume(evolution, folder)
        step = evolution.generation * 2 * options.pairs if folder.resumed else None
        stack.enter_context(without_console_lines())
        metrics = stack.enter_context(MetricsWriter(folder.path, resume_step=step))
        run_generations(options, evolution, folder, executor, metrics)


def run_generations(
    options: EvolveOptions, evolution: Evolution, folder: RunDir, executor: NamedExecutor, metrics: MetricsWriter
) -> None:
    """Generations until the end; between them nothing is half done."""
    judge = Judge(options, folder, executor, metrics) if options.validate_every else None
    if judge is not None:
        judge.begin(evolution.weights(), resumed=evolution.screened or evolution.generation > 0)
    if options.screening and not evolution.screened:
        evolution.begin_with(screening(options, evolution, folder, executor))
        if judge is not None:
            judge.validate(evolution.weights(), 0, lambda path: save_layers(options, evolution, path))
        save(options, evolution, folder)
    began, first = time.perf_counter(), evolution.generation
    while evolution.generation < options.generations:
        found, sure = generation(options, evolution, executor)
        worlds = evolution.generation * 2 * options.pairs
        metrics.record_all(generation_metrics(evolution, found, sure), worlds)
        say(options, evolution, found, sure, (time.perf_counter() - began) / (evolution.generation - first))
        if judge is not None and evolution.generation % options.validate_every == 0:
            judge.validate(evolution.weights(), worlds, lambda path: save_layers(options, evolution, path))
        save(options, evolution, folder)
    save_layers(options, evolution, folder.path / "latest")
    if not (folder.path / "l3_evolved.safetensors").exists():
        save_layers(options, evolution, folder.path)
    log.info("evolution is complete: %d generations, layers in %s", evolution.generation, folder.path)


def screening(options: EvolveOptions, evolution: Evolution, folder: RunDir, executor: NamedExecutor) -> Floats:
    """Take habits that pay, one after another; they are written down and returned as numbers that evolve.

    Rounds that `screening.json` has already, because the run was stopped, are not played again.
    """
    file, weights = folder.path / SCREENED, evolution.weights()
    rounds: list[list[Tried]] = [[tried_of(row) for row in found] for found in read_json(file)] if file.exists() else []
    begin, tried = np.zeros(SIZE), habits(options.screening)
    for number in range(options.screening_rounds):
        if number == len(rounds):
            plays = plan(screening_tasks(options, number), tried, options.seed)
            log.info("screening %d: trying %d habits in %d worlds", number + 1, len(tried), len(plays))
            rounds.append(
                screen(
                    plays, tried, begin, weights,
                    lambda calls: play_all(executor, play_with_habits, calls, options.world_timeout, options.quiet),
                )
            )  # fmt: skip
            write_json(file, [[asdict(t) for t in found] for found in rounds])
        found = rounds[number]
        for t in sorted(found, key=lambda t: -t.sure)[:SHOWN]:
            log.info("%s: %+.4f ± %.4f (%d seats)", t.habit, t.gain, t.error, t.seats)
        taken = taken_of(found)
        if not taken:
            log.info("no habit pays by enough")
            break
        log.info("taken: %s", ", ".join(map(str, taken)))
        begin, tried = sum((habit.vector() for habit in taken), begin), worth_trying(found, taken)
    return begin


def screening_tasks(options: EvolveOptions, number: int) -> list[WorldTask]:
    """The configurations of a round of the screening."""
    seed, count = task_seed(options.seed, "screening"), options.screening_worlds
    return [
        WorldTask(field, seed, i, options.seats, options.steps, None)
        for i in range(number * count, (number + 1) * count)
        for field in dict.fromkeys(options.fields)
    ]


def generation(options: EvolveOptions, evolution: Evolution, executor: NamedExecutor) -> tuple[Evidence, Floats]:
    """Play the pairs of one generation and learn from them."""
    tasks, seeds = generation_tasks(options, evolution.generation)
    weights = evolution.weights()
    calls = [
        (task, weights, Trial(seed, sign, options.deviation))
        for task, seed in zip(tasks, seeds, strict=True)
        for sign in (1, -1)
    ]
    played = play_all(executor, play_trial, calls, options.world_timeout, options.quiet)
    found = evidence_of(seeds, played[::2], played[1::2])
    return found, evolution.learn(found)


def generation_tasks(options: EvolveOptions, generation: int) -> tuple[list[WorldTask], list[int]]:
    """The worlds of a generation, which no other plays, and the seeds of their seats' deviations."""
    tasks, seeds = [], []
    for i in range(options.pairs):
        index = generation * options.pairs + i
        field = options.fields[index % len(options.fields)]
        seed = task_seed(options.seed, "evolution")
        tasks.append(WorldTask(field, seed, index, options.seats, options.steps, None))
        seeds.append(task_seed(options.seed, "deviations", index))
    return tasks, seeds


def generation_metrics(evolution: Evolution, found: Evidence, sure: Floats) -> dict[str, float]:
    """What a generation shows: the scores of those that deviated, and each number with its slope."""
    tags = {
        "Evolution/score": found.score,
        "Evolution/spread": float(found.worth.std()),
        "Evolution/pairs": float(len(found.worth)),
    }
    for name, moved, slope in zip(NAMES, evolution.moved.tolist(), sure.tolist(), strict=True):
        tags |= {f"Evolution/moved/{name}": moved, f"Evolution/sure/{name}": slope}
    return tags


def say(options: EvolveOptions, evolution: Evolution, found: Evidence, sure: Floats, seconds: float) -> None:
    """One line per generation: where the evidence is strongest."""
    surest = np.argsort(-np.abs(sure))[:SHOWN]
    log.info(
        "generation %d/%d: score of deviating seats %.3f, %d pairs of seats, %s; %s left",
        evolution.generation, options.generations, found.score, len(found.worth),
        ", ".join(f"{NAMES[j]} {evolution.moved[j]:+.1f} ({sure[j]:+.1f} σ)" for j in surest.tolist()),
        minutes(seconds * (options.generations - evolution.generation)),
    )  # fmt: skip


def save_layers(options: EvolveOptions, evolution: Evolution, folder: Path) -> None:
    """Write L2 and L3, and L4's file as it was."""
    l2, l3, _ = evolution.layers()
    note = {
        "trained by": "echelon hrl evolve", "generations": evolution.generation, "init": options.init,
        "worlds": evolution.generation * 2 * options.pairs, "field": options.field,
    }  # fmt: skip
    save_layer(l2, folder / "l2_evolved", note)
    save_layer(l3, folder / "l3_evolved", note)
    unchanged = layer_in(initial_folder(options.init), "l4")
    if unchanged.parent.resolve() != folder.resolve():
        shutil.copyfile(unchanged, folder / unchanged.name)


def save(options: EvolveOptions, evolution: Evolution, folder: RunDir) -> None:
    """A checkpoint of everything after a generation."""
    save_checkpoint(
        folder.checkpoints,
        f"generation_{evolution.generation:05d}",
        tensors={"evolution": evolution.state_dict()},
        state={"generation": evolution.generation, "screened": evolution.screened},
        config=run_options(options),
        keep_last=options.keep_checkpoints,
    )


def resume(evolution: Evolution, folder: RunDir) -> None:
    """Continue from the last checkpoint of the run, if there is one."""
    path = latest(folder.checkpoints)
    if path is None:
        return
    saved = load_checkpoint(path)
    evolution.load_state_dict(saved.tensors["evolution"], saved.state["generation"])
    evolution.screened = saved.state["screened"]
    log.info("resumed after generation %d", evolution.generation)
