"""What is drawn of skills: skills asked for are followed, and shares are shares."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.envs.make import make_vector_env
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.skill_picture import CELLS, draw_skills, watch_skills
from tests.hmasd.small import SKY, SMALL, make, small


def test_given_skills_are_followed_as_if_the_coordinator_had_chosen_them() -> None:
    agent, _ = make()
    env = make_vector_env("alice_and_bob", 3, 7, max_steps=17)
    seen = env.reset()
    agent.reset(3, seed=1, greedy=True)
    own = agent.act_on(seen)
    chosen = agent.skills.copy()
    agent.reset(3, seed=1, greedy=True)
    np.testing.assert_array_equal(agent.act_on(seen, chosen), own)
    asked = np.tile([0, 2, 1], (3, 1))
    agent.act_on(seen, asked)
    np.testing.assert_array_equal(agent.skills, asked)


@pytest.mark.parametrize("config", [SMALL, SKY], ids=["discrete", "continuous"])
def test_shares_of_every_skill_add_up(config: HMASDConfig) -> None:
    agent, _ = make(config)
    use = watch_skills(agent, seed=0)
    assert use.visits is not None
    assert use.visits.shape == (config.agent_skills, CELLS, CELLS)
    np.testing.assert_allclose(use.visits.sum((1, 2)), 1.0)
    np.testing.assert_allclose(use.teams.sum(), 1.0)
    np.testing.assert_allclose(use.chosen[use.teams > 0].sum(-1), 1.0)
    if agent.sizes.continuous:
        assert (np.abs(use.actions) <= 1.0).all()
    else:
        np.testing.assert_allclose(use.actions.sum(1), 1.0)
    assert len(draw_skills(agent, use).axes) == 2 * config.agent_skills + 1


def test_without_skills_there_is_nothing_to_draw() -> None:
    agent, _ = make(small(algorithm="mappo"))
    with pytest.raises(ValueError, match="has no skills"):
        watch_skills(agent, seed=0)
