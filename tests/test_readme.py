"""The README in both languages: the same commands in the same order, and links that lead somewhere; the files that the
architecture names.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"


def code_of(page: Path) -> list[str]:
    """Lines of code without their comments."""
    blocks = re.findall(r"```\w+\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [re.sub(r"\s+#.*$|^#.*$", "", line).rstrip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def test_both_languages_show_the_same_commands() -> None:
    assert code_of(CHINESE) == code_of(ENGLISH)
    assert len(code_of(ENGLISH)) > 10


@pytest.mark.parametrize("page", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_links_lead_to_files_that_exist(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")) if "://" not in link]
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_headings_are_as_many_in_both_languages() -> None:
    counts = [len(re.findall(r"^## ", page.read_text(encoding="utf-8"), re.MULTILINE)) for page in (ENGLISH, CHINESE)]
    assert counts[0] == counts[1] > 5


def test_every_file_that_the_architecture_names_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:hrl_xf|hmasd|onpolicy|envs|runtime)/[\w/]+\.py)`", page)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / "src" / "echelon" / path).exists()] == []
