"""A program: plays one world of scml's own simulator with one agent class among scml's own, and prints what happened.

    python bare_world.py MODULE:CLASS STEPS [NAME ...] [+NAME ...]

NAMEs are modules that cannot be imported; +NAMEs are imported before the agent.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import random
import sys
import time
from collections import defaultdict
from typing import Any

_ticks = itertools.count(1)
time.perf_counter = lambda: next(_ticks) * 1e-6  # before negmas takes it: what is read of a clock differs by load
time.perf_counter_ns = lambda: next(_ticks) * 1000

import numpy as np  # noqa: E402
from scml.std import SCML2024StdWorld, SyncRandomStdAgent  # noqa: E402
from scml.std.agents import GreedyStdAgent  # noqa: E402


class Ordered(dict[Any, None]):
    """A set that keeps the order of arrival; sets of the world are in the order of memory addresses."""

    def add(self, item: Any) -> None:
        self[item] = None

    def remove(self, item: Any) -> None:
        del self[item]


class World(SCML2024StdWorld):  # type: ignore[misc]
    """scml's world, in the same order in every process."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, defaultdict(Ordered) if name in ("_entities", "unsigned_contracts") else value)


def main(agent: str, steps: int, names: list[str]) -> dict[str, Any]:
    """Play the world; what is returned is equal for equal worlds, but for `modules`."""
    for name in names:
        if name.startswith("+"):
            importlib.import_module(name[1:])
        elif name in sys.modules:
            raise SystemExit(f"scml or negmas imports {name}: it cannot be absent")
        else:
            sys.modules[name] = None  # type: ignore[assignment]
    module, _, name = agent.partition(":")
    kind = getattr(importlib.import_module(module), name)
    random.seed(3)
    np.random.seed(3)
    made = World.generate(
        agent_types=[kind, GreedyStdAgent, SyncRandomStdAgent], n_processes=3, n_agents_per_process=4, n_steps=steps
    )
    world = World(**made, no_logs=True, compact=True)
    random.seed(4)
    np.random.seed(4)
    world.run()
    ours = [a.adapted_object for a in world.agents.values() if isinstance(a.adapted_object, kind)]
    mine = {a.id for a in ours}
    keys = ("seller_name", "buyer_name", "quantity", "unit_price", "delivery_time", "signed_at")
    contracts = sorted(tuple(c[key] for key in keys) for c in world.signed_contracts)
    return {
        "scores": {key: repr(score) for key, score in world.scores().items()},
        "seats": len(ours),
        "signed": sum(bool(mine & set(contract[:2])) for contract in contracts),
        "contracts": hashlib.sha256(repr(contracts).encode()).hexdigest(),
        "failures": sum(a.fallbacks + a.errors for a in ours),
        "modules": sorted(name for name in sys.modules if name.split(".")[0] == module.split(".")[0]),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
