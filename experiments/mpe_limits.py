"""What planners earn in simple_spread and simple_speaker_listener: the marks that learnt policies stand beside.

simple_spread: in every step the planner assigns agents to landmarks so that the sum of distances is least, and pushes
each agent along the axis on which it would be furthest from its landmark after coasting for some steps. It knows
nothing of collisions, so it is not the best there is. With `--landmarks .8` landmarks lie within .8 of the middle, as
in the environment of the published MAPPO. simple_speaker_listener: the listener knows the goal from the start and is
steered in the same way. Run: `python experiments/mpe_limits.py` (ten seconds).
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from echelon.envs.mpe.physics import DAMPING, DT, length
from echelon.envs.mpe.speaker_listener import SimpleSpeakerListener
from echelon.envs.mpe.spread import SimpleSpread
from echelon.runtime.arrays import Array


def assigned(env: SimpleSpread) -> Array:
    """The landmark of each agent, (B, n, 2): of all assignments the one with the least sum of distances."""
    agents = range(env.spec.num_agents)
    away = length(env.position[:, :, None] - env.landmarks[:, None])  # (B, agents, landmarks)
    orders = np.array(list(itertools.permutations(agents)))
    costs = np.stack([away[:, agents, order].sum(1) for order in orders], 1)
    best = orders[costs.argmin(1)]  # (B, n)
    return np.take_along_axis(env.landmarks, best[:, :, None], 1)


def pushes(position: Array, velocity: Array, target: Array, coasting: int, rest: float) -> Array:
    """Actions (...): towards the target (..., 2), or nothing where the agent would come to lie within `rest` of it."""
    reach = DT * sum((1 - DAMPING) ** step for step in range(coasting))
    error = target - (position + velocity * reach)
    axis = np.abs(error).argmax(-1)
    off = np.take_along_axis(error, axis[..., None], -1)[..., 0]
    return np.where(np.abs(off) < rest, 0, 1 + 2 * axis + (off > 0))


def spread(worlds: int, seed: int, landmarks: float, coasting: int | None, rest: float) -> dict[str, Array]:
    """What one episode per world tells at its end; without `coasting` actions are random."""
    env, rng = SimpleSpread(worlds, seed, autoreset=False), np.random.default_rng(seed)
    env.reset()
    env.landmarks *= landmarks
    for _ in range(env.spec.max_steps or 0):
        actions: Array = rng.integers(0, 5, (worlds, env.spec.num_agents))
        if coasting is not None:
            actions = pushes(env.position, env.velocity, assigned(env), coasting, rest)
        step = env.step(actions)
    return dict(step.info)


def listener(worlds: int, seed: int, coasting: int | None, rest: float) -> Array:
    """Returns of one episode per world of simple_speaker_listener."""
    env, rng = SimpleSpeakerListener(worlds, seed, autoreset=False), np.random.default_rng(seed)
    env.reset()
    for _ in range(env.spec.max_steps or 0):
        actions: Array = rng.integers(0, (3, 5), (worlds, 2))
        if coasting is not None:
            goal = env.landmarks[np.arange(worlds), env.goal]
            actions[:, 1] = pushes(env.position, env.velocity, goal, coasting, rest)
        step = env.step(actions)
    return step.info["episode_return"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--landmarks", type=float, default=1.0)
    options = parser.parse_args()
    plans: list[tuple[int | None, float]] = [(None, 0.0), *itertools.product((1, 2, 3, 4, 6), (0.0, 0.02, 0.05))]
    for coasting, rest in plans:
        told = spread(options.worlds, options.seed, options.landmarks, coasting, rest)
        more = f"   covered {told['covered'].mean():.2f} of 3   collisions {told['collisions'].mean():.2f}"
        print(line("spread", coasting, rest, told["episode_return"]) + more)
    for coasting, rest in plans:
        print(line("speaker_listener", coasting, rest, listener(options.worlds, options.seed, coasting, rest)))


def line(world: str, coasting: int | None, rest: float, returns: Array) -> str:
    name = "random actions" if coasting is None else f"planner, {coasting} steps of coasting, rest {rest}"
    return f"{world:<17} {name:<42} return {returns.mean():7.2f} ± {returns.std() / len(returns) ** 0.5:.2f}"


if __name__ == "__main__":
    main()
