"""What recording costs: the same lean worlds with every agent tracked and with none, in one run.

    python -W ignore benchmarks/bench_tracker.py [--worlds 4] [--repeats 10] [--steps 50]

One process, as in a collection, plays each world again and again, untracked and tracked in turn: CPU time of building
and playing the world, and of building and encoding the logs. The cost is the median over all pairs; two plays of one
untracked world differ by some percent, so a few repeats tell little. Also printed: the same cost as a share of the
stock simulator's time for the first world.
"""

from __future__ import annotations

import argparse
import copy
import gc
import tempfile
import time

import numpy as np
from numpy.typing import NDArray
from scml.utils import anac2024_std_world_generator

from echelon.hrl_xf import roster
from echelon.hrl_xf.schema import encode_log
from echelon.hrl_xf.tournament import PlannedWorld, TournamentPlan, plan_worlds
from echelon.hrl_xf.world_run import logs_of, play

Seconds = NDArray[np.float64]

FIELDS = {"the full field": tuple(roster.field(5, 5)), "PenguinAgent only": ("PenguinAgent",)}


def worlds_of(field: tuple[str, ...], steps: int, seats: int = 12) -> list[PlannedWorld]:
    """Rotations of one configuration in which every seat is a competitor's."""
    names = [name for i in range(seats) for name in (field[i % len(field)],)]
    paths = [f"{roster.ROSTER[name]}.{name}" for name in names]
    plan = TournamentPlan(tuple(paths), 1, 1, seats, None, True, steps, seed=7)
    return plan_worlds(plan)[0]


def seconds(world: PlannedWorld, track: tuple[str, ...]) -> float:
    """CPU time of building and playing the world, and of building and encoding its logs."""
    gc.collect()  # the world before leaves garbage, which is not this one's to clear
    started = time.process_time()
    for log in logs_of(play(world, track), world):
        encode_log(log)
    return time.process_time() - started


def played(world: PlannedWorld, field: tuple[str, ...], repeats: int) -> Seconds:
    """The world again and again, untracked and tracked in turn.  # (repeats, untracked and tracked)"""
    found = np.zeros((repeats + 1, 2))
    for repeat in range(repeats + 1):
        for side in (0, 1) if repeat % 2 else (1, 0):
            found[repeat, side] = seconds(world, field if side else ())
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
        costs = [float(np.median(t[:, 1] / t[:, 0])) - 1 for t in times]
        alone = [float(np.median(t[:, 0])) for t in times]
        share = float(np.median(np.concatenate([t[:, 1] / t[:, 0] for t in times]))) - 1
        of_stock = share * alone[0] / stock_seconds(worlds[0])
        print(
            f"{name:17s} {np.median(alone):5.2f} s a lean world; tracking every competitor costs {share:+.1%} of it "
            f"(world by world {', '.join(f'{cost:+.1%}' for cost in costs)}), {of_stock:.1%} of the stock world"
        )


if __name__ == "__main__":
    main()
