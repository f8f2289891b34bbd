"""A kitchen through the whole of HMASD: shaping is learnt from and not counted, films, acting without the state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from echelon.cli import main
from echelon.envs.make import make_vector_env
from echelon.envs.overcooked.env import parallel_env
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.commands.train import run
from echelon.hmasd.learning.shares import group_collector, group_env
from echelon.hmasd.options import TrainOptions
from echelon.runtime.metrics import read_metrics
from tests.hmasd.small import small

KITCHEN = small(
    env="overcooked:cramped_room",
    env_options=("max_steps=40", "shaping=1"),
    envs=16,
    samples_per_update=640,
    total_steps=1280,
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kitchen")
    run(
        TrainOptions(
            output_dir=folder, config=KITCHEN, eval_every=1280, eval_episodes=16, eval_executor="serial", quiet=True
        )
    )
    return folder


def test_returns_count_soups_and_the_learner_gets_more(trained: Path) -> None:
    """Cooks who act at random put onions into the pot, and serve nothing within 40 steps."""
    logged = read_metrics(trained)
    for kind in ("Training", "Eval"):
        assert logged[f"{kind}/Info/shaped_return"].values[-1] > 0
        assert logged[f"{kind}/Info/soups"].values[-1] == 0
    assert logged["Eval/MeanReward"].values[-1] == 0
    assert logged["Training/Episode_Reward"].values[-1] == 0
    with group_env(KITCHEN, 0, None) as env:
        agent = HMASDAgent(KITCHEN, env.spec)
        collector = group_collector(KITCHEN, 0, agent.networks, env, lambda: 0)
        rollout = collector.collect(0, 640)
        told = collector.episodes.metrics["shaped_return"].sum()
        assert told > 0
        assert rollout["coordinator"].reward.sum() == pytest.approx(3 * told)  # of the team's skill and each cook's


def test_a_film_of_a_kitchen(trained: Path, tmp_path: Path) -> None:
    film, skills = tmp_path / "film.gif", tmp_path / "skills.png"
    drawn = ["--output", str(film), "--skills", str(skills), "--max-steps", "6"]
    assert main(["hmasd", "render", "--model-path", str(trained), *drawn]) == 0
    with Image.open(film) as picture:
        assert picture.size == (450, 430 + 26)
        assert picture.n_frames == 6  # type: ignore[attr-defined]
    assert skills.exists()


def test_the_agent_acts_through_the_view_of_one_kitchen_without_its_state(trained: Path) -> None:
    agent = HMASDAgent.load(trained)
    view, arrays = parallel_env("cramped_room", max_steps=40), make_vector_env("overcooked:cramped_room", 1, [0])
    seen, _ = view.reset(seed=0)
    whole = arrays.reset()
    agent.reset(1, 5)
    without = agent.act(seen)
    agent.reset(1, 5)
    given = agent.act(whole.observation, whole.state)
    assert [int(without[a]) for a in view.agents] == np.asarray(given)[0].tolist()
