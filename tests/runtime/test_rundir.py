"""Run directories: the same options continue, others are shown."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from echelon.runtime.rundir import OptionsDiffer, diff_options, open_run


def test_a_run_explains_itself_and_continues(tmp_path: Path) -> None:
    config = {"lr": 0.1, "layers": (64, 64), "env": {"name": "uav1", "agents": 3}}
    run = open_run(tmp_path / "a" / "run", config)
    assert not run.resumed
    assert sorted(os.listdir(run.path)) == ["checkpoints", "config.json", "log.txt", "metrics.jsonl", "tb"]
    assert open_run(run.path, config).resumed


def test_changed_options_are_shown_one_by_one(tmp_path: Path) -> None:
    open_run(tmp_path / "run", {"lr": 0.1, "env": {"name": "uav1"}, "workers": 2, "gone": 1})
    with pytest.raises(OptionsDiffer) as caught:
        open_run(
            tmp_path / "run", {"lr": 0.2, "env": {"name": "uav2"}, "workers": 8, "new": None}, may_change=["workers"]
        )
    assert caught.value.differences == [
        "lr: 0.1 → 0.2",
        'env.name: "uav1" → "uav2"',
        "gone: 1 → (not set)",
        "new: (not set) → null",
    ]
    assert "lr: 0.1 → 0.2" in str(caught.value)
    with pytest.raises(ValueError, match="are not options of this run: wrokers"):
        open_run(tmp_path / "run", {"lr": 0.1}, may_change=["wrokers"])


def test_differences_are_those_of_json() -> None:
    assert diff_options({"a": (1, 2), "b": {}}, {"b": {}, "a": [1, 2]}) == []
    assert diff_options({"a": 1}, {"a": True}) == ["a: 1 → true"]
    assert diff_options({"a": {"b": 1}}, {"a": 2}) == ["a.b: 1 → (not set)", "a: (not set) → 2"]


def test_a_run_killed_at_its_start_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "tb").mkdir()
    (tmp_path / ".tmp-config.json-1234").touch()
    assert not open_run(tmp_path, {"a": 1}).resumed


def test_foreign_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match=r"is not a run \(thesis\.tex\)"):
        open_run(tmp_path, {})
    assert os.listdir(tmp_path) == ["thesis.tex"]
    (tmp_path / "config.json").write_text('{"format_version": 2, "options": {}}')
    with pytest.raises(ValueError, match="format_version 2, this echelon reads 1"):
        open_run(tmp_path, {})
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="contains no options"):
        open_run(tmp_path, {})


def test_the_log_goes_to_the_run(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", {})
    logger = logging.getLogger("echelon.somewhere")
    with run.logging():
        logger.info("inside")
    logger.info("outside")
    assert "INFO inside" in (run.path / "log.txt").read_text()
    assert "outside" not in (run.path / "log.txt").read_text()


def test_an_option_that_an_older_version_did_not_have_had_its_default(tmp_path: Path) -> None:
    open_run(tmp_path, {"seed": 1, "config": {"lr": 1.0}})
    defaults = {"config": {"lr": 5.0, "discount": "per_step"}}
    now = {"seed": 1, "config": {"lr": 1.0, "discount": "per_step"}}
    assert open_run(tmp_path, now, defaults=defaults).resumed
    with pytest.raises(OptionsDiffer, match=r'config.discount: "per_step" → "other"'):
        open_run(tmp_path, {"seed": 1, "config": {"lr": 1.0, "discount": "other"}}, defaults=defaults)
    with pytest.raises(OptionsDiffer, match=r"config.discount: \(not set\)"):
        open_run(tmp_path, now)
