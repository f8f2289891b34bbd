"""Checkpoints: exact, refused when not whole, and never half after a kill."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from echelon.runtime.checkpoint import CheckpointError, latest, load_checkpoint, save_checkpoint
from echelon.runtime.files import read_json


def save(directory: Path, name: str = "step_1", number: int = 1, **options: bool | int | None) -> Path:
    tensors = {"policy": {"w": np.full(3, number)}, "value": {"w": np.full(2, -number)}}
    return save_checkpoint(directory, name, tensors=tensors, state={"step": number}, config={"lr": 0.1}, **options)  # type: ignore[arg-type]


def step(path: Path | None) -> int:
    assert path is not None
    loaded = load_checkpoint(path)
    number = int(loaded.state["step"])
    assert np.array_equal(loaded.tensors["policy"]["w"], np.full(3, number))
    assert np.array_equal(loaded.tensors["value"]["w"], np.full(2, -number))
    return number


def test_tensors_come_back_exactly(tmp_path: Path) -> None:
    base = torch.arange(6.0).reshape(2, 3)
    tensors: dict[str, dict[str, Any]] = {
        "torch": {
            "bf16": torch.tensor([1.5, float("nan")], dtype=torch.bfloat16),
            "int": torch.tensor([2**62], dtype=torch.int64),
            "bool": torch.tensor([True, False]),
            "scalar": torch.tensor(3.5, dtype=torch.float64),
            "transposed": base.T,
            "shares memory": base[0],
            "empty": torch.zeros(0, 4),
            "an array among them": np.arange(3, dtype=np.uint8),
        },
        "numpy": {"scalar": np.array(2.5, dtype=np.float16), "transposed": np.arange(6).reshape(2, 3).T},
    }
    back = load_checkpoint(save_checkpoint(tmp_path, "a", tensors=tensors, state=None, config=None)).tensors
    for file, named in tensors.items():
        assert set(back[file]) == set(named)
        for name, value in named.items():
            other = back[file][name]
            assert (type(other), other.dtype, other.shape) == (type(value), value.dtype, value.shape), name
            if isinstance(value, torch.Tensor):
                assert torch.equal(other.nan_to_num(7), value.nan_to_num(7)), name
            else:
                assert np.array_equal(other, value), name
                other[...] = 0  # it is ours: it can be written to


def best(directory: Path) -> Path | None:
    pointers = directory / "pointers.json"
    name = json.loads(pointers.read_text())["best"] if pointers.exists() else None
    return None if name is None else directory / name


def test_last_and_best(tmp_path: Path) -> None:
    assert latest(tmp_path) is None
    assert best(tmp_path) is None
    save(tmp_path, "step_1", 1, best=True)
    save(tmp_path, "step_2", 2)
    assert (step(latest(tmp_path)), step(best(tmp_path))) == (2, 1)
    save(tmp_path, "step_2", 3)  # the same name again
    assert (step(latest(tmp_path)), step(best(tmp_path))) == (3, 1)
    save(tmp_path, "step_1", 4)
    assert step(latest(tmp_path)) == 4
    assert best(tmp_path) is None  # the best was replaced by one that is not


def test_old_ones_go_but_not_the_best(tmp_path: Path) -> None:
    for i in range(1, 7):
        save(tmp_path, f"s{i}", i, keep_last=2, best=i == 2)
    assert sorted(os.listdir(tmp_path)) == ["pointers.json", "s2", "s5", "s6"]
    save(tmp_path, "s7", 7, keep_last=2, best=True)
    assert sorted(os.listdir(tmp_path)) == ["pointers.json", "s6", "s7"]


@pytest.mark.parametrize("file", ["config.json", "state.json", "policy.safetensors", "value.safetensors"])
def test_any_damage_is_noticed(tmp_path: Path, file: str) -> None:
    target = save(tmp_path) / file
    whole = target.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 15)):
        target.write_bytes(whole[:at])
        with pytest.raises(CheckpointError, match=file.replace(".", r"\.")):
            load_checkpoint(tmp_path / "step_1")
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        if file == "state.json" and whole[at : at + 1].isspace():
            continue  # one blank for another means the same
        target.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CheckpointError, match=file.replace(".", r"\.")):
            load_checkpoint(tmp_path / "step_1")
    target.unlink()
    with pytest.raises(CheckpointError, match=file.replace(".", r"\.")):
        load_checkpoint(tmp_path / "step_1")
    target.write_bytes(whole)
    assert step(tmp_path / "step_1") == 1


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    file = save(tmp_path) / "state.json"
    file.write_text(json.dumps({**read_json(file), "format_version": 99}))
    with pytest.raises(CheckpointError, match=r"format_version 99, this echelon reads up to 1; update"):
        load_checkpoint(tmp_path / "step_1")


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep_last=0"):
        save(tmp_path, keep_last=0)
    for name in ("../up", ".hidden", "", "a/b"):
        with pytest.raises(ValueError, match="not a valid file name"):
            save(tmp_path, name)
    with pytest.raises(CheckpointError, match="has no state"):
        load_checkpoint(tmp_path / "nowhere")


CHILD = """
import itertools, sys
import numpy as np
from echelon.runtime.checkpoint import save_checkpoint

start = int(sys.argv[2])
for i in itertools.count(start):
    tensors = {"policy": {"w": np.full(3, i)}, "value": {"w": np.full(2, -i)}}
    name = "same" if i % 3 == 0 else f"step_{i}"
    save_checkpoint(sys.argv[1], name, tensors=tensors, state={"step": i}, config={}, keep_last=2, best=i % 5 == 0)
    print(i, flush=True)
"""


def kill_while_saving(directory: Path, rng: random.Random, start: int) -> int:
    """Run a child that saves without pause, kill it, and return the last save it reported as done."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(directory), str(start)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    first = child.stdout.readline()
    time.sleep(rng.random() * 0.05)
    child.kill()
    rest, _ = child.communicate()
    return int((first + rest).split()[-1])


@pytest.mark.parametrize("rounds", [6, pytest.param(150, marks=pytest.mark.slow)])
def test_killed_while_saving_there_is_the_old_or_the_new(tmp_path: Path, rounds: int) -> None:
    rng = random.Random(0)
    reported = 0
    for _ in range(rounds):
        reported = kill_while_saving(tmp_path, rng, reported + 1)
        assert reported <= step(latest(tmp_path)) <= reported + 1
        chosen = best(tmp_path)
        assert chosen is None or step(chosen)
        for path in tmp_path.iterdir():
            if path.is_dir() and not path.name.startswith("."):
                step(path)
    save(tmp_path, "after", reported + 1, keep_last=2)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]  # leftovers are cleaned


STOPPED = """
import os, sys
import numpy as np
from echelon.runtime.checkpoint import save_checkpoint

left = int(sys.argv[2])

def stop(event, args):
    global left
    if event in ("os.rename", "os.remove", "os.rmdir"):
        left -= 1
        if left < 0:
            os._exit(9)

sys.addaudithook(stop)
tensors = {"policy": {"w": np.full(3, 2)}, "value": {"w": np.full(2, -2)}}
save_checkpoint(sys.argv[1], "same", tensors=tensors, state={"step": 2}, config={}, keep_last=1)
"""


def test_killed_between_any_two_steps_of_a_save(tmp_path: Path) -> None:
    """Stop a save before each of its renames and deletions in turn, as a kill would, and look."""
    seen = []
    for steps in range(100):
        folder = tmp_path / str(steps)
        save(folder, "older", 0)
        save(folder, "same", 1)
        run = subprocess.run([sys.executable, "-c", STOPPED, str(folder), str(steps)])
        seen.append(step(latest(folder)))
        if run.returncode == 0:
            break
        assert run.returncode == 9
        save(folder, "next", 3)
        assert step(latest(folder)) == 3
        assert step(folder / "same") == seen[-1]
    assert seen == sorted(seen)
    assert set(seen) == {1, 2}
    assert len(seen) > 5
