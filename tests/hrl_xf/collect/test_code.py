"""A collection knows the code that played it, and says when it is mixed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from echelon.hrl_xf.collect.code import FILE, agents_in, code_by_world, code_of, note_code
from echelon.hrl_xf.collect.plan import PlannedWorld
from echelon.hrl_xf.competitors.specs import AgentSpec, parse_agent

OLD, NEW = {"A": "1", "B": "1", "version of scml": "0.8"}, {"A": "2", "B": "1", "version of scml": "0.8"}
SPECS = [parse_agent("PenguinAgent"), parse_agent("LitaAgentRules"), parse_agent("scml.std.agents.GreedyStdAgent")]


def world(index: int, *types: str, labels: tuple[str, ...] = ()) -> PlannedWorld:
    config: dict[str, Any] = {"agent_types": list(types)}
    return PlannedWorld(index, f"w{index}", "c", 0, config, labels)


def states(folder: Path) -> Any:
    return json.loads((folder / FILE).read_text())["states"]


def test_the_code_of_each_world_is_that_of_its_agents() -> None:
    worlds = [world(0, "x.PenguinAgent", "scml.std.agents.GreedyStdAgent"), world(1, "y.LitaAgentRules")]
    code, found = code_of(SPECS), code_by_world(worlds, SPECS)
    versions = {name for name in code if name.startswith("version of ")}
    assert {"version of scml", "version of negmas", "version of echelon"} <= versions
    assert set(found[0]) - versions == {"PenguinAgent", "scml.std.agents.GreedyStdAgent"}
    assert set(found[1]) - versions == {"LitaAgentRules"}
    assert found[1]["LitaAgentRules"] == code["LitaAgentRules"]
    assert versions <= set(found[1])


def test_labels_name_the_agents_where_there_are_labels() -> None:
    twins = [AgentSpec("one", "m", "Same"), AgentSpec("two", "m", "Same")]
    assert agents_in(world(0, "m.Same", "m.Same", labels=("two", "")), twins) == (twins[1],)
    assert agents_in(world(0, "m.Same"), twins) == tuple(twins)


def test_one_state_of_the_code_gives_no_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    note_code(tmp_path, OLD, played=0)
    note_code(tmp_path, OLD, played=3)
    assert states(tmp_path) == [OLD]
    assert not caplog.messages


def test_changed_code_is_named_each_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    note_code(tmp_path, OLD, played=0)
    with caplog.at_level(logging.WARNING):
        note_code(tmp_path, NEW, played=3)
        note_code(tmp_path, NEW, played=5)
    assert states(tmp_path) == [OLD, NEW]
    assert ["(changed: A)" in message for message in caplog.messages] == [True, True]
    assert caplog.messages[1].startswith("5 worlds exist already")


def test_code_that_played_no_world_is_not_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    note_code(tmp_path, OLD, played=0)
    note_code(tmp_path, NEW, played=0)
    assert states(tmp_path) == [NEW]
    assert not caplog.messages


def test_worlds_of_an_earlier_echelon_are_of_unknown_code(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    note_code(tmp_path, NEW, played=2)
    assert states(tmp_path) == [{}, NEW]
    assert "an earlier Echelon did not record it" in caplog.text
