"""The code that plays a tournament: digests of its agents and versions of the packages, per world and per folder.

`code.json` of a collection lists the states of the code that have played in it, oldest first. A collection that is
resumed with changed code keeps its worlds, and says that it is mixed; each world's result has the code that played it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from echelon.hrl_xf.collect.plan import PlannedWorld
from echelon.hrl_xf.competitors.agent_code import codes_of, versions
from echelon.hrl_xf.competitors.specs import AgentSpec
from echelon.runtime.files import read_json, write_json

log = logging.getLogger(__name__)

FILE = "code.json"
FORMAT_VERSION = 1
Code = dict[str, str]
"""Digests by agent, and versions by `version of <package>`."""


def code_of(specs: Sequence[AgentSpec]) -> Code:
    """The code of these agents, by label, and of the packages they play in."""
    return codes_of(specs) | {f"version of {name}": number for name, number in versions().items()}


def agents_in(planned: PlannedWorld, specs: Sequence[AgentSpec]) -> tuple[AgentSpec, ...]:
    """Those of the agents that play in a world: by label where it has labels, by class otherwise."""
    if planned.labels:
        return tuple(spec for spec in specs if spec.label in planned.labels)
    return tuple(spec for spec in specs if spec.name in planned.agent_types)


def code_by_world(worlds: Sequence[PlannedWorld], specs: Sequence[AgentSpec]) -> dict[int, Code]:
    """By world: the code of the agents in it, and the versions."""
    code, labels = code_of(specs), {spec.label for spec in specs}
    absent = {w.index: labels - {spec.label for spec in agents_in(w, specs)} for w in worlds}
    return {index: {name: value for name, value in code.items() if name not in out} for index, out in absent.items()}


def note_code(folder: Path, now: Mapping[str, str], played: int) -> None:
    """Add a new state of the code to code.json, and warn if worlds of several states are in the folder.

    `played` is the number of worlds that exist already.
    """
    path = folder / FILE
    states: list[Code] = read_json(path)["states"] if path.exists() else [{}] if played else []
    if not played:
        states = []  # what never played a world does not matter
    if dict(now) not in states:
        write_json(path, {"format_version": FORMAT_VERSION, "states": [*states, dict(now)]})
    others = [state for state in states if state != dict(now)]
    if others:
        changed = sorted(name for name in now if any(state.get(name) != now[name] for state in others if state))
        log.warning(
            "%d worlds exist already, and not all were played by today's code (%s); they are kept. For a collection "
            "by one state of the code use another --output-dir",
            played, f"changed: {', '.join(changed)}" if changed else "an earlier Echelon did not record it",
        )  # fmt: skip
