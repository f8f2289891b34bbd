"""One planned world: start it, play it, and put the results on disk; and the one way in which any world is started.

`play_and_save` runs in a worker. It writes the logs first and the result last, each atomically, so that a world
either has a complete result or counts as not played.
"""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from negmas.tournaments.tournaments import AgentStats, WorldSetRunStats
from scml.utils import balance_calculator_std

from echelon.hrl_xf.collect.folder import WORLDS, read_struct, result_files
from echelon.hrl_xf.collect.plan import PlannedWorld
from echelon.hrl_xf.competitors import shield
from echelon.hrl_xf.competitors.agent_code import check_loaded
from echelon.hrl_xf.competitors.fallbacks import fallbacks_of
from echelon.hrl_xf.competitors.module_state import restore_modules
from echelon.hrl_xf.competitors.specs import AgentSpec
from echelon.hrl_xf.lean.world import lean_std_world_generator
from echelon.hrl_xf.recording import tracker
from echelon.hrl_xf.recording.log_files import LOGS, write_log
from echelon.hrl_xf.state.schema import AgentLog
from echelon.runtime.files import write_atomic
from echelon.runtime.seeding import seed_everything

FORMAT_VERSION = 1


class WorldResult(msgspec.Struct, frozen=True, kw_only=True):
    """worlds/<index>.json: what is left of a world once it has been played."""

    format_version: int = FORMAT_VERSION
    index: int
    world_id: str
    config_id: str
    seed: int
    seconds: float
    days: int
    factories: int
    contracts: int
    log_files: list[str]
    log_bytes: int
    tracker_failures: int
    code: dict[str, str] = {}
    """digests of the agents' code by label, and versions of the packages"""
    fallbacks: dict[str, int] = {}
    """by agent id, of our agents: how often a layer failed or there was no answer"""
    scores: list[dict[str, Any]]
    world_stats: dict[str, Any]
    agent_stats: list[dict[str, Any]]
    type_stats: list[dict[str, Any]]
    daily: dict[str, list[float]]
    """the world's own statistics by day"""
    contract_table: list[dict[str, Any]]


def start_world(build: Callable[[], Any], agent_types: Iterable[str], seed: int, recorded: Collection[int]) -> Any:
    """The world that `build` makes, ready to run, its agents of the seats `recorded` recording themselves.

    What is played then depends on the arguments alone, not on what this process has played before. `agent_types` are
    the full class names of all agents.
    """
    restore_modules(_module_owners(agent_types))
    seed_everything(seed)
    world = build()
    tracker.attach(world, recorded)
    seed_everything(seed)
    return world


def _module_owners(agent_types: Iterable[str]) -> Iterator[str]:
    """The classes whose modules may hold state: not ours, but those behind our shields."""
    for path in agent_types:
        if not path.startswith("echelon."):
            yield path
        elif path.startswith(f"{shield.__name__}."):
            base = shield.base_class(getattr(shield, path.rpartition(".")[2]))
            yield f"{base.__module__}.{base.__qualname__}"


def play(planned: PlannedWorld, track: tuple[str, ...]) -> Any:
    """Build and play the world; agents of the named classes are tracked, but scml's own only where they compete.

    Returns the ended world.
    """
    config, types = planned.config, planned.config["agent_types"]
    seats = [
        seat
        for seat, (path, fills_up) in enumerate(zip(types, config["is_default"], strict=True))
        if path.rpartition(".")[2] in track and not (fills_up and path.startswith("scml."))
    ]
    world = start_world(lambda: lean_std_world_generator(**config), types, planned.seed, seats)
    world.run()
    return world


def logs_of(world: Any, planned: PlannedWorld) -> Iterator[AgentLog]:
    """The logs of all tracked agents of an ended world, each made when it is asked for: it is encoded while the caches
    hold it."""
    for adapter in world.non_system_agents:
        agent = adapter.adapted_object
        if isinstance(agent, tracker.TrackedAgent):
            recorder, config_id = agent.echelon_recorder, planned.config_id
            yield recorder.finish(agent, world_id=planned.world_id, config_id=config_id, seed=planned.seed)


def result_path(output_dir: Path, index: int) -> Path:
    return output_dir / WORLDS / f"{index:05d}.json"


def read_result(path: Path) -> WorldResult:
    return read_struct(path, WorldResult, FORMAT_VERSION)


def results_in(folder: Path) -> Iterator[WorldResult]:
    """All results of a collection, world by world."""
    return map(read_result, result_files(folder))


def play_and_save(
    planned: PlannedWorld,
    output_dir: Path,
    track: tuple[str, ...],
    compress: bool,
    code: Mapping[str, str] | None = None,
    specs: Sequence[AgentSpec] = (),
) -> WorldResult:
    """Play a world and write its logs and, last of all, its result; `specs` must be of the given code here too."""
    check_loaded(specs, code or {})
    started = time.perf_counter()
    world = play(planned, track)
    files, size, failures = [], 0, 0
    for log in logs_of(world, planned):
        name, n_bytes = write_log(log, output_dir / LOGS, compress)
        files.append(name)
        size += n_bytes
        failures += log.stats.tracker_failures
    made = result_of(world, planned, files, size, failures, started)
    result = msgspec.structs.replace(made, code=dict(code or {}))
    write_atomic(result_path(output_dir, planned.index), msgspec.json.encode(result))
    return result


def result_of(
    world: Any, planned: PlannedWorld, files: list[str], size: int, tracker_failures: int, started: float
) -> WorldResult:
    """What is kept of an ended world."""
    kinds = {aid: agent.type_name for aid, agent in world.agents.items()}
    return WorldResult(
        index=planned.index,
        world_id=planned.world_id,
        config_id=planned.config_id,
        seed=planned.seed,
        seconds=time.perf_counter() - started,
        days=world.current_step,
        factories=len(world.non_system_agents),
        contracts=len(world.saved_contracts),
        log_files=files,
        log_bytes=size,
        tracker_failures=tracker_failures,
        fallbacks=fallbacks_of(world.non_system_agents),
        scores=_scores(world, planned),
        world_stats=_world_stats(world, planned),
        agent_stats=_counts(world, lambda aid: aid).to_record(planned.world_id, "agent"),
        type_stats=_counts(world, lambda aid: kinds[aid]).to_record(planned.world_id, "type"),
        daily={k: [float(x) for x in v] for k, v in world.stats.items() if world.is_basic_stat(k)},
        contract_table=[_contract_row(c, planned.world_id) for c in world.saved_contracts],
    )


def _scores(world: Any, planned: PlannedWorld) -> list[dict[str, Any]]:
    """A row for each competitor; scml would add up those of one class, so labelled ones are looked up one by one."""
    if planned.labels:
        of = world.scores()
        rows = [
            (adapter.name, adapter.id, label, of[adapter.id])
            for adapter, label in zip(world.non_system_agents, planned.labels, strict=True)
            if label
        ]
    else:
        outcome = balance_calculator_std([world], {}, False)
        rows = list(zip(outcome.names, outcome.ids, outcome.types, outcome.scores, strict=True))
    return [
        {"agent_name": name, "agent_id": id_, "agent_type": kind, "score": float(score), "world": planned.world_id}
        for name, id_, kind, score in rows
    ]


_CONTRACT_COLUMNS = ("seller", "buyer", "product_name", "quantity", "unit_price", "delivery_time")
_CONTRACT_DAYS = ("concluded_at", "signed_at", "executed_at", "nullified_at")


def _contract_row(contract: dict[str, Any], world_id: str) -> dict[str, Any]:
    row = {"world": world_id} | {name: _plain(contract[name]) for name in _CONTRACT_COLUMNS}
    return row | {name: _plain(contract[name]) for name in _CONTRACT_DAYS if name in contract}


def _plain(value: Any) -> Any:
    """numpy scalars as Python numbers; they print the same."""
    return value.item() if hasattr(value, "item") else value


def _counts(world: Any, key: Callable[[str], str]) -> AgentStats:
    """negmas' counters of what agents did, summed by `key(agent id)`."""
    stats = AgentStats()
    for field in dataclasses.fields(AgentStats):
        source = world.agent_exceptions if field.name == "exceptions" else vars(world)[field.name]
        if field.name.endswith("exceptions"):
            table: dict[str, Any] = defaultdict(list)
        else:
            table = defaultdict(int)
        for aid in world.agents:
            table[key(aid)] += list(source[aid]) if field.name.endswith("exceptions") else _plain(source[aid])
        setattr(stats, field.name, table)
    return stats


def _world_stats(world: Any, planned: PlannedWorld) -> dict[str, Any]:
    totals = _counts(world, lambda _: "all")
    stats = WorldSetRunStats(
        name=planned.world_id,
        planned_n_steps=world.n_steps,
        executed_n_steps=world.current_step,
        execution_time=float(world.frozen_time),
        simulation_exceptions=[(day, e) for day, e in world.simulation_exceptions.items() if e],
        contract_exceptions=[(day, e) for day, e in world.contract_exceptions.items() if e],
        mechanism_exceptions=[(day, e) for day, e in world.mechanism_exceptions.items() if e],
        n_agent_exceptions=len(totals.exceptions["all"]),
        n_negotiator_exceptions=len(totals.negotiator_exceptions["all"]),
        mean_agent_time=float(totals.times["all"]) / max(1, len(world.agents)),
    )
    for field in dataclasses.fields(AgentStats):
        name = f"n_{field.name}"
        if name in vars(stats) and not field.name.endswith("exceptions"):
            setattr(stats, name, vars(totals)[field.name]["all"])
    return dict(vars(stats))
