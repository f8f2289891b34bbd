"""One contract over spaces: what `HMASDAgent.act` makes of an environment's own observations is what training fed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.envs.make import make_vector_env
from echelon.hmasd.agent import HMASDAgent
from echelon.runtime.checkpoint import save_checkpoint
from tests.envs.learnable import DONE, SEEN, echo
from tests.hmasd.small import enliven, small

CASES = [*((seen, "discrete") for seen in SEEN), *(("box", done) for done in DONE if done != "discrete")]


def trained(seen: str, done: str, own_state: bool, folder: Path) -> HMASDAgent:
    """An agent that went through a checkpoint, as a user has it."""
    options = (f"seen={seen}", f"done={done}", f"own_state={str(own_state).lower()}")
    config = small(env="tests.envs.learnable:echo", env_options=options, k=2)
    with make_vector_env(config.env, 1, 0, workers=0, **config.environment_options()) as env:
        agent = HMASDAgent(config, env.spec)
    enliven(agent)
    agent.learner  # noqa: B018 (makes the optimisers, which a checkpoint holds)
    path = save_checkpoint(folder, "c", tensors={"agent": agent.state_dict()}, state={}, config=agent.header())
    loaded = HMASDAgent.load(path)
    assert loaded.spec == agent.spec
    return loaded


@pytest.mark.parametrize("own_state", [False, True])
@pytest.mark.parametrize(("seen", "done"), CASES)
def test_acting_on_the_environments_own_observations_equals_training(
    seen: str, done: str, own_state: bool, tmp_path: Path
) -> None:
    ours, theirs = (trained(seen, done, own_state, tmp_path / name) for name in ("ours", "theirs"))
    assert ours.config == theirs.config
    with make_vector_env(ours.config.env, 1, [7], workers=0, **ours.config.environment_options()) as worlds:
        now = worlds.reset()
        raw = echo(seen, done, own_state)
        observations, _ = raw.reset(seed=7)
        ours.reset(seed=3)
        theirs.reset(seed=3)
        fed = []
        while raw.agents:
            rows = theirs.act_on(now)
            expected = {a: worlds.spec.does[i].to_env(rows[0, i]) for i, a in enumerate(raw.possible_agents)}
            actions = ours.act(observations, state=raw.state() if own_state else None)
            assert list(actions) == list(expected)
            for agent, action in actions.items():
                assert raw.action_space(agent).contains(action), f"{action!r} is not in {raw.action_space(agent)}"
                np.testing.assert_array_equal(action, expected[agent])
            for of_ours, of_theirs in zip(ours._memory.values(), theirs._memory.values(), strict=True):
                np.testing.assert_array_equal(of_ours, of_theirs)  # which depend on every number that was fed
            fed.append(now.observation)
            observations, *_ = raw.step(actions)
            now = worlds.step(rows)
    assert len(np.unique(np.concatenate(fed), axis=0)) > 1


@pytest.mark.parametrize(
    ("seen", "wrong", "message"),
    [
        ("discrete", 9, "a: an observation of 9 where 5 .. 8 was expected"),
        ("discrete", 5.5, "a: an observation 5.5 where 1 whole numbers were expected"),
        ("multi_discrete", np.array([0, 9]), "of 9 where 3 .. 4 was expected"),
        ("box", np.zeros(3), r"of shape \(3,\) where \(2, 2\) was expected"),
        ("dict", {"high": 1}, "an observation without 'low'"),
        ("tuple", (np.zeros(1, np.int8),), "of 1 parts where 2 were expected"),
        ("picture", np.zeros((4, 4)), r"of shape \(4, 4\) where \(4, 4, 3\) was expected"),
    ],
)
def test_what_does_not_fit_is_refused(seen: str, wrong: Any, message: str, tmp_path: Path) -> None:
    agent = trained(seen, "discrete", False, tmp_path)
    with pytest.raises(ValueError, match=message):
        agent.act({"a": wrong})


def test_arrays_are_numbers_as_training_sees_them(tmp_path: Path) -> None:
    agent = trained("picture", "discrete", False, tmp_path)
    with pytest.raises(ValueError, match="an array of uint8: arrays hold numbers as training sees them"):
        agent.act(np.zeros((2, 48), np.uint8))
    assert agent.act(np.zeros((2, 48), np.float32)).shape == (2,)


def test_a_state_that_does_not_follow_is_asked_for(tmp_path: Path) -> None:
    agent = trained("box", "discrete", True, tmp_path)
    assert agent.sizes.state == agent.sizes.obs * 2  # as wide as the observations, and yet something else
    with pytest.raises(ValueError, match="does not follow from its observations"):
        agent.act({"a": np.zeros((2, 2))})


def test_masks_of_combinations() -> None:
    env = make_vector_env("tests.envs.learnable:echo", 1, 0, workers=0, done="multi_discrete")
    form = env.spec.does[0]
    each = form.allowed((np.array([1, 0]), np.array([1, 1])))
    assert each.tolist() == [True, True, False, False]
    assert [form.to_env(np.array(i)).tolist() for i in range(4)] == [[-1, 3], [-1, 4], [0, 3], [0, 4]]
    with pytest.raises(ValueError, match="an action mask of 3 numbers; it must have 4"):
        form.allowed(np.ones(3))
