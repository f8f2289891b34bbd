"""A layer that fails is counted, and shown wherever our agent plays."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from scml.std import SCML2024StdWorld

from echelon.hrl_xf.agent import LitaAgentHRL, LitaAgentRules
from echelon.hrl_xf.collect.world import read_result
from echelon.hrl_xf.commands import collect, compete
from echelon.hrl_xf.options.collect import CollectOptions
from echelon.hrl_xf.options.compete import CompeteOptions
from tests.hrl_xf.play.agent_cases import ours, play


class WornOut:
    """An L3 that raises."""

    def act(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("the layer is broken")


class FaultyAgent(LitaAgentHRL):
    """Falls back every day on which it is asked something."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, l2="heuristic", l3=WornOut(), l4="heuristic", **kwargs)


FAULTY = f"faulty={__name__}:FaultyAgent"


def arena(folder: Path, **changes: Any) -> CompeteOptions:
    return CompeteOptions(
        agent=(FAULTY,), against="RandomStdAgent", worlds=2, steps=5, seed=3, output_dir=folder, parallelism="serial",
        resamples=50, **changes,
    )  # fmt: skip


def test_in_scml_s_own_worlds_by_a_warning_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "echelon"):
        world = play([FaultyAgent, LitaAgentRules], n_steps=4, levels=2, per_level=2, cls=SCML2024StdWorld)
    last = [record.message for record in caplog.records if "in this world" in record.message]
    faulty = [agent for agent in ours(world) if isinstance(agent, FaultyAgent)]
    assert last == [
        f"{agent.id}: its layers failed {agent.fallbacks} times in this world, and the rules played instead; "
        "0 times there was no answer"
        for agent in faulty
    ]
    assert all(agent.fallbacks for agent in faulty)


def test_in_a_collection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = CollectOptions(
        configs=1, runs=1, max_top_2025=0, max_top_2024=0, add=(f"{__name__}:FaultyAgent",), steps=5,
        output_dir=tmp_path, parallelism="serial", foreground=True, auto_collect=False,
    )  # fmt: skip
    with caplog.at_level(logging.INFO, "echelon"):
        assert collect.run(options) == 0
    results = [read_result(path) for path in sorted((tmp_path / "worlds").glob("[0-9]*.json"))]
    total = sum(sum(result.fallbacks.values()) for result in results)
    assert total > 0
    assert f"FaultyAgent: a layer failed {total} times, and the rules played instead" in caplog.text


def test_in_an_official_tournament(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "echelon"):
        assert compete.run(arena(tmp_path, official=True)) == 0
    assert "faulty: a layer failed" in caplog.text


def test_in_the_arena_in_the_field_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "echelon"):
        assert compete.run(arena(tmp_path, field=f"{__name__}:FaultyAgent,SyncRandomStdAgent")) == 0
    assert "faulty: a layer failed" in caplog.text
    assert "in the field a layer of our agents failed" in caplog.text
