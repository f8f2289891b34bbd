"""The Python of the walkthrough's chapter on HMASD runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from echelon.envs.entities import check_sets, declared_sets
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.commands.train import run
from echelon.hmasd.options import TrainOptions
from tests.hmasd.small import small

CHAPTER = (Path(__file__).parents[2] / "docs" / "walkthrough.md").read_text().partition(". HMASD: train")[2]


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("runs/hmasd/alice_and_bob-hmasd-seed0")
    run(TrainOptions(output_dir=folder, config=small(total_steps=80), eval_every=0, checkpoint_every=0, quiet=True))
    blocks = re.findall(r"^```python\n(.*?)^```", CHAPTER, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "walkthrough.md", "exec"), names)
    observation, state = declared_sets(names["Hunt"].metadata)
    check_sets(observation, 62, "observations of 2 + 20 * 3 numbers")
    assert [one.count for one in (*observation, *state)] == [20, 20]
    assert HMASDAgent.load("runs/mine").config.env == "mine"
