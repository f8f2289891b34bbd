"""The start of an agent of one's own: a folder with a class derived from LitaAgentHRL, a test and the next commands."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from echelon.hrl_xf.options.new_agent import Own, snake
from echelon.hrl_xf.submission import texts
from echelon.hrl_xf.weights import BUNDLED, STEMS, layer_in

STARTERS = Path(__file__).parent / "starters"
_PARTS = {
    "l2": ("`OwnGoals.goals_of_days`", "the day's goal (L2), what to buy and sell today"),
    "l3": ("`OwnAnswers.act`", "the answers to offers (L3), to accept, propose something else, or end"),
    "weights": ("`MyAgent.own_layers`", "the weights, in the folder `weights`"),
}


def starter_files(name: str, own: Own, layers: Path | None = None) -> dict[str, bytes]:
    """The files of a new agent by path; `layers` is the folder whose weights it begins with."""
    folder = snake(name)
    if importlib.util.find_spec(folder) is not None:
        raise ValueError(f"{name} would be the module {folder}, which exists already; choose another name")
    method, part = _PARTS[own]
    names = {"name": name, "folder": folder, "method": method.replace("MyAgent", name), "part": part}
    agent = (STARTERS / f"own_{own}.py").read_text(encoding="utf-8").replace("MyAgent", name)
    files = {
        "__init__.py": texts.filled(texts.STARTER_PACKAGE, names),
        "agent.py": agent,
        "test_agent.py": texts.filled(texts.STARTER_TEST, names),
        "README.md": texts.filled(texts.STARTER_README, names),
    }
    found = {f"{folder}/{path}": text.encode() for path, text in files.items()}
    if own == "weights":
        paths = [layer_in(layers or BUNDLED, layer) for layer in STEMS]
        found |= {f"{folder}/weights/{path.name}": path.read_bytes() for path in paths}
    return found


def next_commands(name: str) -> dict[str, str]:
    """What to do next, and the command for it."""
    names = {"name": name, "folder": snake(name)}
    return {what: texts.filled(command, names) for what, command in texts.STARTER_COMMANDS.items()}
