"""The digest of an agent's code: what changes it and what does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from echelon.hrl_xf.competitors import agent_code
from echelon.hrl_xf.competitors.agent_code import OtherCodeError, check_loaded, codes_of, module_files
from echelon.hrl_xf.competitors.specs import parse_agent

MINE = (
    "from scml.std.agents import RandomStdAgent\nfrom helper import x\n\n\nclass MyAgent(RandomStdAgent):\n    pass\n"
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an agent, a module it imports and one it does not."""
    (tmp_path / "code_agent.py").write_text(MINE)
    (tmp_path / "helper.py").write_text("x = 1\n")
    (tmp_path / "stranger.py").write_text("y = 1\n")
    package = tmp_path / "code_package"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import MyAgent\n")
    (package / "inner.py").write_text("from code_agent import MyAgent\nfrom . import deeper\n")
    (package / "deeper.py").write_text("")
    (package / "weights.bin").write_bytes(b"1")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def code(text: str) -> str:
    return codes_of([parse_agent(f"x={text}")])["x"]


def test_the_digest_of_a_file_includes_what_it_imports_from_its_folder(here: Path) -> None:
    assert set(module_files("code_agent")) == {"code_agent", "helper"}
    first = code("code_agent:MyAgent")
    assert code("code_agent:MyAgent") == first
    (here / "stranger.py").write_text("y = 2\n")
    assert code("code_agent:MyAgent") == first
    (here / "helper.py").write_text("x = 2\n")
    second = code("code_agent:MyAgent")
    assert second != first
    (here / "code_agent.py").write_text(MINE.replace("pass", "greed = 2"))
    assert code("code_agent:MyAgent") not in (first, second)


def test_the_digest_of_a_package_includes_its_folder(here: Path) -> None:
    files = set(module_files("code_package"))
    assert {"code_package.inner", "code_package.deeper", "code_agent", "helper", "code_package/weights.bin"} <= files
    first = code("code_package:MyAgent")
    (here / "code_package" / "weights.bin").write_bytes(b"2")
    assert code("code_package:MyAgent") != first


def test_installed_agents_count_with_their_own_package_alone() -> None:
    files = module_files(parse_agent("PenguinAgent").module)
    assert len(files) > 1
    assert all(name.startswith("scml_agents.scml2024.standard.team_penguin") for name in files)
    assert module_files("scml.std.agents") == {}, "scml is its version"


def test_our_own_code_is_what_importing_the_agent_loads() -> None:
    """Found by following imports, so it does not depend on how files are arranged."""
    script = (
        "import sys, echelon.hrl_xf.agent\n"
        "print(*sorted(m for m, v in sys.modules.items() if m.startswith('echelon') and not hasattr(v, '__path__')))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    deciding = {m for m in loaded if m.count(".") > 1 and not m.startswith("echelon.runtime")}
    found = set(module_files("echelon.hrl_xf.agent"))
    assert deciding <= found
    assert not any(name.startswith(("echelon.runtime", "echelon.cli", "echelon.reporting")) for name in found)
    assert "echelon.hrl_xf.commands.compete" not in found, "the arena is not the agent"


def test_one_of_ours_by_another_name_counts_with_our_code_and_weights(
    here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (here / "code_mine.py").write_text(
        "from echelon.hrl_xf.agent import LitaAgentHRL\nclass Mine(LitaAgentHRL): pass\n"
    )
    assert "echelon.hrl_xf.state.l1_safety" in module_files("code_mine")
    first = code("code_mine:Mine")
    other = tmp_path / "weights"
    other.mkdir()
    (other / "l2_bc.safetensors").write_bytes(b"other")
    monkeypatch.setattr(agent_code, "BUNDLED", other)
    assert code("code_mine:Mine") != first


def test_a_shield_is_code_too_and_arguments_are_part_of_it() -> None:
    codes = [code(text) for text in ("PenguinAgent", "shielded(PenguinAgent)", "LitaAgentHRL", "LitaAgentHRL:l3=l1")]
    assert len(set(codes)) == 4


def test_a_process_that_has_loaded_older_code_refuses_to_play(here: Path) -> None:
    spec = parse_agent("x=code_agent:MyAgent")
    before = codes_of([spec])
    check_loaded([spec], before)
    (here / "helper.py").write_text("x = 3\n")
    after = codes_of([spec])
    assert after != before
    with pytest.raises(OtherCodeError, match=r"other code of x .* start the workers and the command again"):
        check_loaded([spec], after)
    check_loaded([spec], before)
