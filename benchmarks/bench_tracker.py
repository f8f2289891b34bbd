"""What recording costs: the same lean worlds with every agent tracked and with none, in one run.

    python benchmarks/bench_tracker.py [--worlds 6] [--steps 50]

Prints the median of the pairs' ratios; logs are built and encoded, as a collection does.
"""

from __future__ import annotations

import argparse
import statistics
import time

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
    started = time.process_time()
    ended = play(world, track)
    for log in logs_of(ended, world):
        encode_log(log)
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
        cost = 100 * (statistics.median(ratios) - 1)
        print(
            f"{name:17s} {statistics.median(plain):5.2f} s a lean world; tracking every competitor costs {cost:+.1f} %"
        )


if __name__ == "__main__":
    main()
