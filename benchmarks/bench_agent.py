"""How long LitaAgentHRL takes to answer, and a world with three of it beside the same world of PenguinAgents.

    PYTHONHASHSEED=0 python -W ignore benchmarks/bench_agent.py --days 50 --worlds 3

A batch is all threads of one call: L1, L4, L3 and the reservation. Worlds are timed in CPU seconds, in scml's own world
and in ours; ratios are of medians over the same seeded worlds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from scml.std.world import SCML2024StdWorld

from echelon.hrl_xf.agent import LitaAgentHRL, LitaAgentRules
from echelon.hrl_xf.competitors.roster import agent_class
from echelon.hrl_xf.lean.world import LeanStdWorld
from echelon.hrl_xf.play.day import DayPlay, Question
from echelon.hrl_xf.state.reservation import Wish

SEATS = (1, 6, 11)
"""One factory on each of three levels of five."""


class Stopwatch:
    """Times every batch of `DayPlay`, by wall clock and by CPU."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.threads: list[int] = []
        plain = DayPlay.answer

        def answer(play: DayPlay, questions: Sequence[Question], **kwargs: Any) -> dict[str, Wish]:
            wall, cpu = time.perf_counter(), time.process_time()
            answers = plain(play, questions, **kwargs)
            if questions:
                self.wall.append(1e3 * (time.perf_counter() - wall))
                self.cpu.append(1e3 * (time.process_time() - cpu))
                self.threads.append(len(questions))
            return answers

        DayPlay.answer = answer  # type: ignore[method-assign, assignment]

    def clear(self) -> None:
        for times in (self.wall, self.cpu, self.threads):
            times.clear()

    def report(self) -> str:
        def quantiles(ms: list[float]) -> str:
            median, p90, p99 = np.percentile(ms, (50, 90, 99))
            return f"median {median:.2f} ms, p90 {p90:.2f}, p99 {p99:.2f}"

        return (
            f"{len(self.wall)} batches of {np.mean(self.threads):.1f} threads: wall {quantiles(self.wall)}; "
            f"CPU {quantiles(self.cpu)}"
        )


def world(kind: type[Any], make: type[Any], days: int, seed: int) -> Any:
    penguin = agent_class("PenguinAgent")
    types = [kind if i in SEATS else penguin for i in range(15)]
    random.seed(seed)
    np.random.seed(seed)
    config = SCML2024StdWorld.generate(
        agent_types=types, agent_processes=[i // 5 for i in range(15)], n_processes=3, n_steps=days,
        random_agent_types=False, compact=True, no_logs=True, construct_graphs=False,
    )  # fmt: skip
    random.seed(seed)
    np.random.seed(seed)
    return make(**config)


def seconds(kind: type[Any], make: type[Any], days: int, seed: int) -> float:
    played = world(kind, make, days, seed)
    start = time.process_time()
    played.run()
    return time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=50)
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--no-stock", action="store_true", help="leave out scml's own world, which is slow")
    options = parser.parse_args()
    penguin, watch = agent_class("PenguinAgent"), Stopwatch()
    seconds(LitaAgentHRL, LeanStdWorld, 5, 0)  # first use: weights are read, torch warms up
    for name, make in (("lean world", LeanStdWorld), ("stock world", SCML2024StdWorld)):
        if make is SCML2024StdWorld and options.no_stock:
            continue
        base = [seconds(penguin, make, options.days, seed) for seed in range(options.worlds)]
        print(f"{name}: 15 PenguinAgents {statistics.median(base):.2f} s")
        for kind in (LitaAgentHRL, LitaAgentRules):
            watch.clear()
            times = [seconds(kind, make, options.days, seed) for seed in range(options.worlds)]
            ratio = statistics.median(t / b for t, b in zip(times, base, strict=True))
            print(f"  with 3 {kind.__name__}: {statistics.median(times):.2f} s, {ratio:.2f} times; {watch.report()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
