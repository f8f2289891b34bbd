"""`echelon hrl play`: one world with the agent in it, explained day by day."""

from __future__ import annotations

import io
import logging
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from scml.std import SCML2024StdWorld

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.collect.world import start_world
from echelon.hrl_xf.competitors.specs import AgentSpec, parse_agent, parse_list
from echelon.hrl_xf.lean.world import LeanStdWorld
from echelon.hrl_xf.options.play import PlayOptions
from echelon.hrl_xf.play.choice import layer_name
from echelon.hrl_xf.play.story import DayBuilder, DayStory, Totals, totals_of
from echelon.hrl_xf.play.telling import tell
from echelon.hrl_xf.recording import tracker
from echelon.runtime.progress import minutes
from echelon.runtime.seeding import task_seed

log = logging.getLogger(__name__)

_WIDTH = 120
_PLACES = {"first": 0, "last": -1}
_TASKS = {
    "first": "We are given our material day by day, and must sell what we make of it.",
    "middle": "We must buy our material, and sell what we make of it.",
    "last": "Our products are ordered day by day, and we must buy the material for them.",
}


def run(options: PlayOptions) -> int:
    """Build the world, play it a day at a time, tell each day when it is over, and compare the scores."""
    started = time.perf_counter()
    world, agent = build(options)
    _say(*_introduction(world, agent))
    days = []
    for day in played(world, agent):
        _say(*tell(day, options.verbose))
        days.append(day)
    _say(*_ending(world, agent, days))
    log.info("played in %s", minutes(time.perf_counter() - started))
    return 0


def played(world: Any, agent: Any) -> Iterator[DayStory]:
    """Play the world; each of the agent's days as soon as it is over."""
    recorder, chronicle, heard = agent.echelon_recorder, DayBuilder(agent.layers.l2), 0
    goes_on = True
    while goes_on:
        goes_on = world.step()
        if not goes_on:
            recorder.finish(agent, world_id="play", config_id="play", seed=0)  # closes the last day
        yield from chronicle.add_all(recorder.entries[heard:])
        heard = len(recorder.entries)


def build(options: PlayOptions) -> tuple[Any, Any]:
    """The world, ready to run, and our agent in it, who records itself."""
    ours = _watched(options)
    rivals = parse_list(options.against, "--against")
    if not rivals:
        raise ValueError("--against is empty; give e.g. --against PenguinAgent,AS0")
    place = options.agent_level or ("middle" if options.levels > 2 else "last")
    seat = _PLACES.get(place, 1) % options.levels * options.factories
    n = options.levels * options.factories
    specs = [rivals[i % len(rivals)] for i in range(n - 1)]
    specs.insert(seat, ours)
    generate = partial(
        SCML2024StdWorld.generate,
        agent_types=[spec.load() for spec in specs],
        agent_params=[spec.agent_params for spec in specs],
        agent_processes=[i // options.factories for i in range(n)],
        n_processes=options.levels,
        n_steps=options.days,
        random_agent_types=False,
        publish_exogenous_summary=True,
        publish_trading_prices=True,
    )
    world = start_world(
        lambda: LeanStdWorld(**generate()),
        [spec.class_path() for spec in specs],
        task_seed(options.seed, "play world"),
        recorded=[seat],
    )
    return world, list(world.non_system_agents)[seat].adapted_object


def _watched(options: PlayOptions) -> AgentSpec:
    """The agent that is watched, with the layers of the options."""
    named = parse_agent(options.agent)
    if not issubclass(named.load(), LitaAgentHRL):
        raise ValueError(
            f"--agent {options.agent} is not derived from LitaAgentHRL; `echelon hrl compete` takes any agent"
        )
    layers = {name: getattr(options, name) for name in ("l2", "l3", "l4") if getattr(options, name) != "bundled"}
    given = ",".join(f"{name}={layer}" for name, layer in layers.items())
    chosen = parse_agent(f"LitaAgentHRL:{given}").params if given else {}  # with absolute paths
    mode = {"mode": "sample"} if options.sample else {}
    return replace(named, params={**named.params, **chosen, **mode, "seed": options.seed})


# -- output --


def _say(*parts: RenderableType) -> None:
    """In colour and boxes where a terminal shows them, else as plain text."""
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else _WIDTH
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, highlight=False, emoji=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))
    assert isinstance(console.file, io.StringIO)
    log.info("%s", console.file.getvalue().rstrip("\n"))


def _kind(adapter: Any) -> str:
    return tracker.base_class(type(adapter.adapted_object)).__name__


def _level(world: Any, agent: Any) -> int:
    return int(world.agent_profiles[agent.id].input_product)


def _introduction(world: Any, agent: Any) -> Iterator[str]:
    mine, n_levels = world.agent_profiles[agent.id], world.n_processes
    place = {0: "first", n_levels - 1: "last"}.get(_level(world, agent), "middle")
    name = tracker.base_class(type(agent)).__name__
    yield (
        f"We are [bold]{escape(agent.id)}[/], {escape(name)}, on level {_level(world, agent)} of 0..{n_levels - 1}: "
        f"{mine.n_lines} lines, {mine.cost:.0f} to make a piece. {_TASKS[place]}"
    )
    layers = agent.layers
    yield "L2 {}, L3 {}, L4 {}".format(*(layer_name(layer) for layer in (layers.l2, layers.l3, layers.l4)))
    for level in range(n_levels):
        there = [a for a in world.non_system_agents if _level(world, a) == level]
        yield f"level {level}: " + escape(", ".join(f"{a.id} {_kind(a)}" for a in there))
    yield "Offers are written pieces x price @ day of delivery."


def _ending(world: Any, agent: Any, days: Sequence[DayStory]) -> Iterator[RenderableType]:
    scores = world.scores()
    yield ""
    yield _summary(totals_of(days), agent)
    table = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None)
    for name in ("rank", "level", "score"):
        table.add_column(name, justify="right")
    table.add_column("factory")
    table.add_column("agent")
    ranked = sorted(world.non_system_agents, key=lambda a: -scores[a.id])
    for rank, other in enumerate(ranked, 1):
        style = "bold green" if other.id == agent.id else ""
        figures = str(rank), str(_level(world, other)), f"{scores[other.id]:.3f}"
        table.add_row(*figures, escape(other.id), _kind(other), style=style)
    yield table
    yield "Scores of one world say little: `echelon hrl compete` plays many, in the same seats, with intervals."


def _summary(total: Totals, agent: Any) -> str:
    bought = f"bought {total.bought} at {total.bought_at:.2f} of spot" if total.bought else "bought nothing"
    sold = f"sold {total.sold} at {total.sold_at:.2f} of spot" if total.sold else "sold nothing"
    trouble = f"; the rules replaced a failing layer {agent.fallbacks} times" if agent.fallbacks else ""
    return (
        f"In {total.contracts} contracts we {bought} and {sold}; we paid {total.shortfall:,.0f} for shortfall and "
        f"{total.storage:,.0f} for storage{trouble}."
    )
