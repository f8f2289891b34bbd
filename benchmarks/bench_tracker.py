"""What recording costs: the same lean worlds with every agent tracked and with none, in one run.

    python benchmarks/bench_tracker.py [--worlds 6] [--steps 50]

Prints the median of the pairs' ratios, and what the same costs of the stock simulator's time for the first world; logs
are built and encoded, as a collection does.
"""

from __future__ import annotations

import argparse
import copy
import gc
import statistics
import tempfile
import time

from scml.utils import anac2024_std_world_generator

from echelon.hrl_xf import roster
from echelon.hrl_xf.schema import encode_log
from echelon.hrl_xf.tournament import PlannedWorld, TournamentPlan, plan_worlds
from echelon.hrl_xf.world_run import logs_of, play

FIELDS = {"the full field": tuple(roster.field(5, 5)), "PenguinAgent only": ("PenguinAgent",)}


def worlds_of(field: tuple[str, ...], steps: int, seats: int = 12) -> list[PlannedWorld]:
    """Rotations of one configuration in which every seat is a competitor's."""
    names = [name for i in range(seats) for name in (field[i % len(field)],)]
    paths = [f"{roster.ROSTER[name]}.{name}" for name in names]
    plan = TournamentPlan(tuple(paths), 1, 1, seats, None, True, steps, seed=7)
    return plan_worlds(plan)[0]


def seconds(world: PlannedWorld, track: tuple[str, ...]) -> float:
    gc.collect()  # the world before leaves garbage, which is not this one's to clear
    started = time.process_time()
    ended = play(world, track)
    for log in logs_of(ended, world):
        encode_log(log)
    return time.process_time() - started


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
    parser.add_argument("--worlds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    for name, field in FIELDS.items():
        worlds = worlds_of(field, options.steps)[: options.worlds]
        seconds(worlds[0], ())  # imports and caches
        ratios, plain = [], []
        for world in worlds:
            pairs = [(seconds(world, ()), seconds(world, field)) for _ in range(3)]
            without, tracked = (min(column) for column in zip(*pairs, strict=True))
            plain.append(without)
            ratios.append(tracked / without)
        share = statistics.median(ratios) - 1
        of_stock = share * plain[0] / stock_seconds(worlds[0])
        print(
            f"{name:17s} {statistics.median(plain):5.2f} s a lean world; tracking every competitor costs {share:+.1%} "
            f"of it, {of_stock:.1%} of the stock world"
        )


if __name__ == "__main__":
    main()
