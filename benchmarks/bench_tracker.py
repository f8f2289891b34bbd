"""What recording costs: the same lean worlds with every agent tracked and with none, in one run.

    python benchmarks/bench_tracker.py [--worlds 4] [--repeats 5] [--steps 50]

Two processes play the same world, one tracked and one not, in turns of a day, so that whatever else the machine does
meets both alike. CPU time of building and playing the world, and of building and encoding the logs as a collection
does. A world's cost is the median over its repeats of tracked over untracked; the least times of each day over the
repeats give a second figure. Also printed: the same cost as a share of the stock simulator's time for the first world.
"""

from __future__ import annotations

import argparse
import copy
import gc
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scml.utils import anac2024_std_world_generator

from echelon.hrl_xf import roster
from echelon.hrl_xf.lean_world import LeanStdWorld
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


def player(turns: Connection, world: PlannedWorld, track: tuple[str, ...]) -> None:
    """Play the world again and again; wait for a turn before each part, and send the seconds it took."""
    own_step, started = LeanStdWorld.step, 0.0

    def end_turn() -> None:
        nonlocal started
        turns.send(time.process_time() - started)
        turns.recv()
        started = time.process_time()

    def step(self: LeanStdWorld, *args: Any, **kwargs: Any) -> Any:
        end_turn()
        return own_step(self, *args, **kwargs)

    LeanStdWorld.step = step
    turns.recv()
    while True:
        gc.collect()  # the world before leaves garbage, which is not this one's to clear
        started = time.process_time()
        ended = play(world, track)
        end_turn()
        for log in logs_of(ended, world):
            encode_log(log)
        end_turn()


def played_in_turns(world: PlannedWorld, field: tuple[str, ...], repeats: int) -> Seconds:
    """Seconds of each part of the world.  # (untracked and tracked, repeats, steps + 2)"""
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(2)]
    players = [
        spawn.Process(target=player, args=(theirs, world, track), daemon=True)
        for (_, theirs), track in zip(pipes, ((), field), strict=True)
    ]
    for one in players:
        one.start()
    n_parts = world.config["world_params"]["n_steps"] + 2
    seconds = np.zeros((2, repeats + 1, n_parts))
    for part in range((repeats + 1) * n_parts):
        for side in (0, 1) if part % 2 else (1, 0):
            turns = pipes[side][0]
            turns.send(None)
            seconds[side].flat[part] = turns.recv()
    for one in players:
        one.terminate()
    return seconds[:, 1:]  # the first time pays for imports and caches


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
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    for name, field in FIELDS.items():
        worlds = worlds_of(field, options.steps)[: options.worlds]
        times = [played_in_turns(world, field, options.repeats) for world in worlds]
        pairs = [np.median(tracked.sum(1) / plain.sum(1)) for plain, tracked in times]
        least = [tracked.min(0).sum() / plain.min(0).sum() for plain, tracked in times]
        share, alone = float(np.median(pairs)) - 1, float(np.median([plain.min(0).sum() for plain, _ in times]))
        of_stock = share * times[0][0].min(0).sum() / stock_seconds(worlds[0])
        print(
            f"{name:17s} {alone:5.2f} s a lean world; tracking every competitor costs {share:+.1%} of it "
            f"({np.median(least) - 1:+.1%} by least times), {of_stock:.1%} of the stock world"
        )


if __name__ == "__main__":
    main()
