"""What can be had in the UAV worlds, without learning: the levels beside which learnt policies stand.

    python experiments/uav_limits.py uav1 uav2 uav2-relay [--worlds 64]

random: uniformly random actions, 200 steps. blind: one still placement for all worlds, by search. the way shown: every
UAV flies low and always where `view=outlook` points it, from a random placement; 200 steps, and the last 50 of 400. The
others know each world's true reward of any placement. climb: each UAV in turn takes the best of its 27 moves of 30 m,
until none helps; from a random placement, and from the blind one. best: still placements of each world by search, best
of several starts.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from echelon.envs.uav.config import uav_config
from echelon.envs.uav.env import UAVEnv

Places = NDArray[np.float64]  # (W, n, 3) metres
Reward = Callable[[Places], NDArray[np.float64]]  # (W,)

STARTS = 8
ROUNDS = 400
MOVES = [np.array(move) for move in itertools.product((-30.0, 0.0, 30.0), repeat=3)]


class Worlds:
    """Skies whose UAVs can be put anywhere."""

    def __init__(self, preset: str, count: int, seed: int) -> None:
        self.env = UAVEnv(uav_config(preset, max_steps=10**9), count, seed, name=preset, autoreset=False)
        self.env.reset()
        c = self.env.config
        self.floor, self.ceiling = np.array([0.0, 0.0, c.min_height]), np.array([c.area, c.area, c.max_height])
        self.shape = (count, c.num_uavs, 3)

    def reward(self, places: Places) -> NDArray[np.float64]:
        """A step of standing still there."""
        self.env.position = np.broadcast_to(places, self.shape).copy()
        return self.env.step(np.zeros(self.shape)).reward.astype(np.float64)

    def inside(self, places: Places) -> Places:
        return np.clip(places, self.floor, self.ceiling)

    def anywhere(self, rng: np.random.Generator, count: int | None = None) -> Places:
        shape = self.shape if count is None else (count, *self.shape[1:])
        return np.asarray(self.floor + rng.random(shape) * (self.ceiling - self.floor))

    def random_steps(self, rng: np.random.Generator, steps: int = 200) -> float:
        self.env.position = self.anywhere(rng)
        return float(np.mean([self.env.step(rng.uniform(-1, 1, self.shape)).reward for _ in range(steps)]))


def search(worlds: Worlds, reward: Reward, start: Places, rng: np.random.Generator, rounds: int) -> Places:
    """Hill climbing with random moves that become smaller; every row of `start` is improved on its own."""
    places, now = start, reward(start)
    size = 0.2 * worlds.ceiling[0]
    for _ in range(rounds):
        who = rng.integers(places.shape[1], size=len(places))
        moved = places.copy()
        moved[np.arange(len(places)), who] += rng.normal(size=(len(places), 3)) * (size, size, 15.0)
        moved = worlds.inside(moved)
        then = reward(moved)
        better = then > now
        places, now = np.where(better[:, None, None], moved, places), np.where(better, then, now)
        size = max(size * 0.99, 0.02 * worlds.ceiling[0])
    return places


def climb(worlds: Worlds, places: Places) -> Places:
    """Each UAV in turn takes the best of its moves, until no UAV of any world has one that helps."""
    now, idle = worlds.reward(places), 0
    for uav in itertools.cycle(range(worlds.shape[1])):
        here, before = places, now
        for move in MOVES:
            moved = here.copy()
            moved[:, uav] = worlds.inside(moved[:, uav] + move)
            then = worlds.reward(moved)
            better = then > now + 1e-12
            places, now = np.where(better[:, None, None], moved, places), np.where(better, then, now)
        idle = 0 if (now > before).any() else idle + 1
        if idle == worlds.shape[1]:
            return places
    raise AssertionError("unreachable")


def blind_placement(worlds: Worlds, rng: np.random.Generator) -> Places:
    """The still placement that is best on average over the worlds, (1, n, 3)."""
    found = [
        search(worlds, lambda p: worlds.reward(p).mean(keepdims=True), worlds.anywhere(rng, 1), rng, ROUNDS)
        for _ in range(STARTS)
    ]
    return max(found, key=lambda places: float(worlds.reward(places).mean()))


def the_way_shown(preset: str, count: int, seed: int) -> tuple[float, float]:
    """The mean reward of 200 steps of the rule "go where it says", and of steps 350 to 400."""
    env = UAVEnv(uav_config(preset, max_steps=10**9, view="outlook"), count, seed, name=preset, autoreset=False)
    seen, rewards = env.reset().observation, []
    end = env.config.obs_dim - env.config.relay_dim
    for _ in range(400):
        way = 2.0 * seen[:, :, end - 3 : end - 1] - 1.0
        step = env.step(np.concatenate([way, np.full_like(way[:, :, :1], -1.0)], axis=2))
        seen = step.observation
        rewards.append(float(step.reward.mean()))
    return float(np.mean(rewards[:200])), float(np.mean(rewards[350:]))


def levels(preset: str, count: int, seed: int) -> dict[str, float]:
    worlds, rng = Worlds(preset, count, seed), np.random.default_rng(seed)
    blind = blind_placement(Worlds(preset, 256, seed + 1), rng)  # found on other worlds
    still = [worlds.reward(search(worlds, worlds.reward, worlds.anywhere(rng), rng, 4 * ROUNDS)) for _ in range(STARTS)]
    shown, at_rest = the_way_shown(preset, count, seed)
    return {
        "random": worlds.random_steps(rng),
        "blind": float(worlds.reward(blind).mean()),
        "the way shown": shown,
        "the same, at rest": at_rest,
        "climb from random": float(worlds.reward(climb(worlds, worlds.anywhere(rng))).mean()),
        "climb from blind": float(worlds.reward(climb(worlds, np.repeat(blind, count, axis=0))).mean()),
        f"best of {STARTS} searches": float(np.max(still, axis=0).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="*", default=["uav1", "uav2", "uav2-relay"])
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    for preset in options.preset:
        print(f"{preset}, {options.worlds} worlds, reward a step")
        for name, value in levels(preset, options.worlds, options.seed).items():
            print(f"  {name:20} {value:.3f}")


if __name__ == "__main__":
    main()
