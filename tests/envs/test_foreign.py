"""Third-party environments of all shapes behind fixed arrays, in this process."""

import logging
from typing import Any

import numpy as np
import pytest

from echelon.envs.foreign.block import EnvCrashedError
from echelon.envs.foreign.vector import SerialVectorEnv
from echelon.envs.foreign.world import EnvSetupError, ForeignWorld
from echelon.envs.make import make_vector_env
from echelon.envs.random_streams import episode_seed
from echelon.envs.vector import BoxActions, DiscreteActions, VectorEnv


def test_agents_that_die_and_appear() -> None:
    env = SerialVectorEnv("odd_envs:mortal", 1)
    seen = env.reset()
    assert seen.alive.tolist() == [[True, True, False]]
    assert seen.observation[0].tolist() == [[1, 1], [1, 1], [0, 0]]
    history = [env.step(np.array([[0, 1, 1]])) for _ in range(5)]
    assert [s.alive[0].tolist() for s in history[:4]] == [
        [True, True, False],
        [True, False, False],
        [True, False, True],
        [True, False, True],
    ]
    assert [s.terminated[0] for s in history] == [False, False, False, False, True]
    assert not any(s.truncated[0] for s in history)
    assert history[4].final_alive.tolist() == [[False, False, False]]
    assert history[4].alive.tolist() == [[True, True, False]]  # the next episode has begun
    assert history[1].agent_reward.tolist() == [[2, 2, 0]]
    assert history[2].agent_reward.tolist() == [[2, 0, 0]]
    assert [s.reward[0] for s in history] == [2] * 5  # all share it, however many they are
    assert history[3].final_observation[0, 1].tolist() == [0, 0]  # the dead see nothing
    given = env._block.worlds[0].env.given
    assert [sorted(g) for g in given] == [[0, 1], [0, 1], [0], [0, 2], [0, 2]]
    assert given[0] == {0: 10, 1: 11}  # Discrete(2, start=10)


def test_team_reward_may_be_the_sum() -> None:
    env = SerialVectorEnv("odd_envs:mortal", 1, team_reward="sum")
    env.reset()
    assert env.step(np.zeros((1, 3), dtype=int)).reward[0] == 4.0


def test_masks_inside_observations() -> None:
    world = ForeignWorld("odd_envs:masked", {})
    assert world.spec.obs_dims == (4,)
    for seed in range(20):
        view = world.reset(seed)
        assert view.action_mask is not None
        assert (view.observation >= 5).all()
        assert view.action_mask.any()
    assert isinstance(world.spec.actions, DiscreteActions)


def test_pictures_are_flattened_and_scaled_or_refused() -> None:
    view = ForeignWorld("odd_envs:picture", {}).reset(0)
    assert view.observation.shape == (1, 48)
    assert 0.3 < view.observation.max() <= 1.0
    with pytest.raises(EnvSetupError, match=r"a sees \(100, 100, 3\) = 30000 numbers; at most 16384"):
        ForeignWorld("odd_envs:picture", {"side": 100})


def test_nested_observations_are_flattened() -> None:
    view = ForeignWorld("odd_envs:nested", {}).reset(0)
    assert view.observation.shape == (1, 5)  # 2 numbers and a one-hot of 3


def test_continuous_actions_of_differing_shapes() -> None:
    env = SerialVectorEnv("odd_envs:two_boxes", 1)
    env.reset()
    assert env.spec.actions == BoxActions(((-2.0,) * 4, (0.0,)), ((4.0,) * 4, (1.0,)))
    env.step(np.array([[[-9, 0, 1, 9], [0.5, 7, 7, 7]]]))
    given = env._block.worlds[0].env.given
    assert given["a"].tolist() == [[-2, 0], [1, 4]]
    assert given["a"].dtype == np.float64
    assert given["b"].tolist() == [0.5]


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("odd_envs:mixed", "discrete for all agents or Box for all; they are a: Discrete"),
        ("odd_envs:many_choices", "= 6561 combinations; at most 4096 are taken"),
        ("odd_envs:spoken", "a acts by Text"),
        ("odd_envs:in_turns", "AEC environment whose agents act in turns and cannot act at once; use a ParallelEnv"),
        ("odd_envs:unbounded", "must be finite and low < high"),
        ("odd_envs:endless", "no fixed width"),
        ("odd_envs:not_an_env", "failed: AttributeError"),
        ("odd_envs:nothing", "odd_envs has no nothing"),
        ("no_such_module_here:env", "cannot import no_such_module_here"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(factory: str, message: str) -> None:
    with pytest.raises(EnvSetupError, match=message):
        ForeignWorld(factory, {})


def test_errors_about_options_name_the_factory() -> None:
    with pytest.raises(EnvSetupError, match=r"odd_envs:counter\(\*\*\{'size': 3\}\) failed: TypeError"):
        ForeignWorld("odd_envs:counter", {"size": 3})


def test_episodes_follow_their_seeds_and_keep_the_final_observation() -> None:
    env = SerialVectorEnv("odd_envs:counter", 2, [40, 50], kwargs={"length": 3})
    first = env.reset()
    assert first.observation[:, 0, 0].tolist() == [40, 50]
    steps = [env.step(np.array([[1, 2], [0, 0]])) for _ in range(4)]
    assert [s.truncated.tolist() for s in steps] == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]
    end = steps[2]
    assert end.final_observation[0, 0].tolist() == [40, 3, 9]
    assert end.final_alive.all()  # cut, not dead: there is a future to bootstrap from
    assert end.observation[0, 0].tolist() == pytest.approx([episode_seed(40, 1), 0, 0])
    assert end.info["episode_return"].tolist() == [4.5, 0.0]
    assert end.info["episode_length"].tolist() == [3, 3]
    assert steps[3].info["episode_length"].tolist() == [1, 1]
    assert env.reset([40, 50]).observation[:, 0, 0].tolist() == [40, 50]


def test_a_crash_drops_the_episode_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    kwargs = {"length": 6, "trouble": "raise", "bad_seeds": [50], "bad_step": 3}
    env = SerialVectorEnv("odd_envs:counter", 2, [40, 50], kwargs=kwargs)
    env.reset()
    with caplog.at_level(logging.WARNING):
        steps = [env.step(np.ones((2, 2), dtype=int)) for _ in range(4)]
    crashed = steps[2]
    assert crashed.dropped.tolist() == [False, True]
    assert crashed.truncated.tolist() == [False, True]
    assert crashed.reward.tolist() == [1.0, 0.0]
    assert crashed.final_observation[1, 0].tolist() == [50, 2, 4]  # the last good one
    assert crashed.observation[1, 0].tolist() == pytest.approx([episode_seed(50, 1), 0, 0])
    assert not steps[3].dropped.any()
    assert steps[3].info["episode_length"].tolist() == [4, 1]
    (record,) = caplog.records
    message = record.getMessage()
    assert "world 1 crashed in the episode with seed 50 (ZeroDivisionError: rotor fell off)" in message
    assert "crash 1 of 3 in a row" in message


def test_three_crashes_in_a_row_end_the_run() -> None:
    env = SerialVectorEnv("odd_envs:counter", 1, [50], kwargs={"trouble": "raise"})
    env.reset()
    actions = np.zeros((1, 2), dtype=int)
    survived = [bool(env.step(actions).dropped[0]) for _ in range(8)]
    assert survived == [False, False, True] * 2 + [False, False]
    with pytest.raises(EnvCrashedError, match=r"world 0 crashed 3 times in a row.*ZeroDivisionError: rotor fell off"):
        env.step(actions)


def test_a_finished_episode_clears_the_count() -> None:
    bad = [episode_seed(50, k) for k in (0, 1, 3, 4)]  # two crashes, an episode, two crashes, an episode
    env = SerialVectorEnv("odd_envs:counter", 1, [50], kwargs={"trouble": "raise", "bad_seeds": bad})
    env.reset()
    dropped = [bool(env.step(np.zeros((1, 2), dtype=int)).dropped[0]) for _ in range(24)]
    assert np.flatnonzero(dropped).tolist() == [2, 5, 14, 17]


def test_crashes_while_resetting_count_too(caplog: pytest.LogCaptureFixture) -> None:
    kwargs = {"trouble": "bad reset", "bad_seeds": [50]}
    env = SerialVectorEnv("odd_envs:counter", 1, [50], kwargs=kwargs)
    seen = env.reset()
    assert seen.observation[0, 0, 0] == pytest.approx(episode_seed(50, 1))
    assert "reset went wrong" in caplog.text
    with pytest.raises(EnvCrashedError, match="3 times in a row"):
        SerialVectorEnv("odd_envs:counter", 1, [50], kwargs={"trouble": "bad reset"}).reset()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("trouble", ["noise", "raise", "exit"])
def test_a_world_that_cannot_be_replayed_begins_a_new_episode(
    trouble: str, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    if trouble == "exit" and not workers:
        return  # it would end this process

    def make(**kwargs: Any) -> VectorEnv:
        return make_vector_env("odd_envs:counter", 3, [5, 6, 7], workers=workers, **kwargs)

    with make(length=9) as env, make(length=9, trouble=trouble, bad_seeds=[6], bad_step=2) as other:
        env.reset()
        for _ in range(4):
            env.step(np.ones((3, 2), dtype=int))
        with caplog.at_level(logging.WARNING):
            seen = other.load_state_dict(env.state_dict())
        assert other.renewed is not None
        renewed = other.renewed.tolist()
        if trouble == "noise":
            assert sum(renewed) >= 1  # a world whose noise happens to be 0 continues
        elif trouble == "raise":
            assert renewed == [False, True, False]
        else:
            assert renewed[1]  # and those that lived in the process that died
        assert seen.observation[:, 0, 1].tolist() == [0 if new else 4 for new in renewed]  # the clock of each world
        assert "new episodes begin there" in caplog.text
        step = other.step(np.ones((3, 2), dtype=int))
        assert step.info["episode_length"].tolist() == [1 if new else 5 for new in renewed]
        assert step.info["episode_return"].tolist() == [1 if new else 5 for new in renewed]
        other.load_state_dict(other.state_dict())  # and can be saved from there


def test_only_the_running_episodes_are_kept() -> None:
    env = SerialVectorEnv("odd_envs:counter", 2, kwargs={"length": 7})
    env.reset()
    for _ in range(100):
        env.step(np.zeros((2, 2), dtype=int))
    assert len(env.state_dict()["history"]) == 100 % 7


def test_an_environment_of_turns_is_wrapped_where_it_can_be() -> None:
    env = SerialVectorEnv("odd_envs:one_after_the_other", 1)
    env.reset()
    steps = [env.step(np.zeros((1, 3), dtype=int)) for _ in range(5)]
    assert [bool(s.truncated[0]) for s in steps] == [False] * 4 + [True]


def test_a_mask_that_comes_late_is_told() -> None:
    env = SerialVectorEnv("odd_envs:late_mask", 1)
    env.reset()
    for _ in range(2):
        env.step(np.zeros((1, 2), dtype=int))
    with pytest.raises(EnvCrashedError, match=r"has an action mask now but had none at reset\(\)"):
        env.step(np.zeros((1, 2), dtype=int))
