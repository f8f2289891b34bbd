"""The arrangement of the code: packages are folders, not modules."""

from __future__ import annotations

import ast
from pathlib import Path

import echelon

WITH_CODE = {"echelon", "weights"}
"""Named by what they hold: the version, and the bundled files."""


def test_packages_hold_no_code_but_say_what_they_are() -> None:
    """What an agent runs is found by following imports of modules; code in a package would be run and not counted."""
    for path in Path(echelon.__file__).parent.rglob("__init__.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), f"{path} does not say what the folder is"
        if path.parent.name not in WITH_CODE:
            assert len(tree.body) == 1, f"{path} holds code; put it into a module"
