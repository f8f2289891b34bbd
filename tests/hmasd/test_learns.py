"""What must be learnt in small environments with one trait each; not only that they run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.hmasd.commands.train import run
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.options import TrainOptions
from echelon.hmasd.presets import train_defaults
from echelon.runtime.metrics import read_metrics
from tests.envs.learnable import DONE, SEEN

QUICK = HMASDConfig(
    total_steps=12_800,
    envs=16,
    samples_per_update=640,
    k=5,
    team_skills=2,
    agent_skills=2,
    hidden=16,
    encoder_layers=1,
    decoder_layers=1,
    heads=1,
    recurrent=False,
    lr=3e-3,
    epochs=8,
    discriminator_epochs=8,
    max_grad_norm=10.0,
)
SHORT: dict[str, Any] = {"gamma": 0.0, "total_steps": 7680}
"""for worlds in which a step decides nothing but its own reward"""


def learnt(folder: Path, env: str, tag: str = "Training/Episode_Reward", **changes: Any) -> np.ndarray[Any, Any]:
    """One curve of a short training."""
    config = HMASDConfig(**{**QUICK.to_json(), "env": f"tests.envs.learnable:{env}", "env_options": (), **changes})
    run(TrainOptions(output_dir=folder, config=config, eval_every=0, checkpoint_every=0, env_workers=0, quiet=True))
    return read_metrics(folder)[tag].values


@pytest.mark.parametrize("algorithm", ["mappo", "hmasd"])
@pytest.mark.parametrize("options", [(), ("ghost=true",)])
def test_an_agent_gives_its_life_where_the_team_gains_by_it(
    algorithm: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    reward = learnt(tmp_path, "sacrifice", algorithm=algorithm, env_options=options)
    assert reward[-3:].mean() > 9.5  # at best 10; 1 without the sacrifice


def test_with_the_other_reading_it_lives_for_itself(tmp_path: Path) -> None:
    reward = learnt(tmp_path, "sacrifice", algorithm="mappo", death_ends_return=True, lambda_l=0.0)
    assert reward[-3:].mean() < reward[0]


@pytest.mark.slow
def test_the_default_intrinsic_reward_does_not_pay_agents_to_die(tmp_path: Path) -> None:
    length = learnt(tmp_path / "default", "temptation", "Training/Episode_Length")
    assert length[-3:].mean() > 0.9 * length[:3].mean()
    weights = {"lambda_team": 0.1, "lambda_agent": 0.5, "relative_intrinsic": False}
    length = learnt(tmp_path / "with", "temptation", "Training/Episode_Length", **weights)
    assert length[-3:].mean() > length[0]
    without = learnt(tmp_path / "without", "temptation", "Training/Episode_Length", **weights, skill_baseline=False)
    assert without[-3:].mean() < 2  # what the paper's reward teaches here: standing still at once


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "sets"), [("mappo", "true"), ("hmasd", "true"), ("mappo", "false")])
def test_landmarks_are_covered_where_they_are_a_set(algorithm: str, sets: str, tmp_path: Path) -> None:
    """Random actions earn −26.5, a planner −7.5; without sets the same steps give −17 or less."""
    options = train_defaults(["--env", "simple_spread", "--algorithm", algorithm])
    config = replace(options.config, total_steps=128_000, final_lr=None, env_options=(f"sets={sets}",))
    run(TrainOptions(output_dir=tmp_path, config=config, eval_every=0, checkpoint_every=0, quiet=True))
    reward = read_metrics(tmp_path)["Training/Episode_Reward"].values[-5:].mean()
    assert bool(reward > -15) is (sets == "true")


@pytest.mark.parametrize("algorithm", ["mappo", "hmasd"])
@pytest.mark.parametrize("death_ends_return", [False, True])
def test_an_agent_cut_alone_learns_what_its_last_state_was_worth(
    algorithm: str, death_ends_return: bool, tmp_path: Path
) -> None:
    reward = learnt(tmp_path, "lone_cut", algorithm=algorithm, death_ends_return=death_ends_return)
    assert reward[-3:].mean() > 6.5  # at best 7; by chance 3


@pytest.mark.parametrize("seen", SEEN)
def test_what_is_seen_in_any_space_is_answered(seen: str, tmp_path: Path) -> None:
    reward = learnt(tmp_path, "echo", "Training/Step_Reward", algorithm="mappo", env_options=(f"seen={seen}",), **SHORT)
    assert reward[0] < 0.5
    assert reward[-3:].mean() > 0.95


@pytest.mark.parametrize("done", [done for done in DONE if done != "discrete"])
def test_answers_are_learnt_in_any_space(done: str, tmp_path: Path) -> None:
    options = (f"done={done}", "own_state=true")
    reward = learnt(tmp_path, "echo", "Training/Step_Reward", algorithm="mappo", env_options=options, **SHORT)
    assert reward[-3:].mean() > (0.7 if done == "box" else 0.9)


def test_broken_episodes_teach_nothing(tmp_path: Path) -> None:
    reward = learnt(tmp_path, "fragile", algorithm="mappo")
    assert reward.max() <= 7  # 100 is paid in every episode that breaks
    assert reward[-3:].mean() > 6


@pytest.mark.parametrize("algorithm", ["mappo", "hmasd"])
def test_agents_that_see_the_same_learn_to_differ_by_their_number(algorithm: str, tmp_path: Path) -> None:
    changes = {"algorithm": algorithm, "gamma": 0.0}
    reward = learnt(tmp_path / "auto", "differ", "Training/Step_Reward", **changes)
    assert reward[-3:].mean() > 0.95
    if algorithm == "mappo":  # without skills nothing else can tell them apart
        without = learnt(tmp_path / "off", "differ", "Training/Step_Reward", **changes, agent_ids=False)
        assert without[-3:].mean() < 0.6


@pytest.mark.parametrize("algorithm", ["ippo", "mat"])
def test_the_other_algorithms_answer_what_each_agent_sees(algorithm: str, tmp_path: Path) -> None:
    reward = learnt(tmp_path, "echo", "Training/Step_Reward", algorithm=algorithm, **SHORT)
    assert reward[0] < 0.5
    assert reward[-3:].mean() > 0.9


@pytest.mark.parametrize("algorithm", ["ippo", "mat"])
def test_the_other_algorithms_learn_bounded_continuous_answers(algorithm: str, tmp_path: Path) -> None:
    options = ("done=box",)
    reward = learnt(tmp_path, "echo", "Training/Step_Reward", algorithm=algorithm, env_options=options, **SHORT)
    assert reward[-3:].mean() > 0.7


def test_a_transformer_distinguishes_equal_agents_by_what_the_earlier_one_chose(tmp_path: Path) -> None:
    """Nobody has a number and all see the same; MAPPO earns half of what there is, as the test above shows."""
    changes = {"algorithm": "mat", "gamma": 0.0, "agent_ids": False, "total_steps": 8960}
    reward = learnt(tmp_path, "differ", "Training/Step_Reward", **changes)
    assert reward[-3:].mean() > 0.9
