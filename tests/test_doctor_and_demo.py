"""`echelon doctor` and `echelon demo` as a newcomer runs them."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from echelon import doctor
from echelon.hrl_xf import roster
from echelon.options import DoctorOptions


def test_doctor_finds_this_installation_sound(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="echelon"):
        code = doctor.run(DoctorOptions())
    assert code == 0, caplog.text
    for name in ("serial", "loky", "parallel", "dask", *roster.ROSTER):
        assert f"ok    executor {name} works" in caplog.text or f"ok    agent {name} " in caplog.text
    assert "1 thread a worker" in caplog.text


def test_doctor_names_the_cure(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(roster.ROSTER, "LostAgent", "no_such_package")
    monkeypatch.setattr(doctor, "executors", lambda: iter(()))
    with caplog.at_level(logging.INFO, logger="echelon"):
        code = doctor.run(DoctorOptions())
    assert code == 1
    assert "WRONG agent LostAgent does not import" in caplog.text
    assert "cure: pip install --no-deps scml-agents==0.5.2" in caplog.text


def test_the_demo_runs_and_runs_again(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "echelon.cli", "demo", "--output-dir", "demo", "--steps", "5"]
    first = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert first.returncode == 0, first.stderr
    assert "18 of 18 worlds" in first.stdout
    assert "PenguinAgent: 18 worlds of 3 configurations" in first.stdout
    assert (tmp_path / "demo" / "dataset" / "dataset.html").stat().st_size > 10_000
    again = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert "0 worlds to play (18 of 18 are there already)" in again.stdout
