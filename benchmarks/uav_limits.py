"""Rewards in the UAV worlds without learning, to compare learnt policies with.

    python benchmarks/uav_limits.py uav1 uav2 uav2-relay [--worlds 64]

random: uniformly random actions, 200 steps. blind: one still placement for all worlds, by search. planner: every UAV
flies low and always towards the best of 84 spots around it, from a random placement; 200 steps, and the last 50 of 400.
It knows the reward's formula (coverage and quality, not links to the ground), which no policy sees. The others know
each world's true reward of any placement. climb: each UAV in turn takes the best of its 27 moves of 30 m,
until none helps; from a random placement, and from the blind one. best: still placements of each world by search, best
of several starts.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from echelon.envs.uav import radio
from echelon.envs.uav.config import uav_config
from echelon.envs.uav.env import UAVEnv

Places = NDArray[np.float64]  # (W, n, 3) metres
Reward = Callable[[Places], NDArray[np.float64]]  # (W,)

STARTS = 8
ROUNDS = 400
RINGS = (0.03, 0.06, 0.1, 0.16, 0.24, 0.34, 0.46)  # of the planner's spots: radii in sides of the area
DIRECTIONS = 12
PATIENCE = 0.97  # what is left of a gain for each step that it is away
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


def ring_offsets() -> NDArray[np.float64]:
    """(1 + spots, 2) in sides of the area: staying, then ring by ring, every other ring turned by half a direction."""
    turn = np.arange(DIRECTIONS) + 0.5 * (np.arange(len(RINGS)) % 2)[:, None]
    angle = 2.0 * np.pi / DIRECTIONS * turn  # (rings, directions)
    spots = np.array(RINGS)[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=2)
    return np.concatenate([np.zeros((1, 2)), spots.reshape(-1, 2)])


def spot_values(env: UAVEnv, uav: int) -> NDArray[np.float64]:
    """The reward's terms of coverage and quality with this UAV at each of its spots, the others as now, (W, 85)."""
    c, values = env.config, []
    noise, least = radio.from_db(c.noise), radio.from_db(c.min_sinr)
    for offset in ring_offsets():
        position = env.position.copy()
        position[:, uav, :2] = np.clip(position[:, uav, :2] + offset * c.area, 0.0, c.area)
        flat_sq = ((position[:, :, None, :2] - env.users[:, None]) ** 2).sum(axis=3)  # (W, n, m)
        power = radio.log_distance_power(c.uav_power, c.channel, flat_sq + position[:, :, 2:3] ** 2)
        found = radio.associate(power, noise, least, c.capacity)
        served = found.served
        heard = 10.0 * np.log10(np.where(served, found.sinr, 1.0))
        over = np.where(served, np.clip((heard - c.min_sinr) / radio.QUALITY_SPAN, 0.0, 1.0), 0.0)
        quality = over.sum(axis=1) / np.maximum(served.sum(axis=1), 1)
        values.append(c.coverage_weight * served.mean(axis=1) + c.quality_weight * quality)
    return np.stack(values, axis=1)


def planner(preset: str, count: int, seed: int) -> tuple[float, float]:
    """The mean reward of 200 steps of the rule "fly to the best spot", and of steps 350 to 400."""
    env = UAVEnv(uav_config(preset, max_steps=10**9), count, seed, name=preset, autoreset=False)
    env.reset()
    stride, spots, rewards = env.config.max_speed * env.config.dt / env.config.area, ring_offsets(), []
    patience = PATIENCE ** (np.linalg.norm(spots, axis=1) / stride)
    for _ in range(400):
        actions = np.full((count, env.config.num_uavs, 3), -1.0)
        for uav in range(env.config.num_uavs):
            values = spot_values(env, uav)
            best = ((values - values[:, :1]) * patience).argmax(axis=1)  # 0, staying, where nothing is better
            actions[:, uav, :2] = np.clip(spots[best] / stride, -1.0, 1.0)
        rewards.append(float(env.step(actions).reward.mean()))
    return float(np.mean(rewards[:200])), float(np.mean(rewards[350:]))


def levels(preset: str, count: int, seed: int) -> dict[str, float]:
    worlds, rng = Worlds(preset, count, seed), np.random.default_rng(seed)
    blind = blind_placement(Worlds(preset, 256, seed + 1), rng)  # found on other worlds
    still = [worlds.reward(search(worlds, worlds.reward, worlds.anywhere(rng), rng, 4 * ROUNDS)) for _ in range(STARTS)]
    planned, at_rest = planner(preset, count, seed)
    return {
        "random": worlds.random_steps(rng),
        "blind": float(worlds.reward(blind).mean()),
        "planner": planned,
        "planner, at rest": at_rest,
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
        print(f"{preset}, {options.worlds} worlds, reward per step")
        for name, value in levels(preset, options.worlds, options.seed).items():
            print(f"  {name:20} {value:.3f}")


if __name__ == "__main__":
    main()
