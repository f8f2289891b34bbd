"""Which folders are runs, which are folders of runs, and what is said about those that are neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.reporting.runs import find_runs, kind_of
from tests.reporting.examples import arena_results, write_arena, write_training


def test_a_folder_of_runs_stands_for_its_runs_each_once(tmp_path: Path) -> None:
    arena = write_arena(tmp_path / "all" / "arena", arena_results())
    write_training(tmp_path / "all" / "training", [1.0])
    (tmp_path / "all" / "empty").mkdir()
    found = find_runs([arena, tmp_path / "all"])
    assert [(run.kind, run.name) for run in found] == [("arena", "arena"), ("training", "training")]


def test_runs_of_one_name_get_different_names(tmp_path: Path) -> None:
    runs = [write_training(tmp_path / parent / "run", [1.0]) for parent in ("a", "b")]
    assert [run.name for run in find_runs(runs)] == ["a/run", "b/run"]


def test_what_is_no_run_is_named_with_the_cure(tmp_path: Path) -> None:
    write_training(tmp_path / "good", [1.0])
    with pytest.raises(ValueError, match=r"lost is not a folder; give run folders: an arena"):
        find_runs([tmp_path / "good", tmp_path / "lost"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty is not a run with results and contains none; give an arena"):
        find_runs([tmp_path / "empty"])


def test_a_run_that_has_nothing_to_show_yet_is_none(tmp_path: Path) -> None:
    arena = write_arena(tmp_path / "arena", [])
    assert kind_of(arena) is None
    training = write_training(tmp_path / "training", [])
    assert kind_of(training) is None
