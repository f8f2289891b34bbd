"""Files are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from echelon.runtime.files import read_json, write_atomic, write_json


def test_a_file_is_replaced(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"old, and longer")
    write_atomic(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_a_value_that_is_not_json_changes_nothing(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"ü": [1, None]})
    for bad in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises(ValueError, match=r"a\.json: the value cannot be written as JSON"):
            write_json(tmp_path / "a.json", bad)
    assert read_json(tmp_path / "a.json") == {"ü": [1, None]}
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError):
        write_atomic(tmp_path / "a", b"a directory is in the way")
    assert os.listdir(tmp_path) == ["a"]


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": ')
    with pytest.raises(ValueError, match=r"a\.json is not whole JSON"):
        read_json(tmp_path / "a.json")
