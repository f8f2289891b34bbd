"""Skills that nobody chose: what they are, and that they show whether a coordinator is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.cli import main
from echelon.envs.vector import Observed
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.controls import best_fixed, fixed_skills, random_skills, some_choices
from echelon.hmasd.evaluation import evaluate
from tests.hmasd.small import make, small
from tests.hmasd.test_learns import learnt


def test_where_only_the_coordinator_can_know_the_controls_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The state shows the right answer, agents do not see it: 10 with the coordinator, 5 without."""
    learnt(tmp_path, "secret", gamma=0.5, total_steps=15_360)
    result = tmp_path / "result.json"
    asked = ["--skills", "coordinator", "random", "fixed", "--episodes", "64", "--json-path", str(result)]
    assert main(["hmasd", "evaluate", "--model-path", str(tmp_path), *asked]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert ["coordinator" in lines[0], "random" in lines[1], "fixed" in lines[2]] == [True] * 3
    assert "best of all 8" in lines[2]  # 2 team skills, 2 skills of each of 2 agents
    content = json.loads(result.read_text())
    assert content["skills"] == "coordinator"
    assert content["Eval/MeanReward"] > 9
    assert content["controls"]["random"]["Eval/MeanReward"] < 6.5
    assert content["controls"]["fixed"]["Eval/MeanReward"] < 6.5
    assert (content["controls"]["fixed"]["tried"], content["controls"]["fixed"]["possible"]) == (8, 8)
    assert len(content["controls"]["fixed"]["returns"]) == 64


class Watched(HMASDAgent):
    """An agent that notes the skills it is told to follow."""

    noted: list[np.ndarray[Any, Any]]

    def act_on(self, seen: Observed, skills: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        assert skills is not None
        self.noted.append(skills.copy())
        return super().act_on(seen, skills)


def watched(k: int = 5) -> Watched:
    made, _ = make(small(k=k))
    agent = Watched(made.config, made.spec)
    agent.noted = []
    return agent


def test_random_skills_last_k_steps_and_are_drawn_evenly() -> None:
    agent = watched(k=5)  # episodes of 17 steps: choices at steps 0, 5, 10 and 15
    random_skills(agent, 200, 0)
    skills = np.stack(agent.noted)  # (17, 200, 3)
    assert skills.shape == (17, 200, 3)
    changes = (skills[1:] != skills[:-1]).any((1, 2))
    assert np.flatnonzero(changes).tolist() == [4, 9, 14]
    drawn = skills[[0, 5, 10, 15]].reshape(-1, 3)  # 800 choices of 2, 3 and 3 skills
    for column, count in zip(drawn.T, (2, 3, 3), strict=True):
        shares = np.bincount(column, minlength=count) / len(column)
        assert len(shares) == count
        assert np.abs(shares - 1 / count).max() < 0.07


def test_a_fixed_choice_never_changes_and_all_choices_meet_the_same_worlds() -> None:
    agent = watched()
    choices = np.array([[0, 1, 2], [1, 0, 0], [0, 1, 2]])
    found = fixed_skills(agent, choices, 4, seed=3)
    assert all((skills == np.repeat(choices, 4, 0)).all() for skills in agent.noted)
    first, second, again = found.lengths.reshape(3, 4), found.returns.reshape(3, 4), found.returns.reshape(3, 4)[2]
    assert (first == 17).all()
    np.testing.assert_array_equal(second[0], again)  # equal choices, equal episodes
    # the worlds are those of a plain evaluation: without a choice to make, both are one
    alone, _ = make(small(team_skills=1, agent_skills=1))
    plain, fixed = evaluate(alone, 6, 3), fixed_skills(alone, np.zeros((1, 3), np.int64), 6, 3)
    assert plain.lengths.tolist() == fixed.lengths.tolist()


def test_the_best_choice_is_found_in_episodes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, _ = make(small())
    played: list[tuple[int, int, int]] = []

    def pretend(_: Any, choices: Any, episodes: int, seed: int, greedy: bool = False) -> Any:
        """What (1, 2, 0) earns is best."""
        played.append((len(choices), episodes, seed))
        good = (np.asarray(choices) == [1, 2, 0]).all(1).astype(float)
        returns = np.repeat(good, episodes)
        return type(evaluate(agent, 1, 0))(returns, np.ones(len(returns)), {})

    monkeypatch.setattr("echelon.hmasd.controls.fixed_skills", pretend)
    monkeypatch.setattr("echelon.hmasd.controls.WORLDS_AT_ONCE", 30)
    best = best_fixed(agent, 50, 7, most=100, tries=5)
    assert best.skills == (1, 2, 0)
    assert (best.tried, best.possible) == (18, 18)  # 2 x 3 x 3
    assert sum(count for count, _, _ in played[:-1]) == 18
    assert all(count * tries <= 30 for count, tries, _ in played[:-1])
    assert {seed for _, _, seed in played[:-1]} != {7}
    assert played[-1] == (1, 50, 7)
    assert str(best).endswith("(Z=1, z=2 0; best of all 18)")


def test_of_too_many_choices_some_are_drawn_each_once() -> None:
    agent, _ = make(small(team_skills=5, agent_skills=6))
    choices, possible = some_choices(agent, 40, seed=1)
    assert possible == 180
    assert choices.shape == (40, 3)
    assert len(np.unique(choices, axis=0)) == 40
    assert (choices.max(0) < [5, 6, 6]).all()
    other, _ = some_choices(agent, 40, seed=2)
    assert (choices != other).any()


def test_without_skills_there_is_nothing_to_choose(tmp_path: Path) -> None:
    agent, _ = make(small(algorithm="mappo"))
    with pytest.raises(ValueError, match="mappo has no skills to choose; leave --skills out"):
        random_skills(agent, 2, 0)
    with pytest.raises(ValueError, match="mappo has no skills"):
        best_fixed(agent, 2, 0)
