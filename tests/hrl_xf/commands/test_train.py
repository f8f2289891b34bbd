"""`echelon hrl train` by subprocess: killed at any moment it resumes to the same bits; its order and its files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from echelon.hrl_xf.commands.train import forget_metrics, run
from echelon.hrl_xf.layers.weight_files import read_layer
from echelon.hrl_xf.networks.files import save_layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.runtime.metrics import read_metrics
from tests.hrl_xf.log_examples import LOGS, train_options

SMALL = [
    "--data-dir", str(LOGS), "--num-workers", "1", "--threads", "1", "--val-ratio", "0.3", "--test-ratio", "0.3",
    "--l2-epochs", "3", "--l3-epochs", "2", "--l4-epochs", "1", "--l2-batch-size", "4", "--l3-batch-size", "12",
    "--checkpoint-seconds", "0", "--no-progress-bar", "--split-seed", "1",
]  # fmt: skip


def start(output_dir: Path, cache: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "echelon.cli", "hrl", "train", *SMALL]
    command += ["--output-dir", str(output_dir), "--cache-dir", str(cache), *more]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def kill_within(process: subprocess.Popen[str], folder: Path, pattern: str) -> None:
    """kill -9 as soon as a checkpoint of this name is there."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if folder.exists() and any(re.fullmatch(pattern, path.name) for path in folder.iterdir()):
            process.send_signal(signal.SIGKILL)
            process.wait()
            return
        time.sleep(0.001)
    raise AssertionError(f"no checkpoint {pattern} appeared:\n{process.communicate()[0]}")


def test_killed_in_the_middle_of_epochs_it_ends_with_the_same_bits(tmp_path: Path, cache: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    reference = start(whole, cache)
    assert reference.wait(180) == 0, reference.communicate()[0]
    first = start(parts, cache)
    kill_within(first, parts / "checkpoints" / ".l2_bc-partial", r"l2_bc_epoch2_batch[3-6]")
    second = start(parts, cache)
    kill_within(second, parts / "checkpoints" / ".l3_bc-partial", r"l3_bc_epoch1_batch[3-6]")
    last = start(parts, cache)
    text = last.communicate(timeout=180)[0]
    assert last.returncode == 0, text
    assert re.search(r"l3_bc resumes at epoch 1, batch [1-9]", text), text
    for name in ("l2_bc", "l3_bc", "l4_distill"):
        ours, theirs = load_file(parts / f"{name}.safetensors"), load_file(whole / f"{name}.safetensors")
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs), name
    one, other = read_metrics(whole), read_metrics(parts)
    for name in ("l2_bc/train_loss", "l2_bc/val_mae_q", "l3_bc/train_nll_op", "l4_distill/train_excess"):
        assert one[name].steps.tolist() == other[name].steps.tolist()
        assert one[name].values.tolist() == other[name].values.tolist()
    assert len(one["l2_bc/test_mae_q"].steps) == len(other["l2_bc/test_mae_q"].steps) == 1  # tested once, at the end


@pytest.mark.slow
def test_asked_to_stop_it_saves_and_resumes_later(tmp_path: Path, cache: Path) -> None:
    more = ("--phases", "l2", "--l2-epochs", "2000", "--checkpoint-seconds", "3600", "--save-every", "3000")
    process = start(tmp_path / "run", cache, *more)
    folder = tmp_path / "run" / "checkpoints"
    deadline = time.monotonic() + 120
    while not (folder / "l2_bc" / "l2_bc_epoch1").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 130, text
    assert "stopped and saved" in text
    (saved,) = [p.name for p in (folder / ".l2_bc-partial").iterdir() if p.is_dir()]
    place = re.fullmatch(r"l2_bc_epoch(\d+)_batch(\d+)", saved)
    assert place is not None
    assert not (tmp_path / "run" / "l2_bc.safetensors").exists()
    epochs = str(int(place[1]))
    again = start(tmp_path / "run", cache, "--phases", "l2", "--l2-epochs", epochs)
    text = again.communicate(timeout=120)[0]
    assert again.returncode == 0, text
    assert f"l2_bc resumes at epoch {place[1]}, batch {place[2]}" in text
    assert (tmp_path / "run" / "l2_bc.safetensors").exists()


@pytest.fixture
def options(tmp_path: Path, cache: Path) -> dict[str, object]:
    return {
        "data_dir": LOGS, "cache_dir": cache, "output_dir": tmp_path / "run", "num_workers": 1, "val_ratio": 0.3,
        "test_ratio": 0.3, "split_seed": 1, "l2_epochs": 1, "l3_epochs": 1, "l4_epochs": 1, "no_progress_bar": True,
    }  # fmt: skip


def test_l3_and_l4_need_a_trained_L2(options: dict[str, object], tmp_path: Path) -> None:
    for phases in ("l3", "l4"):
        with pytest.raises(ValueError, match=r"L3 and L4 see the goals of a trained L2"):
            run(train_options(**options, phases=phases))
    elsewhere = save_layer(HorizonManagerPPO(), tmp_path / "elsewhere")
    assert run(train_options(**options, phases="l3", l2_model_path=elsewhere)) == 0
    assert (tmp_path / "run" / "l3_bc.safetensors").exists()


def test_a_phase_can_be_started_again_and_the_run_explains_itself(options: dict[str, object], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run(train_options(**options, phases="l2")) == 0
    expected = {"config.json", "log.txt", "metrics.jsonl", "tb", "world_split.json"}
    assert expected <= {p.name for p in folder.iterdir()}
    assert "l2_bc epoch 1/1" in (folder / "log.txt").read_text()
    options["l2_epochs"] = 2
    assert run(train_options(**options, phases="l2", resume=False, seed=5)) == 0
    assert read_metrics(folder)["l2_bc/train_loss"].steps.tolist() == [1, 2]
    with pytest.raises(ValueError, match="agent_name"):
        run(train_options(**options, phases="l2", agent_name="AS0"))
    with pytest.raises(ValueError, match="seed: 5 → 6"):
        run(train_options(**options, phases="l2", seed=6))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"phases": "l3,l2"}, "use --phases l2,l3"),
        ({"phases": "l2,l5"}, "some of critic,l2,l3,l4"),
        ({"phases": "l2", "l3_awr": True}, "add l3"),
        ({"awr_agents": "all"}, "add --l3-awr"),
        ({"l3_awr": True, "awr_beta": 0.0}, "above 0"),
        ({"l3_awr": True, "awr_lambda": 1.5}, r"within 0\.\.1"),
        ({"phases": "l2,l3", "l2_model_path": Path("x")}, "leave out one"),
    ],
)
def test_options_that_make_no_sense(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        train_options(**changes)


def test_metrics_of_one_phase_are_removed_alone(tmp_path: Path) -> None:
    lines = [{"step": 1, "name": f"{phase}/train_loss", "value": 1.0} for phase in ("l2_bc", "l3_bc", "l3_awr")]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    forget_metrics(path, "l3_bc")
    assert set(read_metrics(path)) == {"l2_bc/train_loss", "l3_awr/train_loss"}


def test_training_continues_on_other_data_from_given_weights(options: dict[str, object], tmp_path: Path) -> None:
    first = train_options(**options)
    assert run(first) == 0
    given, made = first.config.output_dir, tmp_path / "new"
    slow = replace(
        first.config, output_dir=made, init_from=given, l2_lr=1e-9, l3_lr=1e-9, l4_lr=1e-9, average=0.0
    )  # fmt: skip
    new = replace(first, val_ratio=0.0, config=slow)
    assert run(new) == 0
    for name in ("l2_bc", "l3_bc", "l4_distill"):
        before, after = (read_layer(folder / name)[1] for folder in (given, made))
        for key, weights in before.items():  # a learning rate of nothing leaves them where they began
            np.testing.assert_allclose(after[key], weights, rtol=1e-3, atol=1e-4)
    assert f"l2 starts from {given / 'l2_bc.safetensors'}" in (made / "log.txt").read_text()
    assert run(new) == 0, "the same command resumes"
    with pytest.raises(ValueError, match="from"):
        run(replace(new, config=replace(slow, init_from=None)))


def test_given_weights_must_exist_and_be_of_the_same_kind(options: dict[str, object], tmp_path: Path) -> None:
    given = tmp_path / "given"
    save_layer(HorizonManagerPPO(in_days=True), given / "l2_bc")
    with pytest.raises(ValueError, match="in_days=True there, False here"):
        run(train_options(**options, init_from=given, phases="l2"))
    (given / "l2_bc.safetensors").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"has no l2_bc.safetensors or l2_ppo.safetensors or .*; .* leave l2 out of --phases"
    ):
        run(train_options(**options, init_from=given, phases="l2"))
    with pytest.raises(ValueError, match="is the --output-dir itself"):
        train_options(**options, init_from=tmp_path / "run")
