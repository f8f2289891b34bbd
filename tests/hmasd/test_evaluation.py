"""Test episodes in worlds that differ from those of the training."""

from pathlib import Path

import pytest

from echelon.cli import main
from echelon.hmasd.commands.train import run
from echelon.hmasd.evaluation import evaluate, use_env_options
from echelon.hmasd.options import TrainOptions
from tests.hmasd.small import SKY, make, small


def test_longer_episodes_than_in_training() -> None:
    agent, _ = make(SKY)
    assert evaluate(agent, 3, 0).lengths.tolist() == [13] * 3
    use_env_options(agent, ["max_steps=21"])
    assert evaluate(agent, 3, 0).lengths.tolist() == [21] * 3


def test_worlds_in_which_the_agent_would_see_other_things_are_refused() -> None:
    agent, _ = make(SKY)
    with pytest.raises(ValueError, match=r"obs .* \(here .*\)"):
        use_env_options(agent, ["sensing_range=300"])
    assert evaluate(agent, 2, 0).lengths.tolist() == [13] * 2


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = small(SKY, total_steps=SKY.samples_per_update)
    run(TrainOptions(output_dir=tmp_path, config=once, eval_every=0, checkpoint_every=0, quiet=True))
    model = ["--model-path", str(tmp_path), "--episodes", "2"]
    assert main(["hmasd", "evaluate", *model, "--env-options", "max_steps=4", "user_distribution=cluster"]) == 0
    assert main(["hmasd", "evaluate", *model, "--env-options", "num_users=7"]) != 0
    assert "obs" in capsys.readouterr().err
