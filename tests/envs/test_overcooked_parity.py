"""Our kitchens beside those of `overcooked-ai`: the same joint actions give the same states and rewards."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.envs.scripted_cooks import ScriptedCooks

from echelon.envs.overcooked.env import Overcooked
from echelon.envs.overcooked.layouts import MAPS
from echelon.envs.overcooked.rules import DISH, ONION, SOUP, pot

registration: Any = ModuleType("gym.envs.registration")
registration.register = lambda **_: None
with patch.dict(
    sys.modules, {"gym": ModuleType("gym"), "gym.envs": ModuleType("gym.envs"), "gym.envs.registration": registration}
):  # importing overcooked_ai_py registers it with gym, which is not installed and which its rules do not use
    from overcooked_ai_py.mdp.actions import Action, Direction
    from overcooked_ai_py.mdp.overcooked_mdp import OvercookedGridworld

THEIRS = {name: name for name in MAPS} | {"counter_circuit": "counter_circuit_o_1order"}
WORLDS, EPISODE = 10, 400


class OldGridworld(OvercookedGridworld):  # type: ignore[misc]
    """The rules of 2019, which the version on PyPI has no option for: full pots begin to cook, nobody begins it."""

    def soup_to_be_cooked_at_location(self, state: Any, pos: Any) -> bool:
        return False

    def step_environment_effects(self, state: Any) -> None:
        for thing in state.objects.values():
            if thing.name == "soup" and thing.is_idle and len(thing.ingredients) == 3:
                thing.begin_cooking()
        super().step_environment_effects(state)


def gridworld(layout: str, old_dynamics: bool) -> Any:
    world = OvercookedGridworld.from_layout_name(THEIRS[layout])
    if old_dynamics:
        world.__class__ = OldGridworld
    return world


def their_thing(thing: Any) -> int:
    if thing is None:
        return 0
    return SOUP + len(thing.ingredients) if thing.name == "soup" else {"onion": ONION, "dish": DISH}[thing.name]


def their_state(state: Any, pots: set[tuple[int, int]]) -> dict[str, Any]:
    """Cells as (row, column)."""
    things = {(y, x): thing for (x, y), thing in state.objects.items()}
    return {
        "cells": [(p.position[1], p.position[0]) for p in state.players],
        "facing": [Direction.DIRECTION_TO_INDEX[p.orientation] for p in state.players],
        "hands": [their_thing(p.held_object) for p in state.players],
        "pots": {c: (len(t.ingredients), t._cooking_tick) for c, t in things.items() if c in pots},
        "counters": {c: their_thing(t) for c, t in things.items() if c not in pots},
    }


def our_state(env: Overcooked, world: int) -> dict[str, Any]:
    layout = env.layout
    held = {cell: int(env.content[world, slot]) for cell, slot in layout.slots.items() if env.content[world, slot]}
    return {
        "cells": [layout.floor[place] for place in env.place[world]],
        "facing": env.facing[world].tolist(),
        "hands": env.hand[world].tolist(),
        "pots": {cell: pot(content) for cell, content in held.items() if cell in layout.pots},
        "counters": {cell: content for cell, content in held.items() if cell not in layout.pots},
    }


@pytest.mark.parametrize("old_dynamics", [True, False], ids=["old", "new"])
@pytest.mark.parametrize("layout", MAPS)
def test_the_same_actions_give_the_same_states_and_rewards(layout: str, old_dynamics: bool) -> None:
    """Two random kitchens and eight with cooks who serve, two episodes each: 8,000 joint steps."""
    env = Overcooked(layout, WORLDS, old_dynamics=old_dynamics, max_steps=EPISODE)
    env.reset()
    theirs, rng = gridworld(layout, old_dynamics), np.random.default_rng(list(layout.encode()))
    pots = set(env.layout.pots)
    assert [(y, x) for x, y in theirs.get_pot_locations()] == env.layout.pots
    cooks = ScriptedCooks(env, rng, noise=0.1, odd=0.05)
    seen = dict.fromkeys(("soups", "shaped", "wasted", "met", "laid"), 0)
    for _ in range(2):
        states = [theirs.get_standard_start_state() for _ in range(WORLDS)]
        for world, state in enumerate(states):
            assert our_state(env, world) == their_state(state, pots)
        for t in range(EPISODE):
            actions = cooks.act()
            actions[:2] = rng.integers(0, 6, (2, 2))
            env.autoreset = False  # so that the last state of an episode can be compared
            step = env.step(actions)
            for world, state in enumerate(states):
                joint = [Action.INDEX_TO_ACTION[a] for a in actions[world]]
                now, told = theirs.get_state_transition(state, joint)
                assert our_state(env, world) == their_state(now, pots), f"world {world}, step {t}, {joint}"
                assert step.reward[world] == sum(told["sparse_reward_by_agent"])
                assert step.info["shaped_by_agent"][world].tolist() == told["shaped_reward_by_agent"]
                served = sum(told["event_infos"]["soup_delivery"])
                seen["soups"] += int(step.reward[world]) // 20
                seen["wasted"] += served - int(step.reward[world]) // 20
                seen["shaped"] += sum(told["shaped_reward_by_agent"])
                seen["laid"] += len([c for c in their_state(now, pots)["counters"].values() if c])
                wants = [a in (0, 1, 2, 3) for a in actions[world]]
                seen["met"] += all(wants) and now.player_positions == state.player_positions
                states[world] = now
        assert step.truncated.all()
        assert not step.terminated.any()
        env.reset()
    assert seen["soups"] >= 8, "too few soups were served to have compared deliveries"
    assert seen["shaped"] > 0
    assert seen["laid"] > 0, "nothing was laid on a counter"
    assert seen["met"] > 0, "nobody was in another's way"
    assert (seen["wasted"] > 0) is not old_dynamics, "only the new rules allow soups that nobody ordered"
