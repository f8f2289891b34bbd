"""Several processes that learn together give what one gives, to the bit, and end together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.hmasd.commands.train import run
from echelon.hmasd.options import TrainOptions
from echelon.runtime.checkpoint import latest
from echelon.runtime.metrics import read_metrics
from tests.hmasd.commands.test_train import SETTINGS, different, final, options
from tests.hmasd.small import SMALL, small

GROUPED = small(collectors=2, group_gradients=True, total_steps=240, minibatches=2)


@pytest.mark.parametrize("algorithm", ["hmasd", "mat"])
def test_two_processes_with_a_group_each_equal_one_with_two(algorithm: Any, tmp_path: Path) -> None:
    config = small(GROUPED, algorithm=algorithm)
    run(options(tmp_path / "one", config=config, checkpoint_every=80))
    run(options(tmp_path / "two", config=config, checkpoint_every=80, learners=2))
    assert different(final(tmp_path / "one"), final(tmp_path / "two")) == []
    one, two = (read_metrics(tmp_path / name) for name in ("one", "two"))
    for name in ("Losses/Discoverer/Total", "Training/Step_Reward", "Sync/BatchSize", "PPO/Discoverer/grad_norm"):
        np.testing.assert_array_equal(one[name].values, two[name].values)


def test_a_run_can_be_resumed_with_another_number_of_learners(tmp_path: Path) -> None:
    run(options(tmp_path / "whole", config=GROUPED))
    run(options(tmp_path / "parts", config=small(GROUPED, total_steps=80), learners=2))
    run(options(tmp_path / "parts", config=GROUPED))
    assert different(final(tmp_path / "whole"), final(tmp_path / "parts")) == []


def test_groups_differ_from_the_whole_by_rounding_only_at_first(tmp_path: Path) -> None:
    """The same worlds, one update: one gradient of all worlds, or the sum of two."""
    once = small(collectors=2, total_steps=80, epochs=1, discriminator_epochs=1)
    run(options(tmp_path / "whole", config=once))
    run(options(tmp_path / "groups", config=small(once, group_gradients=True)))
    whole, groups = (read_metrics(tmp_path / name) for name in ("whole", "groups"))
    for name in ("PPO/Discoverer/grad_norm", "PPO/Coordinator/grad_norm", "Losses/Discriminator/Total"):
        np.testing.assert_allclose(groups[name].values, whole[name].values, rtol=1e-3)
    for name in ("Discriminator/TeamAccuracy", "Discriminator/IndividualAccuracy"):
        np.testing.assert_allclose(groups[name].values, whole[name].values, atol=1e-6)


@pytest.mark.slow
def test_learners_of_torchrun_are_the_same(tmp_path: Path) -> None:
    more = "--total-steps 160 --collectors 2 --group-gradients --no-tensorboard --quiet"
    command = ["-m", "echelon", "hmasd", "train", *SETTINGS.split(), *more.split(), "--output-dir"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([sys.executable, *torchrun, *command, str(tmp_path / "two")], check=True, capture_output=True)
    subprocess.run([sys.executable, *command, str(tmp_path / "one")], check=True, capture_output=True)
    assert different(final(tmp_path / "one"), final(tmp_path / "two")) == []


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the other process in Linux's /proc")
def test_when_one_learner_dies_the_first_ends_and_says_how_to_resume(tmp_path: Path) -> None:
    more = "--total-steps 8000 --collectors 2 --group-gradients --learners 2 --checkpoint-every 80 --no-tensorboard"
    command = [sys.executable, "-m", "echelon", "hmasd", "train", *SETTINGS.split(), *more.split()]
    command += ["--keep-checkpoints", "1", "--output-dir", str(tmp_path)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while latest(tmp_path / "checkpoints") is None and time.monotonic() < deadline:
        time.sleep(0.02)
    (other,) = (int(pid) for pid in children(first.pid) if is_learner(pid))
    os.kill(other, signal.SIGKILL)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 2, said
    assert "learner 1 (exit code -9) ended early; the same command resumes" in said


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def is_learner(pid: str) -> bool:
    return "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learners": 2}, "--learners 2 share the groups of worlds; use --group-gradients --collectors 2"),
        ({"learners": 3, "config": GROUPED}, "--group-gradients --collectors 3 or a multiple"),
        ({"learners": 2, "config": GROUPED, "executor": "loky:2"}, "collect themselves; leave --executor loky:2 out"),
        ({"learners": 0}, "learners=0 must be at least 1"),
    ],
)
def test_wrong_numbers_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainOptions(**{"config": SMALL, **change})
