"""`echelon report`: one page of one run or several; wrong folders are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.options import ReportOptions
from echelon.report import run
from echelon.runtime.metrics import MetricsWriter


def a_run(folder: Path, losses: list[float]) -> Path:
    folder.mkdir()
    with MetricsWriter(folder, tensorboard=False) as metrics:
        for epoch, loss in enumerate(losses, start=1):
            metrics.record("l2_bc/train_loss", loss, epoch)
            metrics.record("l2_bc/val_loss", loss + 0.5, epoch)
            metrics.record("l2_bc/samples_per_s", 1000.0, epoch)
            metrics.record("l2_bc/seconds", 1.0, epoch)
    return folder


def test_two_runs_stand_on_one_page(tmp_path: Path) -> None:
    first, second = a_run(tmp_path / "first", [2.0, 1.0]), a_run(tmp_path / "second", [3.0, 2.5])
    page = tmp_path / "report.html"
    assert run(ReportOptions(runs=(first, second), output=page)) == 0
    text = page.read_text()
    assert "Training first" in text
    assert "Training second" in text
    assert text.count("<svg") == 2 * text.count("<svg", 0, text.index("Training second</h1>"))
    assert "http://" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ), "the page opens offline"


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no run .* in .*nothing; give folders"):
        run(ReportOptions(runs=(tmp_path / "nothing",), output=tmp_path / "report.html"))
    assert not (tmp_path / "report.html").exists()
