"""The kitchen's own rules: what the comparison with overcooked-ai does not see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.envs.scripted_cooks import ScriptedCooks

from echelon.envs.overcooked.env import Overcooked
from echelon.envs.overcooked.layouts import EAST, INTERACT, MAPS, NORTH, SOUTH, STAY, WEST, Layout, layout
from echelon.envs.overcooked.rules import COOK_TIME, DISH, ONION, POT, SOUP, cooking, pot

READY = cooking(3, COOK_TIME)


def kitchen(
    cells: list[tuple[int, int]],
    facing: tuple[int, int] = (NORTH, NORTH),
    hands: tuple[int, int] = (0, 0),
    pot_content: int = 0,
    **options: Any,
) -> Overcooked:
    """The cramped room, the pot at (0, 2), with cooks at these cells."""
    env = Overcooked("cramped_room", 1, [0], **options)
    env.reset()
    env.place[0] = [env.layout.floor.index(cell) for cell in cells]
    env.facing[0], env.hand[0], env.content[0, 0] = facing, hands, pot_content
    return env


def test_a_soup_from_onions_to_the_window() -> None:
    """A pot that begins by itself: three onions (3 each), 20 steps, a dish (3), the soup (5), the window: 20 earned."""
    env = kitchen([(1, 2), (2, 1)], (NORTH, SOUTH), old_dynamics=True)  # before the pot, and before the dishes
    for onions in (1, 2, 3):
        env.hand[0, 0] = ONION
        step = env.step(np.array([[INTERACT, STAY]]))
        assert step.info["shaped_by_agent"][0].tolist() == [3, 0]
        assert pot(int(env.content[0, 0])) == ((onions, -1) if onions < 3 else (3, 1))
    step = env.step(np.array([[STAY, INTERACT]]))
    assert step.info["shaped_by_agent"][0].tolist() == [0, 3]
    assert env.hand[0].tolist() == [0, DISH]
    for _ in range(COOK_TIME - 3):
        env.step(np.array([[STAY, STAY]]))
    assert pot(int(env.content[0, 0])) == (3, COOK_TIME - 1)
    env.hand[0] = DISH, 0
    env.step(np.array([[INTERACT, STAY]]))  # one step too early: interactions come before cooking
    assert env.hand[0, 0] == DISH
    step = env.step(np.array([[INTERACT, STAY]]))
    assert env.hand[0, 0] == SOUP + 3
    assert env.content[0, 0] == 0
    assert step.info["shaped_by_agent"][0].tolist() == [5, 0]
    env.place[0, 0], env.facing[0, 0] = env.layout.floor.index((2, 3)), SOUTH
    step = env.step(np.array([[INTERACT, STAY]]))
    assert step.reward[0] == 20
    assert (step.info["soups"][0], step.info["shaped_return"][0]) == (1, 17)
    assert step.info["episode_return"][0] == 20
    assert env.step(np.array([[INTERACT, STAY]])).reward[0] == 0


def test_the_first_cook_acts_first() -> None:
    env = kitchen([(1, 2), (1, 1)], facing=(NORTH, EAST), hands=(ONION, ONION), pot_content=2)
    env.place[0] = env.layout.floor.index((1, 2))  # both before the pot: cannot happen, but tells the order
    env.facing[0] = NORTH
    env.step(np.array([[INTERACT, INTERACT]]))
    assert env.hand[0].tolist() == [0, ONION]


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ((EAST, WEST), [(1, 1), (1, 2)]),  # pass through each other
        ((EAST, STAY), [(1, 1), (1, 2)]),  # into the one who stays
        ((EAST, EAST), [(1, 2), (1, 3)]),  # follow
        ((SOUTH, WEST), [(2, 1), (1, 1)]),  # make room
        ((NORTH, SOUTH), [(1, 1), (2, 2)]),  # a counter blocks the first only
    ],
)
def test_who_is_in_the_way(actions: tuple[int, int], expected: list[tuple[int, int]]) -> None:
    env = kitchen([(1, 1), (1, 2)])
    env.step(np.array([actions]))
    assert [env.layout.floor[p] for p in env.place[0]] == expected
    turned = [a if a < 4 else NORTH for a in actions]
    assert env.facing[0].tolist() == turned, "a cook turns also where it cannot go"


@pytest.mark.parametrize(("lying", "held", "pot_content", "shaped"), [
    (False, 0, 1, 3),
    (False, 0, READY, 3),
    (False, 0, 0, 0),  # no pot is in use
    (False, DISH, READY, 0),  # the other has a dish for the one pot
    (True, 0, READY, 0),  # a dish lies on a counter
])  # fmt: skip
def test_dishes_are_worth_something_only_when_needed(lying: bool, held: int, pot_content: int, shaped: int) -> None:
    env = kitchen([(2, 1), (1, 3)], (SOUTH, NORTH), (0, held), pot_content)
    env.content[0, -2] = DISH if lying else 0
    step = env.step(np.array([[INTERACT, STAY]]))
    assert env.hand[0, 0] == DISH
    assert step.info["shaped_by_agent"][0, 0] == shaped


def test_new_rules_let_a_cook_begin_a_small_soup_that_earns_nothing() -> None:
    old, new = (kitchen([(1, 2), (2, 1)], pot_content=2, old_dynamics=old) for old in (True, False))
    for env in (old, new):
        env.step(np.array([[INTERACT, STAY]]))
    assert pot(int(old.content[0, 0])) == (2, -1)
    assert pot(int(new.content[0, 0])) == (2, 1)
    new.place[0, 0], new.facing[0, 0], new.hand[0, 0] = new.layout.floor.index((2, 3)), SOUTH, SOUP + 2
    step = new.step(np.array([[INTERACT, STAY]]))
    assert new.hand[0, 0] == 0
    assert (step.reward[0], step.info["soups"][0]) == (0, 0)


def test_shaping_is_learnt_from_and_not_counted_and_falls_over_a_worlds_life() -> None:
    """An onion into the pot in steps 1, 3 and 5 of worlds whose weight falls by a tenth per step, from 2."""
    env = kitchen([(1, 2), (2, 1)], shaping=2.0, shaping_steps=10, max_steps=4)
    rewards = []
    for t in range(5):
        env.hand[0, 0], env.content[0, 0] = ONION, 0
        env.place[0], env.facing[0] = [env.layout.floor.index(c) for c in ((1, 2), (2, 1))], NORTH
        step = env.step(np.array([[INTERACT if t % 2 == 0 else STAY, STAY]]))
        rewards.append(float(step.reward[0]))
        assert step.info["episode_return"][0] == 0
    np.testing.assert_allclose(rewards, [6.0, 0, 6.0 * 0.8, 0, 6.0 * 0.6], rtol=1e-6)  # the episode ended after step 4
    assert step.info["shaped_return"][0] == 3
    env.age[0] = 11
    env.hand[0, 0], env.content[0, 0] = ONION, 0
    assert env.step(np.array([[INTERACT, STAY]])).reward[0] == 0
    env.reset(5)
    assert env.age[0] == 0


@pytest.mark.parametrize(
    ("onions", "any_soup", "shaped"), [(1, True, 5), (3, True, 5), (1, False, 0), (2, False, 0), (3, False, 5)]
)
def test_a_soup_that_nobody_ordered_may_be_worth_nothing(onions: int, any_soup: bool, shaped: int) -> None:
    env = kitchen([(1, 2), (2, 1)], hands=(DISH, 0), pot_content=cooking(onions, COOK_TIME), shape_small_soups=any_soup)
    step = env.step(np.array([[INTERACT, STAY]]))
    assert env.hand[0, 0] == SOUP + onions
    assert step.info["shaped_by_agent"][0].tolist() == [shaped, 0]


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="shaping=-1 must not be negative"):
        Overcooked("cramped_room", 1, shaping=-1)
    with pytest.raises(ValueError, match="shaping_steps=0 must be at least 1"):
        Overcooked("cramped_room", 1, shaping_steps=0)
    with pytest.raises(ValueError, match="no layout 'kitchen'; use cramped_room"):
        layout("kitchen")
    with pytest.raises(ValueError, match="only the signs"):
        Layout("odd", ("XX", "X?"))
    with pytest.raises(ValueError, match="one length"):
        Layout("odd", ("XX", "X"))


@pytest.mark.parametrize("name", MAPS)
def test_equal_views_mean_equal_states(name: str) -> None:
    """The observation tells states apart: what the future depends on is in it, for either cook."""
    env = Overcooked(name, 8)
    env.reset()
    cooks = ScriptedCooks(env, np.random.default_rng(1), noise=0.2, odd=0.1)
    views: dict[bytes, bytes] = {}
    for _ in range(300):
        step = env.step(cooks.act())
        for b in range(env.num_envs):
            for cook, view in enumerate(step.final_observation[b]):
                own = [a[b, [cook, 1 - cook]].tobytes() for a in (env.place, env.facing, env.hand)]
                truth = b"".join([*own, env.content[b].tobytes()])
                assert views.setdefault(view.tobytes(), truth) == truth
    assert len(views) > 1000


def test_a_view_by_hand() -> None:
    """The second cook sees itself first; 5 rows and columns are the map's longer side."""
    env = kitchen([(1, 1), (2, 3)], hands=(ONION, DISH), pot_content=2)
    step = env.step(np.array([[WEST, SOUTH]]))
    width = env.views.cook_width
    first, second = step.observation[0]
    np.testing.assert_array_equal(first[:width], second[width : 2 * width])
    np.testing.assert_array_equal(first[width : 2 * width], second[:width])
    np.testing.assert_array_equal(step.state[0], first)
    place, facing, kind = first[:6], first[6:10], first[10:16]
    assert [int(part.argmax()) for part in (place, facing, kind)] == [0, WEST, 2]  # onions before the first cook
    np.testing.assert_allclose(first[16:22], np.array([0, -1, 2, 0, 2, 2]) / 5, atol=1e-6)  # onions, dishes, window
    np.testing.assert_allclose(first[22:24], np.array([-1, 1]) / 5, atol=1e-6)  # the pot
    np.testing.assert_array_equal(first[24:28], [1, 0, 0, 0])  # an onion in hand
    np.testing.assert_allclose(first[2 * width : 2 * width + 2], np.array([1, 2]) / 5, atol=1e-6)
    np.testing.assert_allclose(second[2 * width : 2 * width + 2], np.array([-1, -2]) / 5, atol=1e-6)
    np.testing.assert_array_equal(first[2 * width + 2 : 2 * width + 8], [0, 1, 0, 0, 0, 0])  # two onions in the pot
    assert not first[2 * width + 8 :].any()
    env.content[0, 0] = cooking(3, 4)
    env.content[0, 1] = SOUP + 3
    seen = env.step(np.array([[STAY, STAY]])).observation[0, 0, 2 * width + 2 :]
    np.testing.assert_allclose(seen[:10], [0, 0, 0, 1, 15 / 20, 0, 0, 0, 1, 1], atol=1e-6)


def test_random_starts_are_distinct_and_everywhere() -> None:
    env = Overcooked("cramped_room", 6000, random_starts=True)
    env.reset(3)
    first, second = env.place.T
    assert (first != second).all()
    counts = np.bincount(first * 6 + second, minlength=36)  # 200 expected for each of 30 pairs, deviation 14
    assert (counts > 0).sum() == 30
    assert counts[counts > 0].min() > 200 - 70
    assert counts.max() < 200 + 70
    assert (Overcooked("cramped_room", 2).layout.starts == [3, 2]).all()


def test_frames_show_cooks_things_and_pots() -> None:
    env = kitchen([(1, 2), (2, 1)], hands=(ONION, 0))
    before = env.render()
    env.step(np.array([[INTERACT, STAY]]))
    potted = env.render()
    assert before.shape == (4 * 90 + 70, 5 * 90, 3)
    assert before.dtype == np.uint8
    top = slice(70, 160), slice(180, 270)  # the pot's cell
    assert (before[top] != potted[top]).any()
    env.content[0, env.layout.slots[(0, 1)]] = DISH
    laid = env.render()
    assert (laid[70:160, 90:180] != potted[70:160, 90:180]).any()
    assert (laid[160:] == potted[160:]).all()
    marked = env.render(colours=["#ff0000", "#00ff00"])
    assert ((marked == [0, 255, 0]).all(axis=2)).sum() > 200
    assert env.layout.kind((0, 2)) == POT
