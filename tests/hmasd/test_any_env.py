"""What holds on any ParallelEnv, not only on ours: evaluations, films, metrics from infos, options, refusals."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from echelon.cli import main
from echelon.envs.make import make_vector_env
from echelon.envs.uav import render as uav_render
from echelon.hmasd import evaluation
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.background import BackgroundEvaluation
from echelon.hmasd.commands import render
from echelon.hmasd.commands.train import agents_look_alike, run
from echelon.hmasd.evaluation import random_play
from echelon.hmasd.options import TrainOptions
from echelon.hmasd.worlds import make_worlds
from echelon.runtime.metrics import MetricsWriter, read_metrics
from echelon.runtime.rundir import OptionsDiffer
from tests.hmasd.small import SKY, make, small

SCORE = small(env="tests.envs.learnable:score", env_options=(), total_steps=80)


def options(folder: Path, **changes: Any) -> TrainOptions:
    plain = TrainOptions(
        output_dir=folder, config=SCORE, eval_every=0, eval_episodes=3, eval_executor="serial", checkpoint_every=0,
        env_workers=0, quiet=True,
    )  # fmt: skip
    return replace(plain, **changes)


@pytest.mark.parametrize("workers", [0, 2])
def test_numbers_of_the_infos_become_metrics_of_episodes(workers: int, tmp_path: Path) -> None:
    run(options(tmp_path, eval_every=80, env_workers=workers or 0))
    logged = read_metrics(tmp_path)
    told = {name for name in logged if "/Info/" in name}
    assert told == {f"{kind}/Info/{name}" for kind in ("Training", "Eval") for name in ("won", "score", "success")}
    # a's score is the sum of all actions, b's is two more; the reward of a step is shared
    assert logged["Training/Info/score"].values[0] == pytest.approx(logged["Training/Episode_Reward"].values[0] + 1)
    assert 0 < logged["Eval/Info/won"].values[0] <= 1
    assert logged["Eval/Info/success"].values[0] == 200  # no rate: it is not told as 20000 %
    assert "success" not in (tmp_path / "log.txt").read_text()


def test_evaluations_keep_the_metrics_of_every_episode(tmp_path: Path) -> None:
    run(options(tmp_path))
    result = tmp_path / "result.json"
    assert (
        main(["hmasd", "evaluate", "--model-path", str(tmp_path), "--episodes", "3", "--json-path", str(result)]) == 0
    )
    content = json.loads(result.read_text())
    assert content["metrics"]["score"] == [r + 1 for r in content["returns"]]
    assert content["Eval/Info/won"] == np.mean([r > 3 for r in content["returns"]])


def test_crashed_episodes_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In world 1 step 3 of the first episode raises, after a reward; its second episode counts instead."""
    agent, _ = make(
        small(env="tests.envs.odd_envs:counter", env_options=("trouble=raise", "length=4", "bad_seeds=[6]"))
    )
    monkeypatch.setattr(evaluation, "make_worlds", lambda config, count, _: make_worlds(config, count, [5, 6, 7]))
    assert evaluation.evaluate(agent, 3, 0).lengths.tolist() == [4, 4, 4]


def test_a_film_of_a_third_party_world_needs_no_retraining(tmp_path: Path) -> None:
    run(options(tmp_path))
    film = tmp_path / "film.gif"
    assert main(["hmasd", "render", "--model-path", str(tmp_path), "--output", str(film)]) == 0
    with Image.open(film) as picture:
        assert picture.size == (30, 46)  # the world's own picture, and the skills written below
    refused = ["--env-options", "render_mode=ansi"]
    assert main(["hmasd", "render", "--model-path", str(tmp_path), "--output", str(film), *refused]) == 2


def test_skills_are_drawn_in_other_colours_than_roles_and_things() -> None:
    drawn = (*uav_render.ROLE_COLOURS, uav_render.SERVED, uav_render.UNSERVED, uav_render.GROUND, uav_render.ROUTE)
    for skill in render.COLOURS:
        for other in drawn:
            assert np.linalg.norm(np.subtract(to_rgb(skill), to_rgb(other))) > 0.3, (skill, other)


def test_a_skill_lasts_as_long_in_use_as_it_did_in_training(tmp_path: Path) -> None:
    config = small(k=50, agent_skills=50, total_steps=80)  # a round has 20 steps of each world
    run(options(tmp_path, config=config))
    assert "k=50 exceeds the 20 steps of each world in a round" in (tmp_path / "log.txt").read_text()
    agent = HMASDAgent.load(tmp_path)  # a run's folder will do
    agent.reset(1, seed=0)
    held = []
    for _ in range(41):
        agent.act(np.zeros((1, 2, 6), np.float32))
        held.append(tuple(agent.skills[0].tolist()))
    assert [t for t in range(1, 41) if held[t] != held[t - 1]] == [20, 40]


def test_eval_only_has_the_models_own_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(options(tmp_path, config=small(total_steps=80), eval_episodes=5))
    model = ["--eval-only", "--model-path", str(tmp_path)]
    assert main(["hmasd", "train", *model]) == 0  # without --env, whose default is uav1
    assert "5 episodes" in capsys.readouterr().out
    checkpoint = str(tmp_path / "checkpoints" / "hmasd_sync_final")
    assert main(["hmasd", "train", "--eval-only", "--model-path", checkpoint, "--eval-episodes", "2"]) == 0
    assert "2 episodes" in capsys.readouterr().out
    assert main(["hmasd", "train", *model, "--env", "uav1"]) == 2
    assert "was trained in alice_and_bob, not in uav1; leave --env out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", ["--env uav9", "--env tests.envs.learnable:nothing", "--model-path nowhere", "--env-options max_step=3"]
)
def test_nothing_is_written_before_the_environment_exists(wrong: str, tmp_path: Path) -> None:
    assert main(["hmasd", "train", "--output-dir", str(tmp_path / "run"), *wrong.split()]) == 2
    assert not (tmp_path / "run").exists()


def test_quiet_is_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = "--envs 2 --samples-per-update 20 --total-steps 20 --k 5 --eval-every 0 --epochs 1"
    settings = ["--env", "alice_and_bob", "--env-options", "max_steps=9", *size.split()]
    assert main(["hmasd", "train", "--quiet", "--output-dir", str(tmp_path), *settings]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert "progress: 20/20 (100.0%)" in (tmp_path / "log.txt").read_text()


def test_progress_ends_at_a_hundred_percent(tmp_path: Path) -> None:
    run(options(tmp_path, config=small(total_steps=5)))
    assert "progress: 80/5 (100.0%)" in (tmp_path / "log.txt").read_text()


def test_harmless_options_may_change_on_resume(tmp_path: Path) -> None:
    run(options(tmp_path, config=small(total_steps=80)))
    more = {"eval_every": 80, "eval_episodes": 2, "eval_greedy": True, "checkpoint_every": 80}
    run(options(tmp_path, config=small(total_steps=160), **more))
    assert read_metrics(tmp_path)["Eval/MeanReward"].steps.tolist()[-1] == 160
    with pytest.raises(OptionsDiffer, match=r"config\.lr"):
        run(options(tmp_path, config=small(total_steps=160, lr=0.5)))


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("alice_and_bob", False),
        ("uav1", False),
        ("mpe2.simple_spread_v3:parallel_env", False),
        ("tests.envs.learnable:differ", True),
        ("tests.envs.learnable:sacrifice", False),
    ],
)
def test_agents_get_a_number_where_nothing_else_distinguishes_them(env: str, expected: bool) -> None:
    with make_vector_env(env, 1, 0, workers=0 if ":" in env else None) as probe:
        assert agents_look_alike(probe) == expected


def test_a_numbered_agent_is_saved_as_such(tmp_path: Path) -> None:
    run(options(tmp_path, config=small(env="tests.envs.learnable:differ", env_options=(), total_steps=80)))
    agent = HMASDAgent.load(tmp_path)
    assert agent.sizes.ids == 2
    seen = agent.act({"a": np.ones(1), "b": np.ones(1)})
    assert set(seen) == {"a", "b"}
    assert agent.networks.individual is not None  # which must not see whose observation it judges
    assert agent.networks.individual.layers[0].in_features == agent.sizes.obs + agent.sizes.team_skills


CONFIG = {
    "run.toml": 'env = "alice_and_bob"\ntotal-steps = 400\nk = 7\neval_every = 0\n[env-options]\nmax_steps = 17\n',
    "run.json": json.dumps({"env": "alice_and_bob", "total_steps": 400, "k": 7, "env_options": ["max_steps=17"]}),
}


@pytest.mark.parametrize("name", CONFIG)
def test_options_come_from_a_file(name: str, tmp_path: Path) -> None:
    from echelon.hmasd.presets import preset, train_defaults

    file = tmp_path / name
    file.write_text(CONFIG[name])
    given = train_defaults(["--config", str(file)])
    base = preset("alice_and_bob").config
    assert given.config == replace(base, total_steps=400, k=7, env_options=("max_steps=17",))
    assert given.config_file == file


def test_the_config_of_any_run_is_accepted(tmp_path: Path) -> None:
    from echelon.hmasd.presets import train_defaults

    run(options(tmp_path / "one", config=replace(SKY, total_steps=80), eval_episodes=9))
    file = tmp_path / "one" / "config.json"
    given = train_defaults(["--config", str(file)])
    assert given.config == replace(SKY, total_steps=80)
    assert given.eval_episodes == 9
    command = ["--config", str(file), "--output-dir", str(tmp_path / "two"), "--seed", "3", "--quiet"]
    assert main(["hmasd", "train", *command]) == 0
    again = json.loads((tmp_path / "two" / "config.json").read_text())["options"]["config"]
    assert again == {**replace(SKY, total_steps=80, seed=3).to_json()}
    saved = tmp_path / "one" / "checkpoints" / "hmasd_sync_final" / "config.json"
    assert train_defaults(["--config", str(saved)]).config == replace(SKY, total_steps=80, agent_ids=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("warp = 3", "there is no option 'warp'; `echelon hmasd train --help` lists the options"),
        ("env_opts = 3", "there is no option 'env_opts'; did you mean env_options?"),
        ('preset = "uav9"', "preset 'uav9' is unknown"),
        ("lr = ", "is not TOML"),
        ("env_options = 3", "env_options must be a table"),
        ("k = 0", "k=0 must be at least 1"),
    ],
)
def test_a_wrong_file_is_one_clear_message(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(content)
    assert main(["hmasd", "train", "--config", str(file)]) == 2
    assert message in capsys.readouterr().err


def test_random_play_draws_evenly_from_what_is_allowed() -> None:
    masked = small(env="tests.envs.learnable:echo", env_options=("seen=masked",))
    found = random_play(masked.to_json(), 200, 0)
    assert found.reward_per_step == pytest.approx(1 / 3, abs=0.06)  # one of the three that the mask leaves
    box = random_play(small(env="tests.envs.learnable:echo", env_options=("done=box",)).to_json(), 200, 0)
    assert abs(box.reward_per_step) < 0.1
    np.testing.assert_array_equal(found.returns, random_play(masked.to_json(), 200, 0).returns)


def test_an_environment_may_be_called_by_the_short_name_of_its_preset(tmp_path: Path) -> None:
    short = options(tmp_path, config=small(env="spread", env_options=("max_steps=5",), total_steps=80))
    run(short)
    assert json.loads((tmp_path / "config.json").read_text())["options"]["config"]["env"] == "simple_spread"
    run(short)  # the same command resumes


def below_random_play(folder: Path, evaluations: int) -> TrainOptions:
    """Agents that must differ, but have one policy and see the same: greedily they earn nothing, at random .5."""
    alike = small(
        env="tests.envs.learnable:differ", env_options=(), algorithm="mappo", agent_ids=False, recurrent=False,
        total_steps=80 * evaluations,
    )  # fmt: skip
    return options(folder, config=alike, eval_every=80, eval_greedy=True)


def test_a_training_whose_evaluations_stay_below_random_play_warns(tmp_path: Path) -> None:
    run(below_random_play(tmp_path, evaluations=9))
    assert "below random play" not in (tmp_path / "log.txt").read_text()
    run(below_random_play(tmp_path / "longer", evaluations=10))
    logged = read_metrics(tmp_path / "longer")
    assert logged["Eval/RandomReward"].values[0] > max(logged["Eval/MeanReward"].values)
    warnings = [line for line in (tmp_path / "longer" / "log.txt").read_text().splitlines() if "WARNING" in line]
    (message,) = [line for line in warnings if "below random play" in line]
    assert "at 800 steps the last 10 evaluations are all below random play" in message
    assert message.endswith("what is learnt is not the reward; use a tuned preset")


def test_one_evaluation_above_random_play_starts_the_count_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with MetricsWriter(tmp_path) as metrics, caplog.at_level(logging.WARNING):
        evaluations = BackgroundEvaluation(options(tmp_path), metrics)
        evaluations.random_return = 3.0
        for step, reward in enumerate([2.0] * 9 + [3.5] + [2.0] * 9):
            evaluations._compare(reward, step)
        assert not caplog.messages
        evaluations._compare(2.0, 100)
    (message,) = caplog.messages
    assert "at 100 steps the last 10 evaluations are all below random play (3)" in message
    assert message.endswith("; lower --lambda-team and --lambda-agent, or use a tuned preset")
