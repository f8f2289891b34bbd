"""The field: which expert agents there are, by the name people use for them, and where they live.

Names are resolved without importing scml; classes are imported only when asked for.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any

_STD_2024 = "scml_agents.scml2024.standard"
_STD_2025 = "scml_agents.scml2025.standard"
_SCML = "scml.std.agents"

TOP_2025: dict[str, str] = {
    "AS0": f"{_STD_2025}.team_atsunaga",
    "XenoSotaAgent": f"{_STD_2025}.team_253",
    "UltraSuperMiracleSoraFinalAgentZ": f"{_STD_2025}.team_254",
    "PriceTrendStdAgent": f"{_STD_2025}.team_280",
    "PonponAgent": f"{_STD_2025}.team_255",
    "KATSUDONAgent": f"{_STD_2025}.team_268",
    "LitaAgentYR": f"{_STD_2025}.team_276",
}
"""SCML 2025 Standard, best first."""

TOP_2024: dict[str, str] = {
    "PenguinAgent": f"{_STD_2024}.team_penguin",
    "CautiousStdAgent": f"{_STD_2024}.team_miyajima_std",
    "DogAgent": f"{_STD_2024}.team_181",
    "AX": f"{_STD_2024}.team_178",
    "QuickDecisionAgent": f"{_STD_2024}.teamyuzuru",
}
"""SCML 2024 Standard finalists, best first."""

BASELINES: dict[str, str] = {"RandomStdAgent": _SCML, "SyncRandomStdAgent": _SCML}

OWN: dict[str, str] = {"LitaAgentHRL": "echelon.hrl_xf.agent", "LitaAgentRules": "echelon.hrl_xf.agent"}
"""Ours: with learnt layers, and with rules alone. In no standard field; `--add` puts them into one."""

ROSTER: dict[str, str] = {**TOP_2025, **TOP_2024, **BASELINES, **OWN}


def field(max_top_2025: int, max_top_2024: int) -> list[str]:
    """Names of the standard field: the best of each year and the two random agents."""
    return [*list(TOP_2025)[:max_top_2025], *list(TOP_2024)[:max_top_2024], *BASELINES]


def check_names(names: list[str]) -> None:
    """Raise if a name is neither on the roster nor a full `module.Class` path."""
    for name in names:
        if name in ROSTER or "." in name:
            continue
        near = difflib.get_close_matches(name, ROSTER, n=3, cutoff=0.4) or sorted(ROSTER)
        raise ValueError(f"unknown agent {name!r}; did you mean {', '.join(near)}? (or give a full module.Class path)")


def agent_class(name: str) -> type[Any]:
    """The class behind a roster name or a full `module.Class` path."""
    check_names([name])
    module, cls = (ROSTER[name], name) if name in ROSTER else name.rsplit(".", 1)
    loaded: type[Any] = getattr(importlib.import_module(module), cls)
    return loaded
