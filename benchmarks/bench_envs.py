"""Environment steps per second: our arrays over B worlds beside a loop over B single worlds through PettingZoo's API.

Both step the same environment with the same actions in the same run, in turns, and are timed by the processor time
they take, so that the figures hold on a busy machine. At the end, a third-party environment in this process and in
worker processes, by wall-clock time. Run: `python bench_envs.py` (about a minute; `--quick` for fewer rounds).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from echelon.envs.alice_and_bob import parallel_env as one_room
from echelon.envs.make import BUILT_IN, make_vector_env
from echelon.envs.mpe.speaker_listener import parallel_env as one_talk
from echelon.envs.mpe.spread import parallel_env as one_square
from echelon.envs.overcooked.env import parallel_env as one_kitchen
from echelon.envs.parallel import SingleWorld
from echelon.envs.uav.env import parallel_env as one_sky
from echelon.envs.vector import DiscreteActions, VectorEnv
from echelon.runtime.arrays import Array

BATCHES = (1, 32, 128, 1024)
SPREAD = "mpe2.simple_spread_v3:parallel_env"


def random_actions(env: VectorEnv, count: int) -> list[Array]:
    rng, shape = np.random.default_rng(0), env.spec.action_shape(env.num_envs)
    if isinstance(env.spec.actions, DiscreteActions):
        return [rng.integers(0, env.spec.actions.counts, shape) for _ in range(count)]
    return [rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(count)]


def batched(env: VectorEnv, actions: list[Array]) -> Callable[[int], int]:
    """A function that makes k joint steps of the whole batch and says how many environment steps that was."""
    env.reset(0)

    def run(k: int) -> int:
        for t in range(k):
            env.step(actions[t % len(actions)])
        return k * env.num_envs

    return run


def one_by_one(worlds: list[SingleWorld], actions: list[Array]) -> Callable[[int], int]:
    """The usual loop: every world through its own ParallelEnv, dictionaries in and out, reset when it ends."""
    for b, world in enumerate(worlds):
        world.reset(seed=b)

    def run(k: int) -> int:
        for t in range(k):
            joint = actions[t % len(actions)]
            for b, world in enumerate(worlds):
                world.step(dict(zip(world.agents, joint[b], strict=True)))
                if not world.agents:
                    world.reset()
        return k * len(worlds)

    return run


def one_world(name: str) -> SingleWorld:
    """A built-in environment through PettingZoo's API."""
    family, _, kitchen = name.partition(":")
    if family == "overcooked":
        return one_kitchen(kitchen)
    single = {"alice_and_bob": one_room, "simple_spread": one_square, "simple_speaker_listener": one_talk}
    return single[name]() if name in single else one_sky(name)


def rates(runs: list[Callable[[int], int]], seconds: float, clock: Callable[[], float], rounds: int = 5) -> list[float]:
    """Median steps per second of each, measured in turns."""
    counts = []
    for run in runs:  # warm up, and find how many steps fill a round
        k, spent = 1, 0.0
        while spent < seconds / rounds / 4:
            k *= 2
            start = clock()
            run(k)
            spent = clock() - start
        counts.append(max(1, int(k * seconds / rounds / spent)))
    seen: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for i, run in enumerate(runs):
            start = clock()
            steps = run(counts[i])
            seen[i].append(steps / (clock() - start))
    return [statistics.median(r) for r in seen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short rounds")
    parser.add_argument("--only", choices=BUILT_IN, help="one environment instead of all")
    options = parser.parse_args()
    seconds = 0.3 if options.quick else 1.5
    print("environment steps per CPU second")
    print(f"{'environment':<34}{'worlds':>7}{'arrays':>14}{'one by one':>14}{'ratio':>8}")
    for name in [options.only] if options.only else BUILT_IN:
        for count in BATCHES:
            env = make_vector_env(name, count)
            actions = random_actions(env, 8)
            single = min(count, 32)  # more worlds one by one go no faster
            worlds = [one_world(name) for _ in range(single)]
            ours, loop = rates([batched(env, actions), one_by_one(worlds, actions)], seconds, time.process_time)
            print(f"{name:<34}{count:>7}{ours:>14,.0f}{loop:>14,.0f}{ours / loop:>7.1f}x", flush=True)
    print(f"\n{SPREAD}, 32 worlds (environment steps per second)")
    envs = [make_vector_env(SPREAD, 32, workers=w) for w in (0, 1, 2)]
    runs = [batched(env, random_actions(env, 8)) for env in envs]
    for label, rate in zip(
        ("in this process", "1 worker", "2 workers"), rates(runs, seconds, time.perf_counter), strict=True
    ):
        print(f"{label:<22}{rate:>14,.0f}")
    for env in envs:
        env.close()


if __name__ == "__main__":
    main()
