"""A bench on the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from echelon.hmasd.bench.results import BenchResults, Curve, Line, Overall
from echelon.options import ReportOptions
from echelon.reporting.bench import bench
from echelon.reporting.command import run
from echelon.runtime.statistics import Interval
from tests.reporting.test_command import CHROMIUM, opened, text_of


def line(env: str, label: str, value: float, **changes: Any) -> Line:
    curve = Curve([500, 1000], [0.0, value], [-0.1, value - 0.1], [0.1, value + 0.1])
    seeds, scores = [1, 2], [value - 0.2, value + 0.2]
    score = Interval(value, value - 0.1, value + 0.1)
    plain = Line(env, label, "Eval/MeanReward", seeds, scores, [], score, value, -3.0, 1000, 1.5, curve)
    return msgspec.convert({**msgspec.to_builtins(plain), **changes}, Line)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [
        line("alice", "hmasd", 0.9, metric="Eval/SuccessRate"),
        line("alice", "<b>mappo", 0.5, metric="Eval/SuccessRate", unfinished=[3]),
        line("spread", "hmasd", 40.0),
        line("spread", "<b>mappo", 40.1),
    ]
    nothing = line("spread", "ippo", 0.0, seeds=[], scores=[], unfinished=[1], score=None, mean=None, minutes=None,
                   curve={"steps": [], "value": [], "low": [], "high": []})  # fmt: skip
    overall = [Overall("hmasd", ["alice", "spread"], Interval(0.8, 0.7, 0.9))]
    results = BenchResults(1, 2000, [*lines, nothing], overall)
    (tmp_path / "results.json").write_bytes(msgspec.json.encode(results))
    (tmp_path / "bench.json").write_text(json.dumps({"format_version": 1, "kind": "bench", "runs": [{}] * 10}))
    return tmp_path


def test_what_the_page_says(folder: Path) -> None:
    content = bench(folder)
    assert dict(content["facts"])["runs"] == "8 of 10 finished"
    assert content["verdicts"] == [
        "alice: hmasd is highest, 0.900 [0.800, 1.000]. No other interval reaches its.",
        "spread: <b>mappo is highest, 40.100 [40.000, 40.200]. Its interval overlaps that of hmasd.",
    ]
    scores, seeds, overall = content["tables"]
    assert [row[2].text for row in scores.rows] == [
        "0.900 [0.800, 1.000]", "0.500 [0.400, 0.600]", "40.000 [39.900, 40.100]", "40.100 [40.000, 40.200]", "–",
    ]  # fmt: skip
    assert [row[6].text for row in scores.rows] == ["–", "–", "−3.000", "−3.000", "−3.000"]
    assert list(scores.marked) == [True, False, False, True, False]
    assert scores.rows[1][7].text == "2 of 3"
    assert len(seeds.rows) == 10
    assert overall.rows[0][1].text == "0.800 [0.700, 0.900]"
    (part,) = content["parts"]
    assert [plot["title"] for plot in part["plots"]] == ["alice: Eval/SuccessRate", "spread: Eval/MeanReward"]
    drawn = part["plots"][1]["series"]
    assert [(s["name"], s["colour"]) for s in drawn] == [("hmasd", 0), ("<b>mappo", 1)]
    assert (drawn[0]["low"], drawn[0]["high"]) == ([-0.1, 39.9], [0.1, 40.1])


def test_a_bench_without_results_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text(json.dumps({"format_version": 1, "kind": "bench", "runs": []}))
    with pytest.raises(ValueError, match=r"is not a run with results.*a bench \(`echelon hmasd bench`\)"):
        run(ReportOptions(runs=(tmp_path,), output=tmp_path / "report.html"))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's `chromium` to test the page in it")
def test_in_a_browser_its_curves_are_drawn(folder: Path, tmp_path: Path) -> None:
    page = folder / "report.html"
    assert run(ReportOptions(runs=(folder,), output=page)) == 0
    dom, console = opened(page, tmp_path / "profile", "#selftest")
    found: dict[str, Any] = json.loads(text_of(dom, "selftest"))
    assert found["errors"] == console == []
    assert found["nonsense"] == 0
    assert found["blocks"]["run1-curves"]["plots"] == 2
    assert all(click["sorted"] for clicks in found["tables"].values() for click in clicks)
