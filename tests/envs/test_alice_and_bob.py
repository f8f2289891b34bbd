"""The rules of the room, one by one."""

import numpy as np
import pytest

from echelon.envs.alice_and_bob import AliceAndBob

STAY, UP, DOWN, LEFT, RIGHT = range(5)


def room(alice: tuple[int, int], bob: tuple[int, int], **options: object) -> AliceAndBob:
    env = AliceAndBob(1, [0], **options)  # type: ignore[arg-type]
    env.reset()
    env.pair[0] = (alice[0] * 8 + alice[1]) * 64 + bob[0] * 8 + bob[1]
    return env


def cells(env: AliceAndBob) -> list[tuple[int, int]]:
    alice, bob = divmod(int(env.pair[0]), 64)
    return [divmod(alice, 8), divmod(bob, 8)]


@pytest.mark.parametrize(
    ("action", "expected"), [(STAY, (3, 4)), (UP, (2, 4)), (DOWN, (4, 4)), (LEFT, (3, 3)), (RIGHT, (3, 5))]
)
def test_moves(action: int, expected: tuple[int, int]) -> None:
    env = room((3, 4), (6, 6))
    env.step(np.array([[action, STAY]]))
    assert cells(env) == [expected, (6, 6)]
    env = room((6, 6), (3, 4))
    env.step(np.array([[STAY, action]]))
    assert cells(env) == [(6, 6), expected]


@pytest.mark.parametrize(("corner", "blocked"), [((0, 0), (UP, LEFT)), ((7, 7), (DOWN, RIGHT))])
def test_walls_block(corner: tuple[int, int], blocked: tuple[int, int]) -> None:
    for action in blocked:
        env = room(corner, (3, 3))
        env.step(np.array([[action, STAY]]))
        assert cells(env)[0] == corner


def test_agents_may_share_a_cell() -> None:
    env = room((3, 3), (3, 4))
    env.step(np.array([[RIGHT, STAY]]))
    assert cells(env) == [(3, 4), (3, 4)]


def test_observations_by_hand() -> None:
    env = room((0, 7), (7, 1))
    step = env.step(np.array([[STAY, LEFT]]))  # Bob reaches the red diamond, Alice holds the red button
    np.testing.assert_allclose(step.observation[0, 0], [-1, 1, 1, -1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(step.observation[0, 1], [1, -1, -1, 1, 1, 0], atol=1e-6)
    np.testing.assert_array_equal(step.state[0], step.observation[0, 0])


@pytest.mark.parametrize("swap", [False, True])
def test_reward_once_when_the_second_diamond_is_collected(swap: bool) -> None:
    """Red first: button (0,7), diamond (7,0); then blue: button (0,0), diamond (7,7)."""
    presser, taker = (1, 0) if swap else (0, 1)
    start = [(0, 6), (7, 0)] if not swap else [(7, 0), (0, 6)]
    env = room(*start)
    joint = np.zeros((1, 2), dtype=int)
    joint[0, presser] = RIGHT
    first = env.step(joint)
    assert first.reward[0] == 0.0
    assert not first.info["success"][0]
    np.testing.assert_array_equal(first.observation[0, 0, 4:], [1, 0])
    rewards = []
    for _ in range(9):  # both walk along their walls for seven steps, then stay
        joint[0, presser], joint[0, taker] = LEFT, RIGHT
        step = env.step(joint)
        rewards.append(float(step.reward[0]))
    assert rewards == [0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert step.info["success"][0]
    assert step.info["episode_return"][0] == 1.0


def test_the_wrong_colour_collects_nothing() -> None:
    env = room((0, 0), (7, 0))  # blue button, red diamond
    step = env.step(np.zeros((1, 2), dtype=int))
    np.testing.assert_array_equal(step.observation[0, 0, 4:], [0, 0])


def solve(env: AliceAndBob) -> tuple[list[bool], list[bool], list[float]]:
    env.pair[0], env.held[0] = 0 * 64 + 62, 1  # red is held; Bob is one step left of the blue diamond
    terminated, truncated, rewards = [], [], []
    for _ in range(3):
        step = env.step(np.array([[STAY, RIGHT]]))
        terminated.append(bool(step.terminated[0]))
        truncated.append(bool(step.truncated[0]))
        rewards.append(float(step.reward[0]))
    return terminated, truncated, rewards


def test_the_horizon_is_fixed() -> None:
    assert solve(room((0, 0), (0, 1), max_steps=3)) == ([False] * 3, [False, False, True], [1.0, 0.0, 0.0])


def test_terminate_on_success() -> None:
    terminated, truncated, rewards = solve(room((0, 0), (0, 1), max_steps=100, terminate_on_success=True))
    assert terminated == [True, False, False]
    assert truncated == [False] * 3
    assert rewards == [1.0, 0.0, 0.0]


def test_success_at_the_last_step_is_termination_not_truncation() -> None:
    env = room((0, 0), (0, 1), max_steps=1, terminate_on_success=True)
    env.pair[0], env.held[0] = 0 * 64 + 62, 1
    step = env.step(np.array([[STAY, RIGHT]]))
    assert step.terminated[0]
    assert not step.truncated[0]
    assert not step.final_alive.any()


def test_starts_are_distinct_and_cover_the_room() -> None:
    env = AliceAndBob(20_000)
    env.reset(3)
    alice, bob = np.divmod(env.pair, 64)
    assert (alice != bob).all()
    for cell in (alice, bob):  # 312 expected in each cell, standard deviation 17.5
        counts = np.bincount(cell, minlength=64)
        assert counts.min() > 312 - 90
        assert counts.max() < 312 + 90


def test_frames_show_the_agents_and_what_is_collected() -> None:
    env = room((3, 3), (5, 5))
    before = env.render()
    env.step(np.array([[UP, STAY]]))
    moved = env.render()
    env.held[0] = 1
    held = env.render()
    assert before.shape == (620, 560, 3)
    assert before.dtype == np.uint8
    assert (before != moved).any()
    assert (moved[:, :280] != held[:, :280]).any()
    marked = env.render(colours=["#ff0000", "#00ff00"])
    assert ((marked == [0, 255, 0]).all(axis=2)).sum() > 200
