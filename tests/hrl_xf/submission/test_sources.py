"""Which files an agent needs, and how they come to import each other relatively."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from echelon.hrl_xf.submission.sources import ExportError, relative_source, sources_of

FILES = {
    "trader/__init__.py": "from .agent import Trader\n",
    "trader/agent.py": (
        "from __future__ import annotations\n"
        "import numpy as np\n"
        "from typing import TYPE_CHECKING\n"
        "from trader.rules.prices import (\n    price,\n)\n"
        "from trader import sizes\n"
        "import beside\n"
        "from echelon.runtime import seeding\n"
        "if TYPE_CHECKING:\n    from trader.never import Thing\n"
        "class Trader:\n"
        "    def price(self):\n        from trader.later import more\n        return price() + more\n"
    ),
    "trader/rules/__init__.py": "",
    "trader/rules/prices.py": "from ..sizes import SIZE\n\n\ndef price():\n    return SIZE\n",
    "trader/sizes.py": "SIZE = 5\n",
    "trader/later.py": "more = 2\n",
    "trader/never.py": "import nowhere\n",
    "trader/unused.py": "import nothing\n",
    "beside.py": "import json\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        path = tmp_path / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "here")
    yield tmp_path / "here"
    for name in [n for n in sys.modules if n.partition(".")[0] in ("trader", "beside", "moved")]:
        del sys.modules[name]


def test_imports_are_followed_in_own_files_and_beside_them(folder: Path) -> None:
    found = sources_of("trader")
    own = {name for name in found.files if not name.startswith("echelon")}
    assert own == {
        "trader", "trader.agent", "trader.rules", "trader.rules.prices", "trader.sizes", "trader.later", "beside",
    }  # fmt: skip
    assert set(found.files) - own == {"echelon", "echelon.runtime", "echelon.runtime.seeding"}
    assert found.outside == {"numpy"}
    assert found.tops == {"trader", "beside", "echelon"}


def test_what_was_moved_works_under_any_name(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sources_of("trader.agent")
    for name, path in found.files.items():
        place = tmp_path / "moved" / "deep" / path.relative_to(folder) if path.is_relative_to(folder) else None
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(relative_source(name, path, found.tops - {"echelon"}))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(p for p in sys.path if p != str(folder))])
    moved = importlib.import_module("moved.deep.trader.agent")
    assert moved.Trader().price() == 7
    assert moved.beside.__name__ == "moved.deep.beside"


def test_of_echelon_only_what_play_needs_is_taken() -> None:
    found = sources_of("echelon.hrl_xf.agent")
    assert {"echelon.hrl_xf.play.day", "echelon.hrl_xf.layers.l3_play", "echelon.runtime.seeding"} <= set(found.files)
    assert found.outside == {"numpy", "negmas", "scml"}
    assert not {name for name in found.files if name.startswith(("echelon.onpolicy", "echelon.hrl_xf.dataset"))}
    assert "echelon.hrl_xf.state.state_dict" not in found.files, "imported inside a function"


@pytest.mark.parametrize("text", ["import trader.rules.prices\n", "import trader, beside\n"])
def test_an_import_that_cannot_be_made_relative_is_named_with_the_cure(folder: Path, text: str) -> None:
    path = folder / "trader" / "agent.py"
    path.write_text("import json\n" + text)
    with pytest.raises(ExportError, match=r"agent\.py, line 2: `import trader.*write `from trader.* import …`"):
        relative_source("trader.agent", path, frozenset({"trader", "beside"}))


def test_a_missing_module_is_named(folder: Path) -> None:
    with pytest.raises(ExportError, match="no module nobody here; run the command in the folder"):
        sources_of("nobody")
    with pytest.raises(ExportError, match=r"no source file of trader\.missing"):
        sources_of("trader.missing")
