"""The command: one run directory that explains itself, continues bit for bit, and is not touched by evaluations."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from echelon.cli import main
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.commands.export import export_curves
from echelon.hmasd.commands.train import run
from echelon.hmasd.options import ExportOptions, TrainOptions
from echelon.hmasd.presets import preset
from echelon.runtime.board import free_port, should_start
from echelon.runtime.checkpoint import latest, load_checkpoint
from echelon.runtime.metrics import read_metrics
from echelon.runtime.rundir import OptionsDiffer
from tests.hmasd.small import SKY, SMALL, small

METRICS = Path(__file__).parents[3] / "docs" / "metrics.md"
SETTINGS = (
    "--env alice_and_bob --env-options max_steps=17 --envs 4 --samples-per-update 80 --k 5 --hidden 16 --heads 2 "
    "--decoder-layers 2 --recurrent --recurrent-chunk 6 --epochs 2 --agent-skills 3 --eval-every 0"
)


def options(folder: Path, **changes: Any) -> TrainOptions:
    plain = TrainOptions(
        output_dir=folder,
        config=SMALL,
        eval_every=0,
        eval_episodes=2,
        eval_executor="serial",
        checkpoint_every=0,
        env_workers=0,
        quiet=True,
    )
    return replace(plain, **changes)


def final(folder: Path, name: str = "hmasd_sync_final") -> dict[str, torch.Tensor]:
    tensors = load_checkpoint(folder / "checkpoints" / name).tensors
    return {f"{file}.{key}": torch.as_tensor(t) for file, named in tensors.items() for key, t in named.items()}


def different(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> list[str]:
    assert a.keys() == b.keys()
    return [name for name in a if not torch.equal(a[name], b[name])]


MORTAL = small(env="tests.envs.odd_envs:mortal", env_options=())
"""A third-party environment whose agents die and are born."""


OTHERS = [small(MORTAL, algorithm="ippo"), small(MORTAL, algorithm="mat")]


@pytest.mark.parametrize("config", [SMALL, small(SKY, minibatches=2), small(algorithm="mappo"), MORTAL, *OTHERS])
def test_stopped_and_continued_equals_not_stopped(config: Any, tmp_path: Path) -> None:
    run(options(tmp_path / "whole", config=config))
    run(options(tmp_path / "parts", config=replace(config, total_steps=160)))
    run(options(tmp_path / "parts", config=config))
    assert different(final(tmp_path / "whole"), final(tmp_path / "parts")) == []
    kept = [read_metrics(tmp_path / name) for name in ("whole", "parts")]
    assert kept[0].keys() == kept[1].keys()
    for name in ("Losses/Discoverer/Total", "Training/Step_Reward", "Sync/PolicyVersion"):
        np.testing.assert_array_equal(kept[0][name].values, kept[1][name].values)
        assert kept[0][name].steps.tolist() == [80, 160, 240, 320, 400]


def test_evaluation_does_not_change_training_by_a_bit(tmp_path: Path) -> None:
    run(options(tmp_path / "without"))
    run(options(tmp_path / "with", eval_every=100))
    run(options(tmp_path / "background", eval_every=100, eval_executor="loky:1"))
    expected = final(tmp_path / "without")
    assert different(expected, final(tmp_path / "with")) == []
    assert different(expected, final(tmp_path / "background")) == []
    here, beside = (read_metrics(tmp_path / name)["Eval/MeanReward"] for name in ("with", "background"))
    # rounds of 80 cross 100, 200, 300 and 400 at 160, 240, 320 and 400 steps
    assert here.steps.tolist() == beside.steps.tolist() == [100, 200, 300, 400]
    np.testing.assert_array_equal(here.values, beside.values)


def test_checkpoints_are_named_by_the_multiple_that_was_crossed(tmp_path: Path) -> None:
    run(options(tmp_path, checkpoint_every=150))
    names = sorted(p.name for p in (tmp_path / "checkpoints").iterdir() if p.is_dir())
    assert names == ["hmasd_sync_150", "hmasd_sync_300", "hmasd_sync_final"]
    steps = [load_checkpoint(tmp_path / "checkpoints" / name).state["env_steps"] for name in names]
    assert steps == [160, 320, 400]


def test_the_written_tags_are_those_the_documentation_explains(tmp_path: Path) -> None:
    run(options(tmp_path / "run", eval_every=200))
    written = {re.sub(r"_\d+_", "_<i>_", name) for name in read_metrics(tmp_path / "run")}
    documented = set(re.findall(r"^\| `([^`]+)` \|", METRICS.read_text().partition("\n## HRL-XF")[0], re.MULTILINE))
    documented -= {"Training/Info/<name>", "Eval/Info/<name>"}  # of worlds that tell more than success
    assert written == documented
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(tmp_path / "run" / "tb"))
    board.Reload()
    assert {re.sub(r"_\d+_", "_<i>_", tag) for tag in board.Tags()["scalars"]} == documented


def test_the_tags_are_measurements(tmp_path: Path) -> None:
    run(options(tmp_path, config=SKY))
    curves = read_metrics(tmp_path)
    assert curves["Sync/PolicyVersion"].values.tolist() == [1, 2, 3, 4, 5]
    assert set(curves["Buffer/SamplesCollected"].values) == {80}
    assert set(curves["Buffer/low_level_buffer_size"].values) == {240}
    assert {curves[f"Buffer/env_contribution_{x}"].values[0] for x in ("min", "mean", "max")} == {20}
    segments = curves["Buffer/high_level_buffer_size"].values
    np.testing.assert_allclose(curves["Skills/Segment_Length_Mean"].values, 80 / segments)
    parts = [
        curves[f"Rewards/Intrinsic/Components/{part}_Portion_Average"].values
        for part in ("Environmental", "TeamDiscriminator", "IndividualDiscriminator")
    ]
    np.testing.assert_allclose(curves["Rewards/Intrinsic/LowLevel_Average"].values, sum(parts), atol=1e-6)
    np.testing.assert_allclose(parts[0], curves["Training/Step_Reward"].values, rtol=1e-5)  # lambda_e is 1
    per_segment = curves["Rewards/HighLevel/K_Step_Accumulated_Mean"].values
    np.testing.assert_allclose(per_segment * segments, curves["Training/Step_Reward"].values * 80, rtol=1e-4)
    for kind in ("Team", "Agent"):
        shares = [s.values for name, s in curves.items() if name.startswith(f"Skills/{kind}Skill_")]
        np.testing.assert_allclose(sum(shares), 1.0)


def test_the_batch_follows_progress(tmp_path: Path) -> None:
    run(options(tmp_path, config=small(total_steps=400, final_samples_per_update=160)))
    assert read_metrics(tmp_path)["Sync/BatchSize"].values.tolist() == [80, 96, 116, 140]
    assert load_checkpoint(tmp_path / "checkpoints" / "hmasd_sync_final").state["env_steps"] == 432


def test_every_optimiser_follows_progress(tmp_path: Path) -> None:
    slowing = small(total_steps=320, final_lr=2e-4)
    run(options(tmp_path, config=slowing))
    rates = {name: float(t) for name, t in final(tmp_path).items() if name.endswith(".lr")}
    assert len(rates) == 3  # both levels and the discriminators
    assert list(rates.values()) == pytest.approx([slowing.learning_rate(240)] * 3)  # of the last update
    with pytest.raises(OptionsDiffer, match=r"config\.total_steps"):
        run(options(tmp_path, config=replace(slowing, total_steps=640)))


def test_a_changed_option_is_an_error_that_shows_the_difference(tmp_path: Path) -> None:
    run(options(tmp_path, config=small(total_steps=80)))
    with pytest.raises(OptionsDiffer, match=r"config\.k: 5 → 4"):
        run(options(tmp_path, config=small(total_steps=80, k=4)))


def test_going_on_from_a_checkpoint_in_a_new_directory(tmp_path: Path) -> None:
    run(options(tmp_path / "whole"))
    run(options(tmp_path / "first", config=small(total_steps=160)))
    start = tmp_path / "first" / "checkpoints" / "hmasd_sync_final"
    run(options(tmp_path / "second", model_path=start))
    assert different(final(tmp_path / "whole"), final(tmp_path / "second")) == []
    with pytest.raises(ValueError, match=r"was trained with other shapes: hidden 16 \(here 32\)"):
        run(options(tmp_path / "third", model_path=start, config=small(hidden=32)))


def test_zombies_stopped_and_continued_keep_weights_and_counters(tmp_path: Path) -> None:
    """Knights, archers and zombies is not deterministic: running episodes begin again, everything else continues."""
    zombies = small(
        env="pettingzoo.butterfly.knights_archers_zombies_v11:parallel_env", env_options=("team_reward=sum",),
        envs=2, samples_per_update=600, total_steps=600, epochs=1, hidden=8,
    )  # fmt: skip
    run(options(tmp_path, config=zombies))
    before = final(tmp_path)
    run(options(tmp_path, config=replace(zombies, total_steps=1200), env_workers=1))
    assert "new episodes begin there" in (tmp_path / "log.txt").read_text()
    state = load_checkpoint(tmp_path / "checkpoints" / "hmasd_sync_final").state
    assert (state["env_steps"], state["rounds"]) == (1200, 2)
    assert read_metrics(tmp_path)["Sync/PolicyVersion"].values.tolist() == [1, 2]
    weights = [name for name in before if ".policy." in name]
    moved = [float((final(tmp_path)[name] - before[name]).abs().max()) for name in weights]
    assert 0 < max(moved) < 0.01  # they continued from where they were


def test_other_worlds_keep_the_policy_and_start_new_episodes(tmp_path: Path) -> None:
    run(options(tmp_path / "first", config=small(total_steps=160)))
    run(options(tmp_path / "second", model_path=tmp_path / "first", config=small(envs=8, total_steps=240)))
    assert load_checkpoint(tmp_path / "second" / "checkpoints" / "hmasd_sync_final").state["rounds"] == 3


def test_the_log_has_every_update(tmp_path: Path) -> None:
    run(options(tmp_path, config=small(total_steps=160)))
    text = (tmp_path / "log.txt").read_text()
    assert "sync update begins: 80 samples collected, policy version 0" in text
    assert "sync update done: policy version is now 2, sample count is reset" in text
    assert re.search(r"progress: 160/160 \(100\.0%\), updates: 2, episodes: 8, \d+ steps/s", text)
    assert "a round has 20 steps" not in text
    run(options(tmp_path / "short", config=small(total_steps=80, k=6)))
    assert "not a multiple of k=6" in (tmp_path / "short" / "log.txt").read_text()


def test_curves_are_exported_as_csv_and_json(tmp_path: Path) -> None:
    run(options(tmp_path, config=small(total_steps=160)))
    table = (tmp_path / "curves.csv").read_text().splitlines()
    assert len(table) == 3
    assert "Losses/Coordinator/Total" in table[0].split(",")
    curves = json.loads((tmp_path / "curves.json").read_text())["curves"]
    assert curves["Sync/PolicyVersion"] == {"steps": [80, 160], "values": [1.0, 2.0]}
    with pytest.raises(ValueError, match=r"must end in \.csv or \.json"):
        export_curves(tmp_path, tmp_path / "curves.xlsx")
    assert ExportOptions(tmp_path, tmp_path / "a.csv").run_dir == tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--preset uav1-as-given --samples-per-update 1000",
            "samples_per_update=1000 is not a multiple of envs=32; use 992 or 1024",
        ),
        ("--env uav9", "unknown environment 'uav9'"),
        ("--env mpe2.simple_sprea_v3:parallel_env", "there is no module mpe2.simple_sprea_v3; did you mean"),
        ("--env uav1 --eval-only", "--eval-only needs --model-path"),
        ("--preset uav", "preset 'uav' is unknown"),
        ("--env uav1 --env-options max_step=3", "uav1 has no option max_step"),
        ("--env uav1 --model-path nowhere", "nowhere is neither a checkpoint nor a run with one"),
    ],
)
def test_wrong_use_is_one_clear_message(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["hmasd", "train", *arguments.split()]) == 2
    err = capsys.readouterr().err.strip()
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_training_killed_outright_and_started_again_ends_the_same(tmp_path: Path) -> None:
    """kill -9 in the middle of a run of its own process; the same command then equals a run that was never stopped."""

    def command(folder: str) -> list[str]:
        more = ["--total-steps", "2400", "--checkpoint-every", "400", "--output-dir", str(tmp_path / folder)]
        return [sys.executable, "-m", "echelon.cli", "hmasd", "train", *SETTINGS.split(), *more]

    subprocess.run(command("whole"), check=True, capture_output=True)
    victim = subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while latest(tmp_path / "killed" / "checkpoints") is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(victim.pid, signal.SIGKILL)
    assert victim.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "checkpoints" / "hmasd_sync_final").exists()
    again = subprocess.run(command("killed"), check=True, capture_output=True, text=True)
    assert "resuming from" in again.stdout
    assert different(final(tmp_path / "whole"), final(tmp_path / "killed")) == []
    steps = [read_metrics(tmp_path / name)["Sync/PolicyVersion"].steps.tolist() for name in ("whole", "killed")]
    assert steps[0] == steps[1]


def test_evaluate_and_render_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(options(tmp_path, config=small(total_steps=80)))
    result = tmp_path / "result.json"
    arguments = ["--model-path", str(tmp_path), "--episodes", "3", "--json-path", str(result)]
    assert main(["hmasd", "evaluate", *arguments]) == 0
    assert "3 episodes" in capsys.readouterr().out
    assert json.loads(result.read_text())["lengths"] == [17] * 3
    film, skills = tmp_path / "film.gif", tmp_path / "skills.png"
    drawn = ["--output", str(film), "--skills", str(skills), "--max-steps", "6"]
    assert main(["hmasd", "render", "--model-path", str(tmp_path), *drawn]) == 0
    assert skills.read_bytes().startswith(b"\x89PNG")
    from PIL import Image

    with Image.open(film) as picture:
        assert picture.format == "GIF"
        assert picture.n_frames > 1  # type: ignore[attr-defined]
    evaluated = ["--eval-only", "--model-path", str(tmp_path), "--eval-episodes", "2"]
    assert main(["hmasd", "train", "--env", "alice_and_bob", *evaluated]) == 0
    assert "2 episodes" in capsys.readouterr().out
    assert HMASDAgent.load(tmp_path / "checkpoints" / "hmasd_sync_final").config == small(
        total_steps=80, agent_ids=False
    )


def test_it_finds_the_known_optimum_of_a_toy(tmp_path: Path) -> None:
    """The reward is the action itself: both levels must learn to do nothing but the last action."""
    toy = small(
        env="tests.envs.odd_envs:counter", env_options=(), total_steps=3200, lr=3e-3, epochs=8, lambda_team=0.0,
        lambda_agent=0.0,
    )  # fmt: skip
    for algorithm in ("hmasd", "mappo"):
        run(options(tmp_path / algorithm, config=replace(toy, algorithm=algorithm)))
        reward = read_metrics(tmp_path / algorithm)["Training/Step_Reward"].values
        assert reward[0] < 1.3  # at random 1
        assert reward[-5:].mean() > 1.8  # at best 2


def test_without_skills_only_their_tags_are_missing(tmp_path: Path) -> None:
    run(options(tmp_path, config=small(algorithm="mappo", total_steps=160), eval_every=160))
    rows = re.findall(r"^\| `([^`]+)` \| (.*)", METRICS.read_text().partition("\n## HRL-XF")[0], re.MULTILINE)
    expected = {name for name, meaning in rows if not meaning.startswith("*skills*") and "<name>" not in name}
    assert set(read_metrics(tmp_path)) == expected


def test_a_checkpoint_does_not_wait_for_evaluations_and_none_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the round after a checkpoint, before the evaluation that began with it was written down."""
    every = {"eval_every": 160, "checkpoint_every": 160}
    run(options(tmp_path / "whole", **every))

    def stop(training: Any, done: Any, rate: float) -> None:
        if done.index == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("echelon.hmasd.commands.train.progress", stop)
        with pytest.raises(KeyboardInterrupt):
            run(options(tmp_path / "stopped", **every))
    saved = load_checkpoint(tmp_path / "stopped" / "checkpoints" / "hmasd_sync_160")
    assert "evaluation_160" in saved.tensors  # it was saved before the result was there
    assert "Eval/MeanReward" not in read_metrics(tmp_path / "stopped")
    run(options(tmp_path / "stopped", **every))
    found = [read_metrics(tmp_path / name) for name in ("whole", "stopped")]
    for name in (tag for tag in found[0] if tag.startswith("Eval/") and tag != "Eval/RandomReward"):
        assert found[1][name].steps.tolist() == found[0][name].steps.tolist() == [160, 320]
        np.testing.assert_array_equal(found[1][name].values, found[0][name].values)
    assert different(final(tmp_path / "whole"), final(tmp_path / "stopped")) == []


@pytest.mark.parametrize(
    ("asked", "refused", "terminal", "expected"),
    [(False, False, True, True), (False, True, True, False), (False, False, False, False), (True, False, False, True)],
)
def test_tensorboard_starts_by_itself_in_a_terminal(
    asked: bool, refused: bool, terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert should_start(asked, refused) == expected


def test_the_log_says_how_to_open_the_curves_afterwards(tmp_path: Path) -> None:
    run(options(tmp_path, config=small(total_steps=80)))
    assert f"curves: tensorboard --logdir {tmp_path / 'tb'}" in (tmp_path / "log.txt").read_text()


def test_a_taken_port_gives_the_next_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        port = taken.getsockname()[1]
        assert port < free_port(port) < port + 100


@pytest.mark.slow
def test_the_tuned_preset_learns_alice_and_bob_on_two_seeds_of_five(tmp_path: Path) -> None:
    """About a minute per seed. Up to three seeds of ten, others on each machine, settle before they meet the reward.

    With that share four of five are lost on one machine in thirty.
    """
    tuned, learnt = preset("alice_and_bob"), 0
    for seed in range(1, 6):
        folder = tmp_path / str(seed)
        config = replace(tuned.config, total_steps=768_000, seed=seed)
        run(replace(tuned, output_dir=folder, config=config, eval_every=768_000, eval_executor="serial", quiet=True))
        learnt += read_metrics(folder)["Eval/SuccessRate"].values[-1] >= 0.9
        if learnt == 2:
            break
    assert learnt == 2
