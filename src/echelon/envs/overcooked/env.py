"""Overcooked: two cooks fill pots with onions, wait, and serve soups; the team earns 20 for each soup of three onions.

The game of `overcooked-ai`: the same joint actions give the same states and rewards (a test plays both). An episode has
400 steps and ends by truncation. Six actions: north, south, east, west, stay, interact. A cook turns to where it wants
to go, and goes there if that is floor; cooks who would meet or pass through each other both stay. Interactions are
resolved before moves, the first cook's before the second's; then pots cook. `rules` says what they do, `views` what the
cooks see. By default the rules are those of `overcooked-ai` as it is: a cook begins the cooking. `old_dynamics` has
those of 2019, with which more can be earned (docs/results/overcooked.md).

A world is a few small integers: places, facings and hands of the cooks, and the content of every slot. A step is two
look-ups for the interactions and one for the moves.

Reward shaping as in `overcooked-ai`: 3 for an onion into a pot, 3 for a dish taken when a pot can use it, 5 for a soup
taken from its pot, multiplied by `shaping` and, with `shaping_steps`, by a weight that falls in a straight line to zero
in that number of a world's steps. `overcooked-ai` pays the 5 for any soup, also for one of fewer onions, which nobody
ordered; with `shape_small_soups=false` those are worth nothing. Shaping is added to the reward that training sees,
never to `episode_return`: that counts soups only, so evaluations need no other options. `info` holds `soups` and
`shaped_return` of the episode so far (unweighted), and `shaped_by_agent` of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.envs.dense import DenseEnv, Outcome, Rows
from echelon.envs.overcooked.layouts import ACTIONS, INTERACT, NORTH, layout
from echelon.envs.overcooked.rules import AWAITS_DISH, CONTENTS, DISH, DISH_TAKEN, HANDS, SERVED, rules
from echelon.envs.overcooked.views import Views
from echelon.envs.parallel import SingleWorld
from echelon.envs.vector import DiscreteActions, EnvSpec, Observed
from echelon.runtime.arrays import Array, Float32

AGENTS = ("cook_0", "cook_1")
SOUP_REWARD = 20
SHAPED = np.array([0, 3, 3, 5, 0, 0, 5], dtype=np.int64)  # by event
SHAPED_ORDERED = np.array([0, 3, 3, 5, 0, 0, 0], dtype=np.int64)
TURNS = np.array([[0, 1, 2, 3, facing, facing] for facing in range(4)], dtype=np.int64).reshape(-1)
"""The facing after each action. Flat: facing · 6 + action."""


class Overcooked(DenseEnv):
    """B kitchens of one layout."""

    def __init__(
        self,
        layout_name: str,
        num_envs: int,
        seed: int | Sequence[int] = 0,
        *,
        max_steps: int = 400,
        old_dynamics: bool = False,
        random_starts: bool = False,
        shaping: float = 0.0,
        shaping_steps: int | None = None,
        shape_small_soups: bool = True,
        autoreset: bool = True,
    ) -> None:
        if shaping < 0:
            raise ValueError(f"shaping={shaping} must not be negative; 0 turns it off")
        if shaping_steps is not None and shaping_steps < 1:
            raise ValueError(f"shaping_steps={shaping_steps} must be at least 1; leave it out for a constant weight")
        self.layout = layout(layout_name)
        self.views, self.rules = Views(self.layout), rules(old_dynamics)
        width = self.views.width
        spec = EnvSpec(
            f"overcooked:{layout_name}",
            AGENTS,
            (width, width),
            width,
            DiscreteActions((6, 6)),
            max_steps,
            state_places=tuple(range(width)),
            action_names=ACTIONS,
        )
        super().__init__(spec, num_envs, seed, autoreset=autoreset)
        self.random_starts, self.shaping, self.shaping_steps = random_starts, float(shaping), shaping_steps
        self._shaped = SHAPED if shape_small_soups else SHAPED_ORDERED
        self.place, self.facing, self.hand = (np.zeros((num_envs, 2), dtype=np.int64) for _ in range(3))
        self.content = np.zeros((num_envs, len(self.layout.slots) + 1), dtype=np.int64)
        self.soups, self.shaped_return, self.age = (np.zeros(num_envs, dtype=np.int64) for _ in range(3))
        self._first_slot = np.arange(num_envs) * self.content.shape[1]

    def reset(self, seed: int | Sequence[int] | None = None) -> Observed:
        if seed is not None:
            self.age[:] = 0  # a world with a new seed begins from nothing, its shaping too
        return super().reset(seed)

    def _begin(self, rows: Rows) -> None:
        self.place[rows] = self._drawn_places(rows) if self.random_starts else self.layout.starts
        self.facing[rows], self.hand[rows], self.content[rows] = NORTH, 0, 0
        self.soups[rows], self.shaped_return[rows] = 0, 0

    def _drawn_places(self, rows: Rows) -> Array:
        """Any two places, in whichever room they are."""
        draws, places = self.streams.uniform(rows, 2), len(self.layout.floor)
        first = (draws[:, 0] * places).astype(np.int64)
        second = (draws[:, 1] * (places - 1)).astype(np.int64)
        second += second >= first  # any place but the first cook's
        return np.stack([first, second], axis=1)  # (W, 2)

    def _advance(self, actions: Array) -> Outcome:
        weight = self._shaping_weight()
        self.age += 1
        served, shaped = self._interact(actions == INTERACT)
        self._move(actions)
        pots = self.content[:, : self.views.pots]
        pots[...] = self.rules.later.take(pots)
        self.soups += served
        earned = shaped.sum(1)
        self.shaped_return += earned
        score = SOUP_REWARD * served
        reward = score if weight is None else score + weight * earned
        told = {"soups": self.soups.copy(), "shaped_return": self.shaped_return.copy(), "shaped_by_agent": shaped}
        return Outcome(reward, None, told, score)

    def _shaping_weight(self) -> Array | float | None:
        """Of each world in this step; None: there is no shaping."""
        if self.shaping == 0:
            return None
        if self.shaping_steps is None:
            return self.shaping
        return self.shaping * np.maximum(1.0 - self.age / self.shaping_steps, 0.0)  # (B,)

    def _interact(self, acts: Array) -> tuple[Array, Array]:
        """Soups served (B,) and shaped rewards (B, 2); the first cook's interaction is resolved first."""
        pots = self.views.pots
        awaiting = AWAITS_DISH.take(self.content[:, :pots]).sum(1)  # before any interaction, as in overcooked-ai
        served = np.zeros(self.num_envs, dtype=np.int64)
        shaped = np.zeros((self.num_envs, 2), dtype=np.int64)
        for cook in range(2):
            looks = self.place[:, cook] * 4 + self.facing[:, cook]
            slot = self._first_slot + self.layout.ahead_slot.take(looks)
            kind = self.layout.ahead_kind.take(looks) * acts[:, cook]  # who does not act looks at the floor
            case = (kind * HANDS + self.hand[:, cook]) * CONTENTS + self.content.take(slot)
            event = self.rules.event.take(case)
            reward = self._shaped.take(event)
            takes = event == DISH_TAKEN
            if takes.any():
                dishes = (self.hand == DISH).sum(1)
                lying = (self.content[:, pots:] == DISH).any(1)
                reward[takes & (lying | (dishes >= awaiting))] = 0
            shaped[:, cook] = reward
            served += event == SERVED
            self.hand[:, cook] = self.rules.hand.take(case)
            self.content.put(slot, self.rules.content.take(case))
        return served, shaped

    def _move(self, actions: Array) -> None:
        to = self.layout.moves.take(self.place * 6 + actions)
        swap = (to[:, 0] == self.place[:, 1]) & (to[:, 1] == self.place[:, 0])
        free = (to[:, 0] != to[:, 1]) & ~swap
        self.place = np.where(free[:, None], to, self.place)
        self.facing = TURNS.take(self.facing * 6 + actions)

    def _observe(self, rows: Rows) -> tuple[Float32, Float32]:
        views = self.views.observe(self.place[rows], self.facing[rows], self.hand[rows], self.content[rows])
        return views, views[:, 0].copy()

    def _arrays(self) -> dict[str, Array]:
        return {
            "place": self.place,
            "facing": self.facing,
            "hand": self.hand,
            "content": self.content,
            "soups": self.soups,
            "shaped_return": self.shaped_return,
            "age": self.age,
        }

    def render(self, world: int = 0, colours: Sequence[str] | None = None) -> NDArray[np.uint8]:
        from echelon.envs.overcooked.render import draw_kitchen

        caption = f"step {self.step_count[world]} of {self.spec.max_steps}   ·   soups served: {self.soups[world]}"
        return draw_kitchen(
            self.layout,
            self.place[world].tolist(),
            self.facing[world].tolist(),
            self.hand[world].tolist(),
            self.content[world].tolist(),
            caption,
            colours,
        )


def parallel_env(layout_name: str = "cramped_room", render_mode: str | None = None, **options: Any) -> SingleWorld:
    """One kitchen as a PettingZoo ParallelEnv; the options are those of `Overcooked`."""
    return SingleWorld(Overcooked(layout_name, 1, [0], autoreset=False, **options), -1.0, 1.0, render_mode)
