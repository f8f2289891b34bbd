"""`echelon hrl replay`: one world of a collection or an arena again, in the foreground, exceptions in sight."""

from __future__ import annotations

import logging
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec

from echelon.hrl_xf.arena.contest import COMPETITORS, arena_plan
from echelon.hrl_xf.arena.contest import KIND as ARENA
from echelon.hrl_xf.arena.official import KIND as OFFICIAL
from echelon.hrl_xf.arena.official import official_plan
from echelon.hrl_xf.arena.plan import configuration
from echelon.hrl_xf.arena.world import start
from echelon.hrl_xf.collect.collection import world_name
from echelon.hrl_xf.collect.plan import PlannedWorld, plan_fingerprint, plan_worlds
from echelon.hrl_xf.collect.world import play
from echelon.hrl_xf.commands.collect import collection_plan
from echelon.hrl_xf.competitors.specs import AgentSpec
from echelon.hrl_xf.options.collect import CollectOptions, ReplayOptions
from echelon.hrl_xf.recording import tracker
from echelon.runtime.files import read_json
from echelon.runtime.progress import minutes
from echelon.runtime.rundir import read_config

log = logging.getLogger(__name__)


def run(options: ReplayOptions) -> int:
    """Make the world again from the collection's options and seed, play it and show the scores."""
    started = time.perf_counter()
    if _kind(options.run) == ARENA:
        world = arena_world(options.run, options.world, options.competitor)
    else:
        planned = planned_world(options.run, options.world)
        log.info("playing %s, %d days", world_name(planned), planned.n_steps)
        world = play(planned, track=())
    log.info("ended after %s", minutes(time.perf_counter() - started))
    for aid, score in sorted(world.scores().items(), key=lambda row: -row[1]):
        name = tracker.base_class(type(world.agents[aid].adapted_object)).__name__
        log.info("  %-12s %-34s %7.3f", aid, name, score)
    for aid, errors in world.agent_exceptions.items():
        for day, trace in errors:
            log.info("%s raised on day %s:\n%s", aid, day, trace)
    return 0


def _kind(run_dir: Path) -> str | None:
    saved = read_config(run_dir)
    return None if saved is None else saved.kind


def arena_world(run_dir: Path, index: int, label: str | None) -> Any:
    """Configuration `index` of an arena, played with the competitor of that label."""
    known = read_json(run_dir / COMPETITORS)["competitors"]
    if label is None or label not in known:
        raise ValueError(f"--competitor {label}: {run_dir} knows {', '.join(known)}; name one of them")
    if index < 0:
        raise ValueError(f"--world {index} must not be negative")
    saved = known[label]
    module, _, name = saved["agent"].rpartition(".")
    competitor = AgentSpec(label, module, name, saved["shielded"], saved["params"])
    made = configuration(arena_plan(read_json(run_dir / "config.json")["options"]), index)
    log.info("playing configuration %d with %s, %d days", index, label, made.params["n_steps"])
    world = start(made, competitor)
    world.run()
    return world


def planned_world(run_dir: Path, index: int) -> PlannedWorld:
    """The world of that number in the plan of a collection or an official tournament."""
    if not (run_dir / "worlds.json").exists():
        raise ValueError(f"{run_dir} is not a collection (no worlds.json); give the folder `echelon hrl collect` wrote")
    options = read_json(run_dir / "config.json")["options"]
    plan = official_plan(options) if _kind(run_dir) == OFFICIAL else collection_plan(_saved_options(options))
    worlds, _ = plan_worlds(plan)
    saved = msgspec.json.decode((run_dir / "worlds.json").read_bytes())["fingerprint"]
    if plan_fingerprint(plan, worlds) != saved:
        raise ValueError(f"{run_dir} was planned by other versions of scml or negmas; see its config.json")
    if not 0 <= index < len(worlds):
        raise ValueError(f"--world {index}: {run_dir} has worlds 0..{len(worlds) - 1}")
    return worlds[index]


def _saved_options(saved: dict[str, Any]) -> CollectOptions:
    known = {f.name for f in fields(CollectOptions)}
    unknown = sorted(set(saved) - known)
    if unknown:
        raise ValueError(f"the collection was made with options this version does not have: {', '.join(unknown)}")
    return CollectOptions(**saved | {"track": tuple(saved["track"])})
