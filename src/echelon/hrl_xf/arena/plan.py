"""Worlds of the arena: configuration i has its own field, focal seats and seeds, the same for all competitors.

A field is who plays in the other seats:

    league     as in the league: the competitor and one to three finalists of 2024 to 2026 in a world, scml's default
               agents in all other seats
    champions  finalists of 2024 to 2026 in all seats
    a list     the named agents in all seats

Everything is a pure function of (plan, i), computed where it is needed; a digest of it goes into every result, so that
pairing is checked and not promised.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scml.utils import anac2024_config_generator_std

from echelon.hrl_xf.collect.plan import FACTORIES_PER_LEVEL, LEAGUE_COMPETITORS
from echelon.hrl_xf.competitors import roster
from echelon.hrl_xf.competitors.specs import AgentSpec, SpecError, parse_agent, parse_list
from echelon.hrl_xf.options.compete import Seats
from echelon.runtime.seeding import rng, seed_everything, task_seed

Config = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """Who plays in the seats that are not the competitor's."""

    agents: tuple[AgentSpec, ...]
    league: bool = False
    """whether only one to three of them play, and scml's default agents hold the other seats"""

    def __post_init__(self) -> None:
        if not self.agents:
            raise ValueError("--field is empty; give at least one agent for the other seats")

    @property
    def everybody(self) -> tuple[AgentSpec, ...]:
        """All who may sit in such a seat."""
        return (*self.agents, *map(parse_agent, roster.FILL_UPS if self.league else ()))


def parse_field(text: str) -> Field:
    """`league`, `champions` (either `-NAME`: without that finalist), or a list of names and groups."""
    name, *without = text.split("-")
    if name not in ("league", "champions"):
        return Field(tuple(parse_list(text, "--field")))
    finalists = parse_list("finalists", "--field")
    unknown = sorted(set(without) - {spec.label for spec in finalists})
    if unknown:
        known = ", ".join(spec.label for spec in finalists)
        raise SpecError(f"--field {text}: {unknown[0]} is not one of the finalists, which are {known}")
    return Field(tuple(spec for spec in finalists if spec.label not in without), league=name == "league")


@dataclass(frozen=True)
class ArenaPlan:
    """What decides the worlds, apart from the competitors."""

    field: Field
    seats: Seats
    steps: int | None
    seed: int


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
        types = [spec.class_path() for spec in specs]
        arguments = [spec.agent_params for spec in specs]
        params = {**self.params, "name": name, "agent_types": types, "agent_params": arguments}
        return {"world_params": params, "is_default": [spec is not None for spec in self.background]}


def configuration(plan: ArenaPlan, index: int) -> ArenaConfiguration:
    """Configuration `index` of the plan."""
    days = {} if plan.steps is None else {"n_steps": plan.steps}
    draw = rng(plan.seed, "arena seats", index)
    n_competitors = int(draw.integers(2, LEAGUE_COMPETITORS + 1)) if plan.field.league else LEAGUE_COMPETITORS
    seed_everything(task_seed(plan.seed, "arena configuration", index))
    (made,) = anac2024_config_generator_std(
        n_competitors=n_competitors,
        n_agents_per_competitor=1,
        min_factories_per_level=FACTORIES_PER_LEVEL,
        compact=True,
        publish_exogenous_summary=True,
        publish_trading_prices=True,
        agent_name_reveals_type=False,  # equal names: the others cannot distinguish the competitors
        **days,
    )
    params = made["world_params"]
    levels = tuple(int(level) for level in params["agent_processes"])
    focal = _focal(plan.seats, levels, index, draw)
    if plan.field.league:
        background = _league(plan.field.agents, made["agent_types"], focal, n_competitors, draw)
    else:
        background = _background(plan.field.agents, len(levels), focal, draw)
    return ArenaConfiguration(
        index=index,
        seed=task_seed(plan.seed, "arena world", index),
        params=params,
        levels=levels,
        focal=focal,
        background=background,
    )


def _focal(seats: Seats, levels: tuple[int, ...], index: int, draw: np.random.Generator) -> tuple[int, ...]:
    """One factory on the level whose turn it is, or one or two on each level.

    Levels take turns with the index, so every place of the chain is played about equally often in chains of one length.
    """
    n_levels = max(levels) + 1
    factories = [[i for i, at in enumerate(levels) if at == level] for level in range(n_levels)]
    if seats == "two-each-level":
        return tuple(int(seat) for some in factories for seat in draw.choice(some, 2, replace=False))
    chosen = [int(draw.choice(some)) for some in factories]
    return tuple(chosen) if seats == "each-level" else (chosen[index % n_levels],)


def _background(
    field: tuple[AgentSpec, ...], n: int, focal: tuple[int, ...], draw: np.random.Generator
) -> tuple[AgentSpec | None, ...]:
    """The field in random order, again and again, so that all of it plays about equally often."""
    rounds = -(-n // len(field))
    order = [field[i] for _ in range(rounds) for i in draw.permutation(len(field))]
    return tuple(None if seat in focal else order[seat] for seat in range(n))


def _league(
    rivals: tuple[AgentSpec, ...],
    drawn: Sequence[str | None],
    focal: tuple[int, ...],
    n_competitors: int,
    draw: np.random.Generator,
) -> tuple[AgentSpec | None, ...]:
    """scml's default agents as its generator has drawn them, and rivals, each once, in the seats it left free.

    The competitor counts as one of `n_competitors`. A seat that remains free gets a default agent.
    """
    free = [seat for seat, agent in enumerate(drawn) if agent is None and seat not in focal]
    n_rivals = min(n_competitors - 1, len(free), len(rivals))
    seated = [int(seat) for seat in draw.permutation(free)[:n_rivals]]
    chosen = [rivals[i] for i in draw.permutation(len(rivals))[:n_rivals]]
    names = [str(agent or draw.choice(_FILL_UPS)).rsplit(".", 1)[-1] for agent in drawn]
    seats: list[AgentSpec | None] = [parse_agent(name) for name in names]
    for seat, rival in zip(seated, chosen, strict=True):
        seats[seat] = rival
    for seat in focal:
        seats[seat] = None
    return tuple(seats)


_FILL_UPS = tuple(roster.FILL_UPS)
