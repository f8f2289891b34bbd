"""`echelon report` as a user sees it: written by the command, opened in a real browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from echelon.doctor import BROWSERS
from echelon.options import ReportOptions
from echelon.reporting.command import run
from tests.reporting.examples import arena_results, with_log, write_arena, write_training

CHROMIUM = next((path for name in BROWSERS if (path := shutil.which(name))), None)
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0",
    "--virtual-time-budget=5000",
)  # fmt: skip


class Text(HTMLParser):
    """The text of one element."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.wanted, self.inside, self.text = wanted, False, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = ("id", self.wanted) in attrs

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        self.text += data if self.inside else ""


def text_of(dom: str, element: str) -> str:
    parser = Text(element)
    parser.feed(dom)
    return parser.text


def opened(page: Path, profile: Path, fragment: str = "") -> tuple[str, list[str]]:
    """The document after its scripts have run, and what was said on the console."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, *QUIET, f"--user-data-dir={profile}", "--dump-dom", page.resolve().as_uri() + fragment],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arena with logs to browse, and a training run, on one page."""
    base = tmp_path_factory.mktemp("report")
    first, *others = arena_results()
    arena = write_arena(base / "arena", [with_log(base / "arena", first), *others])
    training = write_training(base / "training", [300.0, 2.0, 1.0])
    assert run(ReportOptions(runs=(arena, training), output=base / "out" / "report.html")) == 0
    return base / "out" / "report.html"


def test_without_a_browser_the_tables_are_there_already(page: Path) -> None:
    text = page.read_text()
    assert text.count('class="sortable"') == 4
    assert "&lt;/script&gt;&lt;b&gt;Worst" in text  # an agent's label is text and nothing else
    assert "</script><b>" not in text
    assert len(text) < 5_000_000


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's `chromium` to test the page in it")
def test_in_a_browser_it_draws_sorts_and_complains_about_nothing(page: Path, tmp_path: Path) -> None:
    dom, console = opened(page, tmp_path, "#selftest")
    found: dict[str, Any] = json.loads(text_of(dom, "selftest"))
    assert found["errors"] == []
    assert console == []
    assert found["nonsense"] == 0
    for table, clicks in found["tables"].items():
        assert all(click["sorted"] for click in clicks), table
    scores = {(c["column"], c["direction"]): c["first"] for c in found["tables"]["run1-standings-table"]}
    assert scores[("truncated mean", -1)] == pytest.approx(1.3)
    assert scores[("truncated mean", 1)] == pytest.approx(0.7)
    assert scores[("competitor", 1)] == "</script><b>worst"
    blocks = found["blocks"]
    for block in ("standings", "levels", "paired", "days", "losses", "negotiations"):
        assert blocks[f"run1-{block}"]["plots"] > 0, block
    assert blocks["run1-negotiations"]["threads"] > 0
    assert blocks["run1-negotiations"]["turned"] > 5
    assert blocks["run2-curves"]["plots"] == 2


def test_nothing_is_written_where_there_is_nothing_to_show(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing is not a folder; give run folders"):
        run(ReportOptions(runs=(tmp_path / "nothing",), output=tmp_path / "report.html"))
    assert not (tmp_path / "report.html").exists()
