"""The Python of the walkthrough's chapter on HMASD runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
    for block in blocks:
        exec(compile(block, "walkthrough.md", "exec"), {})
    assert HMASDAgent.load("runs/mine").config.env == "mine"
