"""Play needs numpy, scml and negmas: a world without the rest is the same world."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("bare_world.py")
SOURCES = Path(__file__).parents[2] / "src"
ABSENT = ("torch", "msgspec", "safetensors", "tyro", "loky", "pettingzoo", "filelock", "jinja2", "tensorboard", "dask")
"""What else the package depends on, less what scml and negmas import themselves."""


def bare_world(agent: str, *names: str, steps: int = 4, path: Path = SOURCES) -> dict[str, Any]:
    """What a world played by `bare_world.py` came to, in a process that looks for modules in `path` first."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", str(PROGRAM), agent, str(steps), *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.timeout(600)
def test_a_world_is_the_same_where_only_numpy_scml_and_negmas_are() -> None:
    agent = "echelon.hrl_xf.agent:LitaAgentHRL"
    bare, full = bare_world(agent, *ABSENT), bare_world(agent, *(f"+{name}" for name in ABSENT[:5]))
    assert bare["failures"] == 0, "the learnt layers played"
    assert bare["seats"] > 2
    assert bare["signed"] > 5
    assert bare == full
