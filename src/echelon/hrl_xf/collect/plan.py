"""Official tournaments as a list of single worlds: planned here, played anywhere, evaluated by negmas.

negmas samples configurations and assigns agents to factories; we give every world a name and a seed of its own, so
that a plan is a pure function of its options. World configurations are never read back from disk (scml serialises
parts of them as pickles): a resumed run makes the plan again and compares its fingerprint.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from negmas.tournaments import create_tournament
from scml.utils import anac2024_config_generator_std, anac_assigner_std, balance_calculator_std

from echelon.hrl_xf.competitors.roster import ROSTER
from echelon.runtime.seeding import seed_everything, task_seed

Config = dict[str, Any]
LEAGUE_COMPETITORS, FACTORIES_PER_LEVEL = 4, 4
"""A league world holds 2 to 4 competitors and at least 4 factories per level (anac2024_std)."""
_ADDED_LATER = ("labels", "params", "min_factories_per_level", "fill_ups")
"""Parts of a plan that count in its fingerprint only where they are used: older collections do not have them."""


@dataclass(frozen=True)
class TournamentPlan:
    """What to play: everything that decides the worlds."""

    competitors: tuple[str, ...]
    configs: int
    runs: int
    n_competitors_per_world: int
    max_worlds_per_config: int | None
    round_robin: bool
    steps: int | None
    seed: int
    labels: tuple[str, ...] = ()
    """how results call the competitors; by their classes if not given"""
    params: tuple[Mapping[str, Any], ...] = ()
    """constructor arguments of each competitor; none if not given"""
    min_factories_per_level: int | None = None
    """the generator's own (2) if not given; anac2024_std asks for 4"""
    fill_ups: tuple[str, ...] = ()
    """who holds the seats that no competitor has, drawn at random; scml's default agents if not given"""

    def __post_init__(self) -> None:
        for name in ("labels", "params"):
            if len(getattr(self, name)) not in (0, len(self.competitors)):
                raise ValueError(f"{len(getattr(self, name))} {name} for {len(self.competitors)} competitors")
        n, k, most = len(self.competitors), self.n_competitors_per_world, self.max_worlds_per_config
        if not 1 <= k <= n:
            raise ValueError(f"--n-competitors-per-world {k} must be between 1 and {n}, the number of competitors")
        if most is not None and most < k:
            raise ValueError(
                f"Cannot guarantee fair assignment: {k} competitors in a world need {k} worlds for each configuration, "
                f"one for each rotation of the seats, but --max-worlds-per-config is {most}; use at least {k}"
            )


@dataclass(frozen=True)
class PlannedWorld:
    """One world of a plan; `config` is what negmas and scml need to build it."""

    index: int
    world_id: str
    config_id: str
    seed: int
    config: Config
    labels: tuple[str, ...] = ()
    """the competitor in each factory, empty where there is none; () if classes identify them"""

    @property
    def n_steps(self) -> int:
        return int(self.config["world_params"]["n_steps"])

    @property
    def agent_types(self) -> list[str]:
        """By factory: who competes there, or the bare class name."""
        names = [str(t).rsplit(".", 1)[-1] for t in self.config["agent_types"]]
        return [label or name for label, name in zip(self.labels, names, strict=True)] if self.labels else names

    def summary(self) -> dict[str, Any]:
        """The world's line in worlds.json."""
        return {
            "index": self.index,
            "world_id": self.world_id,
            "config_id": self.config_id,
            "seed": self.seed,
            "n_steps": self.n_steps,
            "agents": self.agent_types,
        }


def _fair_assigner(config: list[Config], max_n_worlds: int | None, **kwargs: Any) -> list[list[Config]]:
    """scml's assigner, with whole rotations of the seats.

    Given a limit, scml 0.8.4 repeats one and the same assignment; without one it rotates. So ask for as many whole
    rotations as fit the limit: then every competitor sits in every seat equally often.
    """
    rotations = 1 if max_n_worlds is None else max_n_worlds // len(kwargs["competitors"])
    return [
        world
        for _ in range(rotations)
        for world in anac_assigner_std(config=copy.deepcopy(config), max_n_worlds=None, **kwargs)
    ]


def _filled_up(worlds: list[list[Config]], fill_ups: list[str]) -> list[list[Config]]:
    """Give the default agents' seats to others, who stay out of the scores: scml adds up the seats of a class."""
    for world in worlds if fill_ups else ():
        for config in world:
            for seat, is_default in enumerate(config["is_default"]):
                if is_default:
                    config["agent_types"][seat], config["agent_params"][seat] = random.choice(fill_ups), {}
    return worlds


def plan_worlds(plan: TournamentPlan) -> tuple[list[PlannedWorld], dict[str, Any]]:
    """All worlds of a plan, in order, and the parameters negmas would write to params.json."""
    assigned: list[list[Config]] = []

    def keep(**kwargs: Any) -> list[list[Config]]:
        worlds = _filled_up(_fair_assigner(**kwargs), [_path(name) for name in plan.fill_ups])
        assigned.extend(worlds)
        return worlds

    shape = {"n_steps": plan.steps, "min_factories_per_level": plan.min_factories_per_level}
    given = {name: value for name, value in shape.items() if value is not None}
    seed_everything(task_seed(plan.seed, "tournament"))
    with tempfile.TemporaryDirectory(prefix="echelon-plan-") as scratch:
        path = create_tournament(
            competitors=_paths(plan),
            competitor_params=_arguments(plan),
            config_generator=anac2024_config_generator_std,
            config_assigner=keep,
            world_generator="echelon.hrl_xf.lean.world.lean_std_world_generator",
            score_calculator=balance_calculator_std,
            n_competitors_per_world=plan.n_competitors_per_world,
            round_robin=plan.round_robin,
            n_configs=plan.configs,
            max_worlds_per_config=plan.max_worlds_per_config,
            n_runs_per_world=1,
            base_tournament_path=scratch,
            name="plan",
            compact=True,
            publish_exogenous_summary=True,
            publish_trading_prices=True,
            **given,
        )
        params = json.loads((Path(path) / "params.json").read_text())
    params.pop("tournament_path")
    return _named(plan, [config for (config,) in assigned]), params


def _path(name: str) -> str:
    return f"{ROSTER[name]}.{name}" if name in ROSTER else name


def _paths(plan: TournamentPlan) -> list[str]:
    return [_path(name) for name in plan.competitors]


def _arguments(plan: TournamentPlan) -> list[dict[str, Any]]:
    """Constructor arguments as scml's worlds take them."""
    given = plan.params or ({},) * len(plan.competitors)
    return [{"controller_params": dict(params)} if params else {} for params in given]


def _labels(plan: TournamentPlan, config: Config) -> tuple[str, ...]:
    """Who competes in each factory: the label of the competitor with this class and these arguments."""
    if not plan.labels:
        return ()
    rows = zip(_paths(plan), _arguments(plan), plan.labels, strict=True)
    known = {(path, json.dumps(params, sort_keys=True)): label for path, params, label in rows}
    seats = zip(config["agent_types"], config["agent_params"], config["is_default"], strict=True)
    return tuple(
        "" if fills_up else known[str(path), json.dumps(params or {}, sort_keys=True)]
        for path, params, fills_up in seats
    )


def _named(plan: TournamentPlan, configs: list[Config]) -> list[PlannedWorld]:
    """Repeat for each run, and give names and seeds that depend on nothing but the plan."""
    worlds: list[PlannedWorld] = []
    exact: dict[int, Any] = {}  # the bulk of a configuration, equal in all its worlds: kept once
    for run in range(plan.runs):
        for config in configs:
            index = len(worlds)
            base = int(config["config_id"][:4])  # negmas numbers base configurations in the first four digits
            config_id = f"s{plan.seed}-c{base:04d}"
            world_id = f"w{index:05d}-{config_id}-r{run}"
            params = config["world_params"]
            shared = exact.setdefault(base, params["__exact_params"])
            config = {**config, "world_params": {**params, "name": world_id, "__exact_params": shared}}
            seed = task_seed(plan.seed, "world", index)
            worlds.append(PlannedWorld(index, world_id, config_id, seed, config, _labels(plan, config)))
    return worlds


def plan_fingerprint(plan: TournamentPlan, worlds: list[PlannedWorld]) -> str:
    """Changes when the plan would play other worlds, be it by other options or by another scml."""
    exact = {w.config_id: w.config["world_params"]["__exact_params"] for w in worlds}
    worth = {name: {k: v for k, v in params.items() if k != "name"} for name, params in exact.items()}
    decides = {name: value for name, value in asdict(plan).items() if name not in _ADDED_LATER or value}
    shape = {"plan": decides, "worlds": [world.summary() for world in worlds], "configurations": worth}
    return hashlib.sha256(json.dumps(shape, sort_keys=True, default=str).encode()).hexdigest()
