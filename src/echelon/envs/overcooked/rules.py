"""What an interaction does, as tables over small integers.

A cook holds nothing, an onion, a dish or a soup of one to three onions. A *slot* is a place whose content changes: a
counter holds what a cook could hold; a pot holds up to three onions, then cooks them for 20 steps. Dispensers and the
serving window change nothing but the hand, and share one slot that stays empty.

Two sets of rules, as in `overcooked-ai`. In the new ones, its default and the only ones of its release on PyPI, a cook
with free hands begins the cooking by an interaction, and may do so with one or two onions: a soup that nobody ordered
and that earns nothing. `old_dynamics`, the game of Carroll et al. 2019: a pot begins to cook by itself, in the step
that puts the third onion in, and never before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from echelon.runtime.arrays import Array

COOK_TIME = 20
MOST_ONIONS = 3

NOTHING, ONION, DISH = range(3)
SOUP = DISH  # a soup of n onions is SOUP + n
HANDS = SOUP + MOST_ONIONS + 1

CONTENTS = 1 + MOST_ONIONS + MOST_ONIONS * (COOK_TIME + 1)
"""Of a pot: 0 is empty, 1..3 are onions that do not cook, then comes every number of steps cooked by 1, 2, 3 onions."""

FLOOR, COUNTER, ONIONS, DISHES, POT, SERVING = range(6)
KINDS = SERVING + 1
SIGNS = {" ": FLOOR, "X": COUNTER, "O": ONIONS, "D": DISHES, "P": POT, "S": SERVING}

QUIET, POTTED, DISH_TAKEN, SOUP_TAKEN, SERVED, WASTED, SMALL_TAKEN = range(7)
"""Events: nothing to tell; an onion into a pot; a dish from its dispenser; the soup that is ordered from its pot; that
soup served; another soup served; another soup from its pot."""


def cooking(onions: int, steps: int) -> int:
    """The content of a pot that has cooked a number of onions for a number of steps."""
    return 1 + MOST_ONIONS + (onions - 1) * (COOK_TIME + 1) + steps


def pot(content: int) -> tuple[int, int]:
    """Onions in a pot, and the steps they have cooked (−1: they do not cook)."""
    if content <= MOST_ONIONS:
        return content, -1
    onions, steps = divmod(content - 1 - MOST_ONIONS, COOK_TIME + 1)
    return onions + 1, steps


def interact(kind: int, hand: int, content: int, old_dynamics: bool) -> tuple[int, int, int]:
    """Hand, content and event after one cook's interaction with what stands before it."""
    if kind == COUNTER and content < HANDS and (hand == NOTHING) != (content == NOTHING):
        return content, hand, QUIET
    if kind == ONIONS and hand == NOTHING:
        return ONION, content, QUIET
    if kind == DISHES and hand == NOTHING:
        return DISH, content, DISH_TAKEN
    if kind == SERVING and hand > SOUP:
        return NOTHING, content, SERVED if hand == SOUP + MOST_ONIONS else WASTED
    if kind == POT:
        onions, steps = pot(content)
        if hand == NOTHING and onions and steps < 0 and not old_dynamics:
            return NOTHING, cooking(onions, 0), QUIET
        if hand == DISH and steps == COOK_TIME:
            return SOUP + onions, 0, SOUP_TAKEN if onions == MOST_ONIONS else SMALL_TAKEN
        if hand == ONION and steps < 0 and onions < MOST_ONIONS:
            return NOTHING, onions + 1, POTTED
    return hand, content, QUIET


def later(content: int, old_dynamics: bool) -> int:
    """The content of a pot one step later, after all interactions."""
    onions, steps = pot(content)
    if old_dynamics and onions == MOST_ONIONS and steps < 0:
        steps = 0
    return cooking(onions, steps + 1) if 0 <= steps < COOK_TIME else content


@dataclass(frozen=True)
class Rules:
    """`interact` and `later` for every case; the index of a case is `(kind · HANDS + hand) · CONTENTS + content`."""

    hand: Array  # (KINDS * HANDS * CONTENTS,)
    content: Array
    event: Array
    later: Array  # (CONTENTS,)


@lru_cache(maxsize=2)
def rules(old_dynamics: bool) -> Rules:
    """The tables of one set of rules."""
    cases = [
        interact(kind, hand, content, old_dynamics)
        for kind in range(KINDS)
        for hand in range(HANDS)
        for content in range(CONTENTS)
    ]
    hand, content, event = np.array(cases, dtype=np.int64).T.copy()
    return Rules(hand, content, event, np.array([later(c, old_dynamics) for c in range(CONTENTS)], dtype=np.int64))


def awaits_dish(content: int) -> bool:
    """A dish taken now is of use for this pot: it is cooking, ready or partly full."""
    onions, steps = pot(content)
    return steps >= 0 or 0 < onions < MOST_ONIONS


AWAITS_DISH = np.array([awaits_dish(c) for c in range(CONTENTS)])
