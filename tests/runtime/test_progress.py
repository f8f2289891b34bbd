"""Progress: who is quiet still tells a logger; durations as people read them."""

from __future__ import annotations

import logging

import pytest

from echelon.runtime.progress import PROGRESS, WorkProgress, minutes


def test_a_quiet_progress_is_only_logged(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.DEBUG, logger=PROGRESS), WorkProgress("worlds", 2, quiet=True) as progress:
        progress.done()
        progress.failed()
    assert [line.split(",")[0] for line in caplog.messages] == ["1/2 worlds", "2/2 worlds"]
    assert "1 failed" in caplog.messages[1]
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_the_last_line_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    with WorkProgress("worlds", 3) as progress:
        for _ in range(3):
            progress.done()
    said = capsys.readouterr()
    assert said.err.startswith("3/3 worlds, ")
    assert (said.err.count("\n"), said.out) == (1, "")


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5400, "1.5 h")])
def test_durations(seconds: float, text: str) -> None:
    assert minutes(seconds) == text
