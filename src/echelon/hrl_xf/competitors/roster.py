"""The field: which expert agents there are, by the name people use for them, and where they live.

Names are resolved without importing scml; classes are imported only when asked for.

Agent classes that are made from other ones while the program runs have names that any process can turn back into
classes. `ShieldedPenguinAgent` is PenguinAgent with a prefix; a class that is not on the roster carries its module in
its name, as hex digits: negmas reshapes names as it imports them (underscores go, letters after them become large).
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any

_FROM = "From"

_STD_2024 = "scml_agents.scml2024.standard"
_STD_2025 = "scml_agents.scml2025.standard"
_STD_2026 = "scml_agents.scml2026.standard"
_SCML = "scml.std.agents"

TOP_2026: dict[str, str] = {
    "SBD": f"{_STD_2026}.team_21650.sbd_agent",
    "Rohn": f"{_STD_2026}.team_21695.rohn",
    "TakaLinkAgent": f"{_STD_2026}.team_21282.taka_link_agent",
    "HorizonAwareAgent": f"{_STD_2026}.team_21653.horizon_aware_agent",
    "COW": f"{_STD_2026}.team_21303.cow",
    "Std": f"{_STD_2026}.team_21800.hi.std",
    "OkAgent": f"{_STD_2026}.team_20941.okagent",
    "BalancedGreedyStdAgent": f"{_STD_2026}.team_20964.balanced_greedy.balanced_greedy_std_agent",
    "ArionAgent": f"{_STD_2026}.team_21021.arion_strategists.arion_agent",
    "EmSel": f"{_STD_2026}.team_21084.emsel",
    "ShimijimiShijimi": f"{_STD_2026}.team_21127.strategy",
    "AgeAgeAgent": f"{_STD_2026}.team_21165.age_age_agent.age_age_agent",
    "Agent01StdAgent": f"{_STD_2026}.team_21195.agent01std.core.agent",
    "GS3": f"{_STD_2026}.team_21201.gs3_4_submit",
    "SugaiAgent": f"{_STD_2026}.team_21313.sugai_agent.sugai_agent",
    "Group4": f"{_STD_2026}.team_21559.group4",
    "SuperimagentZ": f"{_STD_2026}.team_21683.agent_v2",
    "KotaAgent": f"{_STD_2026}.team_21747.kotaagent.kotaagent",
    "StdOmegaNegotiator": f"{_STD_2026}.team_21803.std_agent.entry",
    "SupmerkosV3": f"{_STD_2026}.team_22272.supmerkos_v3",
}
"""SCML 2026 Standard: the six finalists in the order of our arena (their ranking is not known), then the others."""

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

FINALISTS: dict[str, str] = {
    **dict(list(TOP_2026.items())[:6]),
    **dict(list(TOP_2025.items())[:4]),
    **TOP_2024,
}
"""Those who reached the finals of 2026, 2025 and 2024."""

BASELINES: dict[str, str] = {"RandomStdAgent": _SCML, "SyncRandomStdAgent": _SCML}

FILL_UPS: dict[str, str] = {"GreedyStdAgent": _SCML, **BASELINES}
"""scml's default agents: they hold the seats of a league world that no competitor has."""

OWN: dict[str, str] = {"LitaAgentHRL": "echelon.hrl_xf.agent", "LitaAgentRules": "echelon.hrl_xf.agent"}
"""Ours: with learnt layers, and with rules alone. In no standard field; `--add-agents` puts them into one."""

ROSTER: dict[str, str] = {**TOP_2026, **TOP_2025, **TOP_2024, **FILL_UPS, **OWN}


def best(max_top_2026: int, max_top_2025: int, max_top_2024: int) -> list[str]:
    """Names of the best of each year."""
    return [*list(TOP_2026)[:max_top_2026], *list(TOP_2025)[:max_top_2025], *list(TOP_2024)[:max_top_2024]]


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


def derived_name(prefix: str, cls: type[Any]) -> str:
    """The name of the class made from `cls`."""
    name = cls.__name__
    known = name in ROSTER and agent_class(name) is cls
    return prefix + name if known else prefix + name + _FROM + cls.__module__.encode().hex()


def base_of(prefix: str, name: str, module: str) -> type[Any]:
    """The class a derived one is named after; `module` is where the name is looked for.

    Raises AttributeError, as a module's `__getattr__` must, where the name is not one of a derived class.
    """
    path = name.removeprefix(prefix)
    reason = ""
    if path != name:
        if path in ROSTER:
            return agent_class(path)
        cls, _, encoded = path.rpartition(_FROM)
        try:
            found: type[Any] = getattr(importlib.import_module(bytes.fromhex(encoded).decode()), cls)
        except (ValueError, ImportError) as error:
            reason = f": {error}"
        else:
            return found
    raise AttributeError(f"module {module!r} has no attribute {name!r}{reason}")
