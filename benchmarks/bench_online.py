"""What recording wishes adds to a world of online training, by processor time, in turns with worlds that only draw."""

from __future__ import annotations

import time

import numpy as np

from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.online import worlds
from echelon.hrl_xf.online.exploring import ExploringCoordinator, ExploringManager
from echelon.hrl_xf.online.worlds import Weights, WorldTask, play_round_world
from echelon.hrl_xf.weights import BUNDLED, layer_in
from echelon.runtime.seeding import rng, task_seed

PAIRS = 6


def play_without_recording(task: WorldTask, weights: Weights) -> int:
    """The same draws, and nobody who listens."""
    assert task.draws is not None
    _, world, agents = worlds._built(task, ())
    for seat, agent in enumerate(agents):
        l2, l3, l4 = weights.players()
        agent.mode = "sample"
        agent.layers = Layers(
            ExploringManager(l2, rng(task.draws, "l2", seat), lambda _: None),
            l3,
            ExploringCoordinator(l4, weights.l4_log_std, rng(task.draws, "l4", seat), lambda _: None),
        )
        agent.reseed(task_seed(task.draws, "l3", seat))
    world.run()
    return len(world.saved_contracts)


def main() -> None:
    l2, l3, l4 = (layer_in(BUNDLED, level).read_bytes() for level in ("l2", "l3", "l4"))
    weights = Weights(l2, l3, l4, -1.2)
    play_round_world(WorldTask("league", 1, 99, "each-level", 20, draws=0), weights)  # imports and caches
    shares, wishes, spent = [], 0, 0.0
    for i in range(PAIRS):
        task = WorldTask("league", 1, i, "each-level", 50, draws=i)
        began = time.process_time()
        seats = play_round_world(task, weights)
        recorded = time.process_time() - began
        began = time.process_time()
        play_without_recording(task, weights)
        plain = time.process_time() - began
        shares.append(recorded / plain - 1.0)
        wishes, spent = wishes + sum(seat.asked for seat in seats), spent + recorded
    print(f"recording adds {100 * np.mean(shares):+.1f} % to a world ({', '.join(f'{100 * s:+.1f}' for s in shares)})")
    print(f"{wishes / spent:.0f} wishes and {PAIRS / spent:.2f} worlds of the league per second of one core")


if __name__ == "__main__":
    main()
