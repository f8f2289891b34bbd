"""The best return there is in an Overcooked kitchen with one pot: dynamic programming over all states.

All places, facings, hands and pot contents of two cooks who act as one; counters stay empty, or one thing at a time
lies on one of the first `--counters`. Nothing else is left out, so that no policy that uses counters no more than that
earns more. Run: `python experiments/overcooked_limit.py` (half a minute), `--old-dynamics` for the rules of 2019.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from echelon.envs.overcooked.env import Overcooked
from echelon.envs.overcooked.rules import COOK_TIME, DISH, MOST_ONIONS, NOTHING, ONION, SOUP, cooking
from echelon.runtime.arrays import Array

THINGS = (NOTHING, ONION, DISH, SOUP + MOST_ONIONS)  # soups of fewer onions earn nothing
POTS = (*range(MOST_ONIONS + 1), *(cooking(MOST_ONIONS, steps) for steps in range(1, COOK_TIME + 1)))


def states(env: Overcooked, counters: int) -> dict[str, Array]:
    """Every state as columns: two places, two facings, two hands, the pot, and what lies where."""
    floor = range(len(env.layout.floor))
    places = [(a, b) for a in floor for b in floor if a != b]
    laid = [(0, NOTHING)] + [(slot, thing) for slot in range(1, counters + 1) for thing in THINGS[1:]]
    axes = [len(places), 16, len(THINGS) ** 2, len(POTS), len(laid)]
    place, facing, hand, pot, lies = np.unravel_index(np.arange(np.prod(axes)), axes)
    hands = np.array(list(itertools.product(THINGS, repeat=2)))
    content = np.zeros((len(pot), env.content.shape[1]), dtype=np.int64)
    content[:, 0] = np.array(POTS)[pot]
    slots, things = np.array(laid).T
    on = lies > 0
    content[on, slots[lies[on]]] = things[lies[on]]
    return {
        "place": np.array(places)[place],
        "facing": np.stack(np.divmod(facing, 4), 1),
        "hand": hands[hand],
        "content": content,
    }


def number(columns: dict[str, Array], env: Overcooked, counters: int) -> Array:
    """The number of each state in the order of `states`; −1 for those that are left out."""
    floor = len(env.layout.floor)
    first, second = columns["place"].T
    place = first * (floor - 1) + second - (second > first)
    thing = np.full(SOUP + MOST_ONIONS + 1, -1)
    thing[list(THINGS)] = range(len(THINGS))
    pots = np.full(max(POTS) + 1, -1)
    pots[list(POTS)] = range(len(POTS))
    hand, pot = thing[columns["hand"]], pots[np.minimum(columns["content"][:, 0], max(POTS))]
    laid = columns["content"][:, 1:-1]
    which = (laid[:, :counters] > 0).argmax(1) if counters else np.zeros(len(laid), dtype=np.int64)
    lying = thing[laid[np.arange(len(laid)), which]] if counters else np.zeros(len(laid), dtype=np.int64)
    lies = np.where(lying > 0, 1 + which * (len(THINGS) - 1) + lying - 1, 0)
    out = (hand < 0).any(1) | (pot < 0) | ((laid > 0).sum(1) > (lying > 0))
    index = ((place * 16 + columns["facing"] @ [4, 1]) * len(THINGS) ** 2 + hand @ [len(THINGS), 1]) * len(POTS) + pot
    return np.where(out, -1, index * (1 + counters * (len(THINGS) - 1)) + lies)


def transitions(layout: str, old_dynamics: bool, counters: int) -> tuple[Array, Array, int]:
    """What every joint action (36 rows) earns in every state, where it leads, and the number of the first state."""
    probe = Overcooked(layout, 1)
    probe.reset()
    if len(probe.layout.pots) != 1:
        raise ValueError(f"{layout} has {len(probe.layout.pots)} pots; this search is for kitchens with one")
    every = states(probe, counters)
    total, size = len(every["place"]), 30 * 16 * len(THINGS) ** 2
    env = Overcooked(layout, size, old_dynamics=old_dynamics, max_steps=10**6, autoreset=False)
    env.reset()
    earned, leads = np.zeros((36, total), dtype=np.uint8), np.zeros((36, total), dtype=np.int32)
    for first, action in itertools.product(range(0, total, size), range(36)):
        part = slice(first, first + size)
        env.place, env.facing = every["place"][part].copy(), every["facing"][part].copy()
        env.hand[...], env.content[...] = every["hand"][part], every["content"][part]
        earned[action, part] = env.step(np.tile(divmod(action, 6), (size, 1))).reward
        after = {"place": env.place, "facing": env.facing, "hand": env.hand, "content": env.content}
        leads[action, part] = number(after, env, counters)
    start = {"place": probe.place, "facing": probe.facing, "hand": probe.hand, "content": probe.content}
    return earned, leads, int(number(start, probe, counters)[0])


def best(earned: Array, leads: Array, start: int, steps: int) -> list[float]:
    """The best return of episodes of 1 .. `steps` steps from the start."""
    value = np.zeros(earned.shape[1] + 1, dtype=np.float32)
    value[-1] = -np.inf  # index −1: a state that was left out
    returns = []
    for _ in range(steps):
        following = np.full(earned.shape[1], -np.inf, dtype=np.float32)
        for reward, to in zip(earned, leads, strict=True):
            np.maximum(following, reward + value[to], out=following)
        value[:-1] = following
        returns.append(float(value[start]))
    return returns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layout", default="cramped_room")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--old-dynamics", action="store_true", help="full pots begin to cook by themselves")
    parser.add_argument("--counters", type=int, default=0, help="counters on which one thing at a time may lie")
    options = parser.parse_args()
    earned, leads, start = transitions(options.layout, options.old_dynamics, options.counters)
    returns = best(earned, leads, start, options.steps)
    soups = [t + 1 for t in range(1, len(returns)) if returns[t] > returns[t - 1]]
    rules = "old" if options.old_dynamics else "new"
    print(f"{options.layout}, {rules} dynamics, {options.counters} counters, {earned.shape[1]:,} states")
    print(f"best return of {options.steps} steps: {returns[-1]:.0f}; soups can be served in steps {soups}")


if __name__ == "__main__":
    main()
