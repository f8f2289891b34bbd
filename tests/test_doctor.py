"""`echelon doctor` as a newcomer runs it."""

from __future__ import annotations

import logging

import pytest

from echelon import doctor
from echelon.hrl_xf.competitors import roster
from echelon.options import DoctorOptions


def test_doctor_finds_this_installation_sound(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="echelon"):
        code = doctor.run(DoctorOptions())
    assert code == 0, caplog.text
    for name in ("serial", "loky", "parallel", "dask", *roster.ROSTER):
        assert f"ok    executor {name} works" in caplog.text or f"ok    agent {name} " in caplog.text
    assert "1 thread per worker" in caplog.text


def test_doctor_names_the_cure(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(roster.ROSTER, "LostAgent", "no_such_package")
    monkeypatch.setattr(doctor, "executors", lambda: iter(()))
    with caplog.at_level(logging.INFO, logger="echelon"):
        code = doctor.run(DoctorOptions())
    assert code == 1
    assert "WRONG agent LostAgent does not import" in caplog.text
    assert "fix: pip install --no-deps scml-agents==0.5.2" in caplog.text
