"""Plays the same seeded worlds in scml's own world and in ours, and prints how much faster ours is.

    PYTHONHASHSEED=0 python benchmarks/bench_world.py --days 50 --factories 15 --worlds 3

The stock side is scml's SCML2024StdWorld as its runner makes it at its fastest: compact, no logs, no graphs.
Two things no seed can fix are fixed on both sides: the order of sets kept by memory address and random id, and the
clock. Contracts, scores and the random generators' states must be equal, or the benchmark fails.
"""

from __future__ import annotations

import argparse
import copy
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scml.std.agents import RandomStdAgent, SyncRandomStdAgent
from scml.std.world import SCML2024StdWorld
from scml_agents import get_agents

from echelon.hrl_xf.lean.world import LeanStdWorld, Reproducible

MIXED = """
    AS0 XenoSotaAgent UltraSuperMiracleSoraFinalAgentZ PriceTrendStdAgent PonponAgent KATSUDONAgent
    PenguinAgent CautiousStdAgent DogAgent AX QuickDecisionAgent
"""
"""The tops of 2025 and 2024. LitaAgentYR is left out: it learns across the worlds of a process, so that no two plays of
one world, stock or not, are alike."""
CONTRACT_FIELDS = "seller buyer quantity unit_price delivery_time concluded_at signed_at executed_at nullified_at"


def fields() -> dict[str, list[type]]:
    experts = {cls.__name__: cls for year in (2024, 2025) for cls in get_agents(year, track="std", as_class=True)}
    return {
        "penguin": [experts["PenguinAgent"]],
        "mixed": [*(experts[name] for name in MIXED.split()), RandomStdAgent, SyncRandomStdAgent],
    }


def config(field: list[type], days: int, factories: int, levels: int, seed: int) -> dict[str, Any]:
    random.seed(seed)
    np.random.seed(seed)
    start = random.randrange(len(field))
    return SCML2024StdWorld.generate(  # type: ignore[no-any-return]
        agent_types=[field[(start + i) % len(field)] for i in range(factories)],
        n_steps=days,
        n_processes=levels,
        n_agents_per_process=factories // levels,
        random_agent_types=False,
        compact=True,
        no_logs=True,
        construct_graphs=False,
    )


def timed(make: Callable[..., Any], cfg: dict[str, Any], seed: int) -> tuple[float, Any]:
    """CPU seconds to make and play a world, and all that must be equal."""
    cfg = copy.deepcopy(cfg)
    random.seed(seed)
    np.random.seed(seed)
    start = time.process_time()
    world = make(**cfg)
    world.run()
    seconds = time.process_time() - start
    contracts = [[record[name] for name in CONTRACT_FIELDS.split()] for record in world.saved_contracts]
    return seconds, (
        contracts,
        world.scores(),
        random.getstate(),
        np.random.get_state(legacy=False)["state"]["key"].tolist(),
    )


def compare(field: list[type], options: argparse.Namespace) -> tuple[list[float], list[float], int]:
    """Seconds of each stock and each lean world, and the number of contracts, equal in both."""
    stock: list[float] = []
    lean: list[float] = []
    signed = 0
    for seed in range(options.seed, options.seed + options.worlds):
        cfg = config(field, options.days, options.factories, options.levels, seed)
        plays = {}
        for cls, seconds in ((Reproducible, stock), (LeanStdWorld, lean)):
            with tempfile.TemporaryDirectory() as folder:  # the stock world writes its tables somewhere
                spent, plays[cls] = timed(cls, cfg | {"log_folder": folder}, seed)
            seconds.append(spent)
        if plays[Reproducible] != plays[LeanStdWorld]:
            sys.exit(f"world of seed {seed}: contracts or scores differ between the stock and the lean world")
        signed += len(plays[LeanStdWorld][0])
    return stock, lean, signed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--field", choices=["penguin", "mixed", "all"], default="all")
    parser.add_argument("--days", type=int, default=50)
    parser.add_argument("--factories", type=int, default=15)
    parser.add_argument("--levels", type=int, default=3)
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(
        f"{options.worlds} worlds a field, {options.days} days, {options.factories} factories, {options.levels} levels"
    )
    print("stock: SCML2024StdWorld(compact=True, no_logs=True, construct_graphs=False); CPU seconds, medians\n")
    print(f"{'field':10} {'stock s/world':>14} {'lean s/world':>13} {'ratio':>7}  contracts identical")
    for name, field in fields().items():
        if options.field in (name, "all"):
            compare(field, argparse.Namespace(**(vars(options) | {"days": 6, "worlds": 1})))  # imports, caches
            stock, lean, signed = compare(field, options)
            ratio = statistics.median(a / b for a, b in zip(stock, lean, strict=True))
            slow, fast = statistics.median(stock), statistics.median(lean)
            print(f"{name:10} {slow:14.2f} {fast:13.2f} {ratio:6.1f}x  yes ({signed})", flush=True)


if __name__ == "__main__":
    main()
