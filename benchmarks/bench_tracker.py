"""What recording costs: the same lean worlds with every agent tracked and with none, in one run.

    python -W ignore benchmarks/bench_tracker.py [--worlds 4] [--repeats 10] [--steps 50]

One process, as in a collection, plays each world again and again, untracked and tracked in turn: CPU time of building
and playing the world, and of building and encoding the logs. The cost is the median over all pairs; two plays of one
untracked world differ by some percent, so a few repeats tell little. Also printed: the cost once the logs are synced to
the disk as well, and the cost as a share of the stock simulator's time for the first world.

Both sides begin after a full garbage collection, so that neither clears what the one before has left; collections that
fall into a world count, also those that its notes bring about.
"""

from __future__ import annotations

import argparse
import copy
import gc
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scml.utils import anac2024_std_world_generator

from echelon.hrl_xf.collect.plan import PlannedWorld, TournamentPlan, plan_worlds
from echelon.hrl_xf.collect.world import logs_of, play
from echelon.hrl_xf.competitors import roster
from echelon.hrl_xf.state.schema import encode_log
from echelon.runtime.files import write_atomic

Seconds = NDArray[np.float64]

FIELDS = {"the full field": (*roster.best(0, 5, 5), *roster.BASELINES), "PenguinAgent only": ("PenguinAgent",)}


def worlds_of(field: tuple[str, ...], steps: int, seats: int = 12) -> list[PlannedWorld]:
    """Rotations of one configuration in which every seat is a competitor's."""
    names = [name for i in range(seats) for name in (field[i % len(field)],)]
    paths = [f"{roster.ROSTER[name]}.{name}" for name in names]
    plan = TournamentPlan(tuple(paths), 1, 1, seats, None, True, steps, seed=7)
    return plan_worlds(plan)[0]


def seconds(world: PlannedWorld, track: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """CPU time of building and playing the world and of building and encoding its logs, and with these on disk too."""
    gc.collect()
    started = time.process_time()
    texts = [encode_log(log) for log in logs_of(play(world, track), world)]
    encoded = time.process_time()
    for i, text in enumerate(texts):
        write_atomic(folder / f"{i}.json", text)
    return encoded - started, time.process_time() - started


def played(world: PlannedWorld, field: tuple[str, ...], repeats: int) -> Seconds:
    """The world again and again, untracked and tracked in turn.  # (repeats, untracked | tracked, encoded | on disk)"""
    found = np.zeros((repeats + 1, 2, 2))
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats + 1):
            for side in (0, 1) if repeat % 2 else (1, 0):
                found[repeat, side] = seconds(world, field if side else (), Path(folder))
    return found[1:]  # the first time pays for imports and caches


def stock_seconds(world: PlannedWorld) -> float:
    """The same world, untracked, as scml itself builds and plays it."""
    config = copy.deepcopy(world.config)
    with tempfile.TemporaryDirectory() as folder:
        config["world_params"]["log_folder"] = folder
        started = time.process_time()
        anac2024_std_world_generator(**config).run()
        return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    for name, field in FIELDS.items():
        worlds = worlds_of(field, options.steps)[: options.worlds]
        times = [played(world, field, options.repeats) for world in worlds]
        costs = [t[:, 1] / t[:, 0] - 1 for t in times]  # a world: (repeats, encoded and on disk)
        alone = [float(np.median(t[:, 0, 0])) for t in times]
        share, on_disk = np.median(np.concatenate(costs), axis=0)
        of_stock = share * alone[0] / stock_seconds(worlds[0])
        print(
            f"{name:17s} {np.median(alone):5.2f} s a lean world; tracking every competitor costs {share:+.1%} of it "
            f"(world by world {', '.join(f'{np.median(cost[:, 0]):+.1%}' for cost in costs)}), {on_disk:+.1%} with the "
            f"logs on disk, {of_stock:.1%} of the stock world"
        )


if __name__ == "__main__":
    main()
