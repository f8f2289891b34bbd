"""`LitaAgentHRL` in tournaments and worlds that scml sets up, runs and scores itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scml.std.agents import RandomStdAgent
from scml.utils import anac2024_std

from echelon.hrl_xf.agent import LitaAgentHRL


def test_it_plays_in_scmls_own_tournaments(tmp_path: Path) -> None:
    """By class, without arguments, in a tournament that scml and negmas set up, run and score."""
    results = anac2024_std(
        competitors=[LitaAgentHRL, RandomStdAgent], n_configs=1, n_steps=4, n_processes=2, min_factories_per_level=2,
        parallelism="serial", compact=True, tournament_path=str(tmp_path), print_exceptions=False,
    )  # fmt: skip
    ours_ = results.scores[results.scores.agent_type.str.contains("LitaAgentHRL")]
    assert len(ours_) > 1
    assert np.isfinite(ours_.score).all()
    assert results.world_stats.n_agent_exceptions.sum() == 0
    assert results.world_stats.n_negotiator_exceptions.sum() == 0


def scml_command(*arguments: str, folder: Path) -> str:
    """scml's command line in a process of its own; what it said."""
    code = "from scml.cli import main; main()"
    environment = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_scmls_command_line_runs_a_world_with_it(tmp_path: Path) -> None:
    """Given by its dotted name, which is how scml names agents; an exception would end the world."""
    (tmp_path / "s.json").write_text('{"n_processes": 2, "n_agents_per_process": 2}')
    said = scml_command(
        "run2024", "--std", "--compact", "--raise-exceptions", "--steps", "3", "--log", str(tmp_path),
        "--world-config", "s", "--competitors", "echelon.hrl_xf.agent.LitaAgentHRL", folder=tmp_path,
    )  # fmt: skip  # scml opens a file for each letter of the name: one letter is one file
    assert "LHR@" in said, "the agent's initials in the table of balances"
    assert "Negotiated Contracts" in said, "the summary of a world that was played to its end"


@pytest.mark.slow
def test_scmls_command_line_runs_a_tournament_with_it(tmp_path: Path) -> None:
    said = scml_command(
        "tournament2024", "--ttype", "std", "--serial", "--raise-exceptions", "--steps", "6", "--configs", "2",
        "--runs", "2", "--log", str(tmp_path),
        "--competitors", "echelon.hrl_xf.agent.LitaAgentHRL;RandomStdAgent;SyncRandomStdAgent", folder=tmp_path,
    )  # fmt: skip
    assert "LitaAgentHRL" in said
