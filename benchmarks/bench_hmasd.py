"""HMASD in joint environment steps per CPU second: worlds alone, collection, update, and whole training.

All with 32 worlds in rounds of 32 steps, Alice_and_Bob also in rounds of whole episodes (100 steps), with the presets'
networks and 15 epochs, in one process with one thread, timed by processor time so that the figures hold on a busy
machine. Beside them, the same environment stepped one world at a time through PettingZoo's API. Run: `python
bench_hmasd.py` (about two minutes; `--quick` for fewer rounds).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from echelon.envs.alice_and_bob import parallel_env as one_room
from echelon.envs.make import make_vector_env
from echelon.envs.uav.env import parallel_env as one_sky
from echelon.envs.vector import DiscreteActions, EnvSpec
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.shares import LocalShares
from echelon.hmasd.presets import PRESETS
from echelon.runtime.arrays import Array

WORLDS, STEPS = 32, 1024
EPISODES = WORLDS * 100
"""A round of whole episodes of Alice_and_Bob."""


def cases() -> dict[str, HMASDConfig]:
    """What is measured: the presets at the documents' round size."""
    uav1, uav2 = PRESETS["uav1-as-given"].config, PRESETS["uav2-as-given"].config
    room = replace(PRESETS["alice_and_bob"].config, envs=WORLDS, samples_per_update=STEPS)
    gru = replace(room, recurrent=True, recurrent_chunk=8)
    return {
        "uav1": uav1,
        "uav2": uav2,
        "uav2, mappo": replace(uav2, algorithm="mappo"),
        "alice_and_bob, GRU": gru,
        "alice_and_bob": room,
        "episodes, GRU": replace(gru, samples_per_update=EPISODES, recurrent_chunk=10),
        "episodes": replace(room, samples_per_update=EPISODES),
    }


def median_rate(work: Callable[[], None], steps: int, times: int) -> float:
    """Median steps per CPU second over several repetitions, after one to warm up."""
    work()
    rates = []
    for _ in range(times):
        began = time.process_time()
        work()
        rates.append(steps / (time.process_time() - began))
    return statistics.median(rates)


def random_actions(spec: EnvSpec, worlds: int) -> Array:
    rng = np.random.default_rng(0)
    shape = spec.action_shape(worlds)
    if isinstance(spec.actions, DiscreteActions):
        return rng.integers(0, spec.actions.counts, shape)
    return rng.uniform(-1, 1, shape).astype(np.float32)


def worlds_alone(config: HMASDConfig, times: int) -> float:
    env = make_vector_env(config.env, WORLDS, 0)
    env.reset()
    actions = random_actions(env.spec, WORLDS)

    def work() -> None:
        for _ in range(STEPS // WORLDS):
            env.step(actions)

    return median_rate(work, STEPS, times)


def one_by_one(config: HMASDConfig, times: int) -> float:
    """The usual loop over single worlds, dictionaries in and out."""
    world = one_room() if config.env == "alice_and_bob" else one_sky(config.env)
    world.reset(seed=0)
    chosen = random_actions(make_vector_env(config.env, 1, 0).spec, 1)[0]

    def work() -> None:
        for _ in range(128):
            if not world.agents:
                world.reset()
            world.step(dict(zip(world.agents, chosen, strict=True)))

    return median_rate(work, 128, times)


def training(config: HMASDConfig, times: int) -> tuple[float, float, float]:
    """Collection, update and both, in steps per CPU second."""
    with make_vector_env(config.env, 1, 0) as probe:
        agent = HMASDAgent(config, probe.spec)
    worlds = LocalShares(config, agent.networks, lambda: agent.version)
    steps = config.samples_per_update
    spent: list[tuple[float, float]] = []
    for _ in range(times + 1):
        began = time.process_time()
        rollout = worlds.collect(agent.version, steps)
        collected = time.process_time()
        agent.update(rollout)
        spent.append((collected - began, time.process_time() - collected))
    collect, update = (statistics.median(s[i] for s in spent[1:]) for i in (0, 1))
    return steps / collect, steps / update, steps / (collect + update)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    times = 3 if parser.parse_args().quick else 15
    torch.set_num_threads(1)
    print(f"joint environment steps per CPU second, {WORLDS} worlds, rounds of {STEPS}, below of episodes, 15 epochs")
    print(f"{'':<20}{'worlds':>10}{'one by one':>12}{'collect':>10}{'update':>10}{'training':>10}")
    for name, config in cases().items():
        alone, single = worlds_alone(config, times), one_by_one(config, times)
        collect, update, whole = training(config, times)
        figures = f"{alone:>10,.0f}{single:>12,.0f}{collect:>10,.0f}{update:>10,.0f}{whole:>10,.0f}"
        print(f"{name:<20}{figures}", flush=True)


if __name__ == "__main__":
    main()
