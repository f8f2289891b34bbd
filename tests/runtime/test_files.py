"""Files are whole or not there."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from echelon.runtime.files import LockedError, locked, read_json, write_atomic, write_json


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
    with pytest.raises(ValueError, match=r"a\.json is not complete JSON"):
        read_json(tmp_path / "a.json")


HOLDS = """
import sys, time
from pathlib import Path
from echelon.runtime.files import locked
with locked(Path(sys.argv[1]), waiting=None):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_names_its_holder_and_is_free_when_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        for _ in range(2):  # asking changes nothing
            with pytest.raises(LockedError, match=rf"\.lock is locked by another process \(pid {holder.pid}\)"):
                locked(path, waiting=None).__enter__()
        holder.kill()
        holder.wait()
        with locked(path, waiting=None):
            pass
    assert not (tmp_path / ".lock.pid").exists()


def test_who_waits_for_a_lock_says_so_and_gets_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    order: list[str] = []

    def second() -> None:
        with caplog.at_level(logging.INFO, "echelon"), locked(tmp_path / ".lock", waiting="waiting for the first"):
            order.append("second")

    with locked(tmp_path / ".lock", waiting=None):
        thread = threading.Thread(target=second)
        thread.start()
        while "waiting for the first" not in caplog.text:
            time.sleep(0.01)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
