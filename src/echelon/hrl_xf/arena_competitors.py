"""Who competes: the agents that a command line of `echelon hrl compete` names, checked before anything is written."""

from __future__ import annotations

from echelon.hrl_xf.ablations import JUDGED, ablations
from echelon.hrl_xf.agent_specs import HRL_AGENT, AgentSpec, SpecError, add, parse_agent, parse_list
from echelon.hrl_xf.arena_options import CompeteOptions

DEFAULT_RIVALS = "SBD,Rohn,TakaLinkAgent,AS0,PenguinAgent"
"""The best of 2026, and the champions of 2025 and 2024."""


def competitors_of(options: CompeteOptions) -> tuple[list[str], list[AgentSpec]]:
    """(labels of those to judge, all competitors with them first)."""
    given = [parse_agent(text) for text in options.agent]
    preset = ablations(given, options.direct_l3) if options.ablations else []
    found: dict[str, AgentSpec] = {}
    for spec in preset or given or [parse_agent(HRL_AGENT)]:
        add(found, spec)
    agents = [label for label in found if not preset or label in JUDGED or found[label] in given]
    against = options.against if options.against is not None else "" if preset else DEFAULT_RIVALS
    for spec in parse_list(against, "--against"):
        add(found, spec)
    if len(found) < 2:
        raise SpecError("one competitor alone has nobody to be compared with; name rivals with --against")
    return agents, list(found.values())


def check_agent(spec: AgentSpec) -> None:
    """Raise if the agent cannot be imported or its layers cannot be read."""
    cls = spec.load()
    if spec.name != HRL_AGENT:
        return  # other agents may do anything as they are made
    try:
        cls(**spec.params)
    except (TypeError, ValueError, OSError) as error:
        raise SpecError(f"{spec.label}: {error}") from error
