"""One world of the arena: built, played with the competitor in the focal seats, and put on disk. Runs in a worker.

Where logs are kept, those of the focal seats and the diaries of our own agents are written first and the result last.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from echelon.hrl_xf.arena.plan import ArenaConfiguration, ArenaPlan, configuration
from echelon.hrl_xf.arena.seat import SeatRecord, seat_record
from echelon.hrl_xf.collect.folder import WORLDS, read_struct, result_files
from echelon.hrl_xf.collect.world import start_world
from echelon.hrl_xf.competitors.agent_code import PlayedBy, check_played_by
from echelon.hrl_xf.competitors.fallbacks import CountsFallbacks, fallbacks_of
from echelon.hrl_xf.competitors.specs import AgentSpec
from echelon.hrl_xf.lean.world import lean_std_world_generator
from echelon.hrl_xf.play.diary import Diary, write_diary
from echelon.hrl_xf.recording.log_files import LOGS, seat_name, write_log
from echelon.hrl_xf.state.schema import AgentLog
from echelon.runtime.files import write_atomic
from echelon.runtime.seeding import rng

FORMAT_VERSION = 3


class ArenaResult(msgspec.Struct, frozen=True, kw_only=True):
    """worlds/<index>_<competitor>.json: one competitor in one configuration."""

    format_version: int = FORMAT_VERSION
    index: int
    competitor: str
    """its label"""
    digest: str
    """of the configuration: equal for all competitors, or the results cannot be compared"""
    code: PlayedBy | None = None
    seed: int
    levels: int
    days: int
    background: list[str]
    """labels by factory, empty in the focal seats"""
    scores: list[float]
    """of all factories"""
    contracts: int
    """signed in the whole world"""
    simulation_exceptions: int
    background_fallbacks: int = 0
    """how often a layer of our agents failed that play in the field"""
    seats: list[SeatRecord]
    seconds: float
    """wall time"""

    @property
    def score(self) -> float:
        """The competitor's: the mean of its seats."""
        return sum(seat.score for seat in self.seats) / len(self.seats)


def result_path(output_dir: Path, index: int, competitor: AgentSpec) -> Path:
    return output_dir / WORLDS / f"{index:05d}_{competitor.slug}.json"


def read_result(path: Path) -> ArenaResult:
    return read_struct(path, ArenaResult, FORMAT_VERSION)


def results_in(folder: Path) -> list[ArenaResult]:
    """All results of an arena, configuration by configuration."""
    return [read_result(path) for path in result_files(folder)]


def start(made: ArenaConfiguration, competitor: AgentSpec, record: bool = True) -> Any:
    """The world, ready to run, with the competitor in the focal seats, who records itself if so asked."""
    config = made.config(competitor, f"arena-{made.index:05d}")

    def build() -> Any:
        world = lean_std_world_generator(**config)
        _draw_costs(world, made.seed)
        return world

    return start_world(build, config["world_params"]["agent_types"], made.seed, made.focal if record else ())


def _draw_costs(world: Any, seed: int) -> None:
    """The factories' daily costs, by scml's own formula but from the configuration's seed.

    The world draws them after making the agents; a competitor that draws numbers as it is made would change everyone's.
    """
    draw = rng(seed, "costs")
    tables = (("disposal_cost", world.agent_disposal_cost), ("storage_cost", world.agent_storage_cost))
    for name, table in (*tables, ("shortfall_penalty", world.agent_shortfall_penalty)):
        for aid in table:
            profile = world.agent_profiles[aid]
            deviation, mean = getattr(profile, f"{name}_dev"), getattr(profile, f"{name}_mean")
            table[aid] = np.abs(draw.standard_normal(world.n_steps) * deviation + mean)


def play(made: ArenaConfiguration, competitor: AgentSpec, keep_in: Path | None = None) -> ArenaResult:
    """Play the configuration with the competitor; the logs of its seats are kept in the arena's folder `keep_in`."""
    started = time.perf_counter()
    world = start(made, competitor)
    adapters = list(world.non_system_agents)
    agents = [adapters[seat].adapted_object for seat in made.focal]
    ours = all(isinstance(agent, CountsFallbacks) for agent in agents)
    diaries = [_keep_diary(agent) for agent in agents] if ours and keep_in is not None else []
    world.run()
    logs = [
        agent.echelon_recorder.finish(agent, world_id=world.name, config_id=made.digest, seed=made.seed)
        for agent in agents
    ]
    failed = fallbacks_of(adapters)
    seats = [
        seat_record(world, adapters[seat], log, seat, failed.pop(adapters[seat].id, 0))
        for seat, log in zip(made.focal, logs, strict=True)
    ]
    if keep_in is not None:
        seats = keep_logs(keep_in, made.index, competitor, seats, logs, diaries)
    scores = world.scores()
    return ArenaResult(
        index=made.index,
        competitor=competitor.label,
        digest=made.digest,
        seed=made.seed,
        levels=made.n_levels,
        days=world.current_step,
        background=["" if spec is None else spec.label for spec in made.background],
        scores=[float(scores[adapter.id]) for adapter in adapters],
        contracts=len(world.saved_contracts),
        simulation_exceptions=sum(map(len, world.simulation_exceptions.values())),
        background_fallbacks=sum(failed.values()),
        seats=seats,
        seconds=time.perf_counter() - started,
    )


def _keep_diary(agent: Any) -> Diary:
    diary = Diary()
    agent.on_decided = diary.note
    return diary


def keep_logs(
    output_dir: Path,
    index: int,
    competitor: AgentSpec,
    seats: Sequence[SeatRecord],
    logs: Sequence[AgentLog],
    diaries: Sequence[Diary],
) -> list[SeatRecord]:
    """Write the logs and diaries of the focal seats; the seats with the names of their files."""
    folder = f"{LOGS}/{index:05d}_{competitor.slug}"
    (output_dir / folder).mkdir(parents=True, exist_ok=True)
    names = [write_log(log, output_dir / folder, compress=True)[0] for log in logs]
    logged = [replace(seat, log_file=f"{folder}/{name}") for seat, name in zip(seats, names, strict=True)]
    for i, diary in enumerate(diaries):
        log = logs[i]
        name = f"{folder}/diary_{seat_name(log.agent_id, log.world_id)}.json.gz"
        whose = {"agent_id": log.agent_id, "world_id": log.world_id, "config_id": log.config_id}
        write_diary(output_dir / name, diary.finish(**whose, competitor=competitor.label, seed=log.seed))
        logged[i] = replace(logged[i], diary_file=name)
    return logged


def play_and_save(
    plan: ArenaPlan, index: int, competitor: AgentSpec, output_dir: Path, keep: bool, code: PlayedBy | None
) -> ArenaResult:
    """Make configuration `index`, play it with the competitor and write the result atomically.

    `code` is what competitor and field must be here too.
    """
    if code is not None:
        check_played_by(code, competitor, plan.field.everybody)
    result = replace(play(configuration(plan, index), competitor, output_dir if keep else None), code=code)
    write_atomic(result_path(output_dir, index, competitor), msgspec.json.encode(result))
    return result
