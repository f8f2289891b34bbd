"""BenchMARL's MAPPO on simple_spread of mpe2: steps per CPU second and the return while it learns.

Needs an environment of its own, with benchmarl and mpe2 and without this package:

    python -m venv bm && bm/bin/pip install torch==2.13.0 && bm/bin/pip install benchmarl mpe2
    bm/bin/python benchmarks/benchmarl_spread.py --steps 128000

The same rounds and optimiser steps as our MAPPO has on this task (3,200 steps, 5 epochs of 4 mini-batches, learning
rate 7e-4, discount .9, layers of 64). One thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from benchmarl.algorithms import MappoConfig
from benchmarl.environments import PettingZooTask
from benchmarl.environments.pettingzoo.common import PettingZooClass
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from mpe2 import simple_spread_v3
from torchrl.envs import PettingZooWrapper

ROUND, STEPS = 3200, 25


class Spread(PettingZooClass):  # type: ignore[misc]
    """The task from mpe2; BenchMARL looks for it in a package that PettingZoo no longer has."""

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], PettingZooWrapper]:
        return lambda: PettingZooWrapper(
            simple_spread_v3.parallel_env(max_cycles=STEPS),
            categorical_actions=True,
            return_state=True,
            seed=seed,
            device=device,
        )


class Clock(Callback):  # type: ignore[misc]
    """Prints a line per round: steps so far, CPU seconds, mean return per agent of the episodes that ended."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.steps = time.process_time(), 0

    def on_batch_collected(self, batch: Any) -> None:
        self.steps += batch.numel()
        ended = batch["next", "agent", "done"].any(-2).squeeze(-1)
        mean = batch["next", "agent", "episode_reward"].mean(-2).squeeze(-1)[ended].mean()
        print(f"{self.steps:>9} steps {time.process_time() - self.started:8.1f} CPU s   return {mean:8.2f}", flush=True)


def config(steps: int, worlds: int) -> ExperimentConfig:
    found = ExperimentConfig.get_from_yaml()
    found.sampling_device = found.train_device = found.buffer_device = "cpu"
    found.prefer_continuous_actions = False
    found.max_n_frames, found.gamma, found.lr = steps, 0.9, 7e-4
    found.clip_grad_val = 10.0
    found.on_policy_collected_frames_per_batch, found.on_policy_n_envs_per_worker = ROUND, worlds
    found.on_policy_n_minibatch_iters, found.on_policy_minibatch_size = 5, ROUND // 4
    found.evaluation, found.render, found.loggers, found.create_json = False, False, [], False
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=128_000)
    parser.add_argument("--worlds", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    algorithm = MappoConfig.get_from_yaml()
    algorithm.entropy_coef, algorithm.lmbda = 0.01, 0.95
    layers = MlpConfig.get_from_yaml()
    layers.num_cells, layers.activation_class = [64, 64], torch.nn.ReLU
    task = Spread("SIMPLE_SPREAD", {**PettingZooTask.SIMPLE_SPREAD.get_from_yaml().config, "max_cycles": STEPS})
    Experiment(
        task=task,
        algorithm_config=algorithm,
        model_config=layers,
        critic_model_config=layers,
        seed=options.seed,
        config=config(options.steps, options.worlds),
        callbacks=[Clock()],
    ).run()


if __name__ == "__main__":
    main()
