"""A run of `echelon hrl evolve`: its directory, generations, validations, metrics and checkpoints.

The same options on the same directory resume after the last finished generation.
"""

from __future__ import annotations

import logging
import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from echelon.hrl_xf.evolve.evolution import Evolution, play_changed
from echelon.hrl_xf.evolve.numbers import NAMES, values
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
from echelon.runtime.metrics import MetricsWriter, without_console_lines
from echelon.runtime.progress import minutes
from echelon.runtime.rundir import RunDir, open_run
from echelon.runtime.seeding import task_seed

log = logging.getLogger(__name__)
SHOWN = 8
"""How many of the surest numbers are named."""


def evolve(options: EvolveOptions) -> None:
    """Try habits out until all generations are done; the best layers by validation are in the run's directory."""
    torch.set_num_threads(1)
    with ExitStack() as stack:
        evolution = Evolution(
            *initial_layers(options.init), weight=options.weight, share=options.share, memory=options.memory
        )
        executor = stack.enter_context(make_executor(options.parallelism))
        folder = open_run(options.output_dir, run_options(options), may_change=MAY_CHANGE)
        stack.enter_context(folder.logging())
        resume(evolution, folder)
        step = evolution.generation * options.worlds if folder.resumed else None
        stack.enter_context(without_console_lines())
        metrics = stack.enter_context(MetricsWriter(folder.path, resume_step=step))
        run_generations(options, evolution, folder, executor, metrics)


def run_generations(
    options: EvolveOptions, evolution: Evolution, folder: RunDir, executor: NamedExecutor, metrics: MetricsWriter
) -> None:
    """Generations until the end; between them nothing is half done."""
    judge = Judge(options, folder, executor, metrics) if options.validate_every else None
    if judge is not None:
        judge.begin(evolution.start_weights(), resumed=evolution.generation > 0)
    began, first = time.perf_counter(), evolution.generation
    while evolution.generation < options.generations:
        scores = generation(options, evolution, executor)
        worlds = evolution.generation * options.worlds
        metrics.record_all(generation_metrics(options, evolution, scores), worlds)
        say(options, evolution, scores, (time.perf_counter() - began) / (evolution.generation - first))
        if judge is not None and evolution.generation % options.validate_every == 0:
            judge.validate(evolution.weights(), worlds, lambda path: save_layers(options, evolution, path))
        save(options, evolution, folder)
    save_layers(options, evolution, folder.path / "latest")
    if not (folder.path / "l3_evolved.safetensors").exists():
        save_layers(options, evolution, folder.path)
    log.info("evolution is complete: %d generations, layers in %s", evolution.generation, folder.path)


def generation(options: EvolveOptions, evolution: Evolution, executor: NamedExecutor) -> Floats:
    """Play the worlds of one generation and learn from them; the scores of all seats."""
    plays = evolution.plan(generation_tasks(options, evolution.generation), options.plays, options.seed)
    weights = evolution.start_weights()
    calls = [(p.task, weights, values(p.levels, options.weight)) for p in plays]
    played = play_all(executor, play_changed, calls, options.world_timeout, options.quiet)
    return evolution.learn(plays, played)


def generation_tasks(options: EvolveOptions, generation: int) -> list[WorldTask]:
    """The configurations of a generation, which no other plays."""
    seed, first = task_seed(options.seed, "evolution"), generation * options.configurations
    return [
        WorldTask(options.fields[i % len(options.fields)], seed, i, options.seats, options.steps, None)
        for i in range(first, first + options.configurations)
    ]


def generation_metrics(options: EvolveOptions, evolution: Evolution, scores: Floats) -> dict[str, float]:
    """What a generation shows: scores, and each number with how sure its best level is."""
    tags = {"Evolution/score": float(scores.mean()), "Evolution/seats": float(len(scores))}
    known, moved = evolution.standing(), evolution.moved()
    for name, by, sure in zip(NAMES, moved.tolist(), (known.worth / known.error).tolist(), strict=True):
        tags |= {f"Evolution/moved/{name}": by, f"Evolution/sure/{name}": sure}
    return tags


def say(options: EvolveOptions, evolution: Evolution, scores: Floats, seconds: float) -> None:
    """One line per generation: what stands, the surest first."""
    known, moved = evolution.standing(), evolution.moved()
    stands = [j for j in np.argsort(-known.worth / known.error).tolist() if known.levels[j] > 0]
    log.info(
        "generation %d/%d: score of all seats %.3f; %d numbers stand: %s; %s left",
        evolution.generation, options.generations, scores.mean(), len(stands),
        ", ".join(f"{NAMES[j]} {moved[j]:+.1f} ({known.worth[j]:+.3f} ± {known.error[j]:.3f})" for j in stands[:SHOWN]),
        minutes(seconds * (options.generations - evolution.generation)),
    )  # fmt: skip


def save_layers(options: EvolveOptions, evolution: Evolution, folder: Path) -> None:
    """Write L2 and L3, and L4's file as it was."""
    l2, l3, _ = evolution.layers()
    note = {
        "trained by": "echelon hrl evolve", "generations": evolution.generation, "init": options.init,
        "worlds": evolution.generation * options.worlds, "field": options.field,
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
        state={"generation": evolution.generation},
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
    log.info("resumed after generation %d", evolution.generation)
