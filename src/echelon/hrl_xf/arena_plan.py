"""Worlds of the arena: configuration i has a field, focal seats and seeds of its own, whoever plays in the seats.

All is a pure function of (plan, i), made anew wherever it is needed; a digest of it goes into every result, so that
pairing is checked and not promised.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from scml.utils import anac2024_config_generator_std

from echelon.hrl_xf.agent_specs import AgentSpec
from echelon.hrl_xf.arena_options import Seats
from echelon.runtime.seeding import rng, seed_everything, task_seed

Config = dict[str, Any]

COMPETITORS, FACTORIES_PER_LEVEL = 4, 4
"""What scml's generator is asked for: the largest official number, and anac2024_std's least factories on a level."""


@dataclass(frozen=True)
class ArenaPlan:
    """What decides the worlds, apart from the competitors."""

    field: tuple[AgentSpec, ...]
    seats: Seats
    steps: int | None
    seed: int

    def __post_init__(self) -> None:
        if not self.field:
            raise ValueError("--field names nobody; give at least one agent for the other seats")


@dataclass(frozen=True)
class ArenaConfiguration:
    """One configuration: a world with empty focal seats."""

    index: int
    seed: int
    params: Config
    """world parameters as scml's generator made them"""
    levels: tuple[int, ...]
    """production level of each factory"""
    focal: tuple[int, ...]
    """the competitor's factories"""
    background: tuple[AgentSpec | None, ...]
    """who plays in each factory; None in the focal seats"""

    @property
    def n_levels(self) -> int:
        return max(self.levels) + 1

    @property
    def digest(self) -> str:
        """Changes when another world would be played, be it by other options or by another scml."""
        exact = {k: v for k, v in self.params["__exact_params"].items() if k != "name"}
        field = [None if spec is None else spec.identity() for spec in self.background]
        shape = {"seed": self.seed, "exact": exact, "levels": self.levels, "focal": self.focal, "field": field}
        return hashlib.sha256(json.dumps(shape, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def config(self, competitor: AgentSpec, name: str) -> Config:
        """What the world's generator needs to build it with the competitor in the focal seats."""
        specs = [competitor if spec is None else spec for spec in self.background]
        classes = [spec.load() for spec in specs]
        types = [f"{cls.__module__}.{cls.__qualname__}" for cls in classes]
        arguments = [{"controller_params": dict(spec.params)} if spec.params else {} for spec in specs]
        params = {**self.params, "name": name, "agent_types": types, "agent_params": arguments}
        return {"world_params": params, "is_default": [spec is not None for spec in self.background]}


def configuration(plan: ArenaPlan, index: int) -> ArenaConfiguration:
    """Configuration `index` of the plan."""
    days = {} if plan.steps is None else {"n_steps": plan.steps}
    seed_everything(task_seed(plan.seed, "arena configuration", index))
    (made,) = anac2024_config_generator_std(
        n_competitors=COMPETITORS,
        n_agents_per_competitor=1,
        min_factories_per_level=FACTORIES_PER_LEVEL,
        compact=True,
        publish_exogenous_summary=True,
        publish_trading_prices=True,
        agent_name_reveals_type=False,  # the same names whoever plays: nobody else can tell the competitors apart
        **days,
    )
    params = made["world_params"]
    levels = tuple(int(level) for level in params["agent_processes"])
    draw = rng(plan.seed, "arena seats", index)
    focal = _focal(plan.seats, levels, index, draw)
    return ArenaConfiguration(
        index=index,
        seed=task_seed(plan.seed, "arena world", index),
        params=params,
        levels=levels,
        focal=focal,
        background=_background(plan.field, len(levels), focal, draw),
    )


def _focal(seats: Seats, levels: tuple[int, ...], index: int, draw: np.random.Generator) -> tuple[int, ...]:
    """One factory on the level whose turn it is, or one on each level.

    Levels take turns with the index, so every place of the chain is played about equally often in chains of one length.
    """
    n_levels = max(levels) + 1
    chosen = [int(draw.choice([i for i, at in enumerate(levels) if at == level])) for level in range(n_levels)]
    return tuple(chosen) if seats == "each-level" else (chosen[index % n_levels],)


def _background(
    field: tuple[AgentSpec, ...], n: int, focal: tuple[int, ...], draw: np.random.Generator
) -> tuple[AgentSpec | None, ...]:
    """The field in random order, again and again, so that all of it plays about equally often."""
    rounds = -(-n // len(field))
    order = [field[i] for _ in range(rounds) for i in draw.permutation(len(field))]
    return tuple(None if seat in focal else order[seat] for seat in range(n))
