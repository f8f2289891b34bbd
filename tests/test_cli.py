"""Help teaches, starts fast and loads nothing heavy; wrong use gets one clear message."""

from __future__ import annotations

import subprocess
import sys

import pytest

from echelon.cli import COMMANDS, load, main

HEAVY = ("torch", "scml", "negmas", "numpy", "pandas", "dask", "loky")


@pytest.mark.parametrize("words", [(), ("hrl",), *[c.words for c in COMMANDS]], ids=" ".join)
def test_help_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom echelon.cli import main\n"
        f"try:\n    main({[*words, '--help']!r})\nexcept SystemExit:\n    pass\n"
        f"print('HEAVY', sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "HEAVY []" in out
    assert "usage: echelon" in out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c.words))
def test_every_command_of_the_table_can_be_loaded(command: object) -> None:
    assert isinstance(command, type(COMMANDS[0]))
    assert callable(load(command.run))
    assert load(command.options).__doc__


def test_every_option_of_the_runbook_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["hrl", "collect", "--help"])
    text = capsys.readouterr().out
    names = (
        "configs runs max-top-2025 max-top-2024 n-competitors-per-world max-worlds-per-config target-worlds "
        "round-robin no-round-robin steps track-only-penguin track no-csv resumable output-dir parallelism foreground "
        "no-auto-collect quiet seed world-timeout compress fail-fast"
    )
    missing = [name for name in names.split() if f"--{name}" not in text]
    assert not missing
    assert "-q" in text


def test_the_overview_names_both_systems(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    assert text.index("HRL-XF") < text.index("HMASD") < text.index("hrl collect") < text.index("hmasd train")
    assert all(" ".join(command.words) in text for command in COMMANDS)


def test_a_wrong_command_names_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hrl", "colect"]) == 2
    assert "did you mean `echelon hrl collect`?" in capsys.readouterr().err
