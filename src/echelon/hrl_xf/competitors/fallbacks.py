"""How often a layer of our agents failed, so that others played: counted in the agent, shown wherever it plays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class CountsFallbacks:
    """Mixed into our agents."""

    fallbacks = 0
    """how often a layer failed, so that the rules (or, should they fail too, L1) took over for the rest of the day"""
    errors = 0
    """how often there was no answer, and threads ended"""


def fallbacks_of(adapters: Iterable[Any]) -> dict[str, int]:
    """By id: the fallbacks and errors of those of a world's agents that had any."""
    ours = {a.id: a.adapted_object for a in adapters if isinstance(a.adapted_object, CountsFallbacks)}
    counts = {aid: agent.fallbacks + agent.errors for aid, agent in ours.items()}
    return {aid: count for aid, count in counts.items() if count}
