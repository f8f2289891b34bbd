"""Does a choice of options learn Alice_and_Bob, seed by seed? One line for each short training.

    python experiments/alice_search.py 1 2 3 --steps 600000 --set lambda_agent=0.1 discriminator_epochs=4

A training stops once five rounds in a row had a mean success above 90 % (`solved`), else after --steps. Printed beside:
when the first reward was earned, in how many rounds any was, success over the last ten rounds, how often the individual
discriminator is right, and the share of steps agents stand on each corner (1.6 % each if they stood anywhere). --every
prints these along the way. Start several processes with other seeds to use more cores.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from echelon.envs.alice_and_bob import SIDE
from echelon.hmasd.commands.train import Run
from echelon.hmasd.learning.rollout import DISCOVERER
from echelon.hmasd.presets import preset
from echelon.onpolicy.batch import RolloutBatch

SOLVED, IN_A_ROW = 0.9, 5


def corner_shares(batch: RolloutBatch) -> NDArray[np.float64]:
    """Share of agents' steps on the blue button, the red button, the red diamond and the blue diamond."""
    row, column = np.moveaxis(batch.extra["next_observation"][..., :2], -1, 0)  # in [-1, 1]
    ends = [(y, x) for y in (-1, 1) for x in (-1, 1)]
    near = 1 / SIDE  # less than half a cell
    return np.array([((abs(row - y) < near) & (abs(column - x) < near)).mean() for y, x in ends])


def train(seed: int, steps: int, every: int, changes: dict[str, Any]) -> str:
    """One training, as a line."""
    options = preset("alice_and_bob")
    run = Run(replace(options, config=replace(options.config, seed=seed, **changes)), None)
    successes: list[float] = []
    first = solved = None
    line = ""
    for done in run.loop:
        successes.append(float(run.worlds.episodes.returns.mean()))  # the only reward is 1, for success
        learnt = done.stats.discriminators
        right = "" if learnt is None else f"individual {learnt.individual_accuracy:.2f}, "
        corners = " ".join(f"{share:.1%}" for share in corner_shares(done.rollout[DISCOVERER]))
        first = first or (done.env_steps if successes[-1] else None)
        if len(successes) >= IN_A_ROW and np.mean(successes[-IN_A_ROW:]) > SOLVED:
            solved = done.env_steps
        line = (
            f"seed {seed}: {done.env_steps:,} steps, first reward {first or 'never'}, in {np.count_nonzero(successes)} "
            f"rounds, solved {solved or 'no'}, last ten rounds {np.mean(successes[-10:]):.1%}, {right}corners {corners}"
        )
        if every and done.crossed(every) is not None:
            print(f"  {line}", flush=True)
        if solved or done.env_steps >= steps:
            break
    run.worlds.close()
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int, nargs="+")
    parser.add_argument("--steps", type=int, default=800_000)
    parser.add_argument("--every", type=int, default=0, metavar="STEPS")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="other values than the preset's")
    options = parser.parse_args()
    torch.set_num_threads(1)
    changes = {name: json.loads(value) for name, _, value in (text.partition("=") for text in options.set)}
    for seed in options.seed:
        print(train(seed, options.steps, options.every, changes), flush=True)


if __name__ == "__main__":
    main()
