"""Cooks that play Overcooked well enough to serve soups and badly enough to meet every rule: tests need both."""

from __future__ import annotations

from collections import deque

import numpy as np

from echelon.envs.overcooked.env import Overcooked
from echelon.envs.overcooked.layouts import INTERACT, NORTH, Layout, ahead
from echelon.envs.overcooked.rules import (
    COOK_TIME,
    COUNTER,
    DISH,
    DISHES,
    MOST_ONIONS,
    NOTHING,
    ONION,
    ONIONS,
    POT,
    SERVING,
    SOUP,
    pot,
)


def reach(layout: Layout, start: int) -> dict[tuple[int, int], int]:
    """The first action on the shortest way to stand before and face every cell in reach, from a place (BFS)."""
    places = {cell: i for i, cell in enumerate(layout.floor)}
    first: dict[tuple[int, int], int] = {}
    seen, queue = {start: -1}, deque([start])
    while queue:
        place = queue.popleft()
        for action in range(4):
            cell = ahead(layout.floor[place], action)
            step = seen[place] if seen[place] >= 0 else action
            if cell in places and places[cell] not in seen:
                seen[places[cell]] = step
                queue.append(places[cell])
            elif cell not in places:
                first.setdefault(cell, step)
    return first


class ScriptedCooks:
    """Each cook goes to a thing that its hand suggests, now and then to any other, now and then anywhere."""

    def __init__(self, env: Overcooked, rng: np.random.Generator, noise: float = 0.2, odd: float = 0.15) -> None:
        self.env, self.rng, self.noise, self.odd = env, rng, noise, odd
        layout = env.layout
        self.ways = [reach(layout, place) for place in range(len(layout.floor))]
        self.were = np.full((env.num_envs, 2), -1)
        self.goals: list[list[tuple[int, int] | None]] = [[None, None] for _ in range(env.num_envs)]

    def act(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        joint = np.array([[self._act(b, i) for i in range(2)] for b in range(self.env.num_envs)])
        random = self.rng.integers(0, 6, joint.shape)
        return np.where(self.rng.random(joint.shape) < self.noise, random, joint)

    def _act(self, world: int, cook: int) -> int:
        env, place = self.env, int(self.env.place[world, cook])
        goal, near = self.goals[world][cook], list(self.ways[place])
        if goal is None:
            goal = self._goal(world, cook, near)
        elif place == self.were[world, cook] and self.rng.random() < 0.3:  # the other is in the way: go elsewhere
            goal = near[self.rng.integers(len(near))]
        self.were[world, cook] = place
        facing = ahead(env.layout.floor[place], int(env.facing[world, cook]))
        self.goals[world][cook] = None if facing == goal else goal
        return INTERACT if facing == goal else self.ways[place].get(goal, NORTH)

    def _goal(self, world: int, cook: int, near: list[tuple[int, int]]) -> tuple[int, int]:
        wanted = [cell for cell in near if self._suits(world, cook, cell)]
        if not wanted or self.rng.random() < self.odd:
            wanted = near
        return wanted[self.rng.integers(len(wanted))]

    def _suits(self, world: int, cook: int, cell: tuple[int, int]) -> bool:
        env, kind = self.env, self.env.layout.kind(cell)
        hand = int(env.hand[world, cook])
        content = int(env.content[world, env.layout.slots.get(cell, len(env.layout.slots))])
        onions, steps = pot(content) if kind == POT else (0, -1)
        near = [env.layout.kind(other) for other in self.ways[int(env.place[world, cook])]]
        if kind == COUNTER:  # to give and take what the other room needs
            shared = all(cell in self.ways[int(p)] for p in env.place[world])
            apart = POT not in near or ONIONS not in near
            return shared and apart and (hand == NOTHING) == (content != NOTHING) and (POT in near or hand != NOTHING)
        if hand == NOTHING:
            full = kind == POT and onions == MOST_ONIONS and steps < 0
            cooks = (env.content[world, : len(env.layout.pots)] > MOST_ONIONS).any()
            return full or kind == ONIONS or (kind == DISHES and bool(cooks))
        if hand == ONION:
            return kind == POT and onions < MOST_ONIONS and steps < 0
        return (hand == DISH and kind == POT and steps == COOK_TIME) or (hand > SOUP and kind == SERVING)
