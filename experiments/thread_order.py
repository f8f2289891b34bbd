"""How much L4 can matter at all: the bundled layers with other divisions of attention among the threads of a call.

    python experiments/thread_order.py --configs 12

Each of these takes L4's place in all of our seats: equal shares (threads are then settled in the order of their names),
random shares, the learnt shares turned round (who came first comes last), and the rules' shares. Prints the score less
that of the learnt L4 in the same worlds, with the standard error over configurations.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from echelon.hrl_xf.layers.protocols import Coordinator
from echelon.hrl_xf.layers.rules import HeuristicCoordinator
from echelon.hrl_xf.online.collector import play_all
from echelon.hrl_xf.online.worlds import PlayedSeat, WorldTask, play_with
from echelon.hrl_xf.play.choice import choose_layers
from echelon.runtime.arrays import Bools, Float32, Ints
from echelon.runtime.execution.executors import make_executor


@dataclass(frozen=True)
class Reshaped:
    """Another coordinator's shares, changed; every row of a result sums to 1 over its threads."""

    learnt: Coordinator
    change: Callable[[Float32], Float32]

    def alpha(self, thread_feat: Float32, global_feat: Float32, days: Ints, role: Float32, mask: Bools) -> Float32:
        """α of each thread, 0 in padding.  # (S, K)"""
        share = self.change(np.maximum(self.learnt.alpha(thread_feat, global_feat, days, role, mask), 1e-6)) * mask
        found: Float32 = (share / share.sum(1, keepdims=True)).astype(np.float32)
        return found


def random_shares(alpha: Float32) -> Float32:
    """Shares that follow from those given and have nothing to do with them."""
    draw = np.random.default_rng(np.frombuffer(alpha.tobytes(), np.uint32))
    return draw.random(alpha.shape).astype(np.float32)


CHANGES: dict[str, Callable[[Float32], Float32]] = {
    "equal shares": np.ones_like,
    "random shares": random_shares,
    "learnt shares turned round": lambda alpha: 1.0 / alpha,
}
LEARNT, RULES = "learnt shares", "the rules' shares"


def play(task: WorldTask, who: str) -> list[PlayedSeat]:
    """Play a world with this division of attention."""
    layers = choose_layers("bundled", "bundled", "bundled")
    if who == RULES:
        layers = replace(layers, l4=HeuristicCoordinator())
    elif who != LEARNT:
        layers = replace(layers, l4=Reshaped(layers.l4, CHANGES[who]))
    return play_with(task, layers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fields", default="league+champions")
    parser.add_argument("--configs", type=int, default=12, help="of each field")
    parser.add_argument("--steps", type=int, default=50, help="days of a world")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--parallelism", default="loky")
    options = parser.parse_args()
    who = [LEARNT, *CHANGES, RULES]
    fields = options.fields.split("+")
    tasks = [
        WorldTask(field, options.seed, i, "each-level", options.steps, None)
        for field in fields
        for i in range(options.configs)
    ]
    with make_executor(options.parallelism) as executor:
        played = play_all(executor, play, [(task, one) for one in who for task in tasks], 900.0, quiet=False)
    scores = np.array([math.nan if seats is None else float(np.mean([s.score for s in seats])) for seats in played])
    gains = scores.reshape(len(who), len(fields), options.configs)
    gains = gains - gains[:1]
    for one, gain in zip(who[1:], gains[1:], strict=True):
        said = [
            f"{field} {np.nanmean(g):+.4f} ± {np.nanstd(g, ddof=1) / math.sqrt(np.isfinite(g).sum()):.4f}"
            for field, g in zip(fields, gain, strict=True)
        ]
        print(f"{one}: {', '.join(said)}")


if __name__ == "__main__":
    main()
