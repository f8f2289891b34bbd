"""Small real worlds for the tests of this folder."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scml.std import SCML2024StdWorld

from echelon.hrl_xf.competitors.roster import agent_class
from echelon.hrl_xf.dataset.tournament import TournamentData, open_tournament
from tests.hrl_xf.log_examples import LOGS

World = Any
MakeWorld = Callable[..., World]


def stock_world(
    agents: Sequence[str | type[Any]],
    *,
    seed: int = 1,
    n_steps: int = 8,
    levels: int = 2,
    per_level: int = 3,
    cls: type[Any] = SCML2024StdWorld,
    **settings: Any,
) -> World:
    """A world, scml's own if no other `cls` is given, with the agents in order, one per factory, repeated as needed."""
    random.seed(seed)
    np.random.seed(seed)
    n = levels * per_level
    types = [agent_class(a) if isinstance(a, str) else a for a in agents]
    config = SCML2024StdWorld.generate(
        agent_types=[types[i % len(types)] for i in range(n)],
        agent_processes=[i // per_level for i in range(n)],
        n_processes=levels,
        n_steps=n_steps,
        random_agent_types=False,
        **settings,
    )
    world = cls(**config)
    random.seed(seed)
    np.random.seed(seed)
    return world


@pytest.fixture
def make_world() -> MakeWorld:
    return stock_world


@pytest.fixture
def data(cache: Path) -> TournamentData:
    """The stored logs of Penguin, parsed once; opened for each test, since training writes goals into it."""
    return open_tournament(LOGS, "PenguinAgent", 1, cache_dir=cache, quiet=True)


def contracts_of(world: World) -> list[tuple[Any, ...]]:
    """What was signed, in a form that can be compared."""
    names = ("seller", "buyer", "quantity", "unit_price", "delivery_time", "concluded_at", "signed_at")
    return sorted(tuple(c[name] for name in names) for c in world.saved_contracts)
