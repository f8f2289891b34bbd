"""Learning curves: seeds of one group, their mean, the table, and what cannot be drawn."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from echelon.cli import main
from echelon.hmasd.options import CurvesOptions
from echelon.reporting.curves import Seed, mean_curve, read_seed, skills_in_use, smooth, table
from echelon.runtime.metrics import MetricsWriter, Series


def series(*points: tuple[int, float]) -> Series:
    return Series(np.array([s for s, _ in points], np.int64), np.array([v for _, v in points], np.float64))


def a_run(folder: Path, values: list[float]) -> Path:
    folder.mkdir()
    with MetricsWriter(folder, tensorboard=False) as metrics:
        for i, value in enumerate(values):
            metrics.record("Eval/SuccessRate", value, 100 * (i + 1))
            for z, share in enumerate((0.5, 0.5, 0.0)):
                metrics.record(f"Skills/AgentSkill_{z}_Share", share, 100 * (i + 1))
    return folder


def test_the_mean_is_over_steps_that_all_seeds_have() -> None:
    mean = mean_curve([series((1, 0.0), (2, 0.4), (3, 0.9)), series((2, 0.8), (3, 0.7), (4, 0.1))])
    assert mean.steps.tolist() == [2, 3]
    np.testing.assert_allclose(mean.values, [0.6, 0.8])


def test_a_trailing_mean_starts_with_what_there_is() -> None:
    np.testing.assert_allclose(smooth(series((1, 1.0), (2, 3.0), (3, 8.0)), 2).values, [1.0, 2.0, 5.5])


def test_skills_in_use_counts_equal_shares_and_ignores_unused_ones() -> None:
    shares = {
        "Skills/AgentSkill_0_Share": series((1, 1.0), (2, 0.25)),
        "Skills/AgentSkill_1_Share": series((1, 0.0), (2, 0.75)),
    }
    used = skills_in_use(shares)
    assert used is not None
    np.testing.assert_allclose(used.values, [1.0, math.exp(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))])
    assert skills_in_use({"Eval/SuccessRate": series((1, 1.0))}) is None


def test_the_table_says_how_each_seed_ended() -> None:
    first = Seed("x-s1", 1, {"m": series((100, 0.0), (300, 0.9), (400, 1.0))})
    second = Seed("x-s2", 2, {"m": series((100, 0.2), (300, 0.2), (400, 0.4))})
    begun = Seed("x-s3", 3, {"other": series((100, 0.2))})
    lines = table({"x": [first, second, begun]}, "m")
    assert lines[2] == "| x-s1 | 400 | 1.000 | 1.000 | 1.000 |"  # only 400 is in the last quarter
    assert lines[4] == "| x-s3 | – | – | – | – |"
    assert lines[5].startswith("| **x, mean of 2** | | **0.700**")


def test_seeds_of_a_group_share_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [a_run(tmp_path / name, [0.1, 0.5, 0.9]) for name in ("ours-s1", "ours-s12", "theirs-seed3", "odd")]
    assert [read_seed(run)[0] for run in runs] == ["ours", "ours", "theirs", "odd"]
    assert read_seed(runs[1])[1].seed == 12
    picture = tmp_path / "out" / "curves.svg"
    assert main(["hmasd", "curves", *map(str, runs), "-o", str(picture)]) == 0
    assert "| **ours, mean of 2** |" in capsys.readouterr().out
    text = picture.read_text()
    assert text.startswith("<?xml")
    again = tmp_path / "again.svg"
    assert main(["hmasd", "curves", *map(str, runs), "-o", str(again)]) == 0
    assert again.read_text() == text


def test_what_cannot_be_drawn_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hmasd", "curves", str(tmp_path / "nothing")]) != 0
    assert "no run (no metrics.jsonl)" in capsys.readouterr().err
    run = a_run(tmp_path / "x-s1", [0.5])
    assert main(["hmasd", "curves", str(run), "--metric", "Eval/Nonsense", "-o", str(tmp_path / "x.png")]) != 0
    assert "no run has 'Eval/Nonsense'" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"must end in .svg or .png"):
        CurvesOptions(runs=(run,), output=tmp_path / "x.pdf")
