"""One world of a round, played in a worker by one version of the policy; and one of a validation, by the modes.

A world is a function of its task alone: which configuration, which weights, whose draws. So a round gives the same
wishes whoever plays it, in whichever order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.arena.plan import ArenaConfiguration, ArenaPlan, configuration, parse_field
from echelon.hrl_xf.arena.world import start
from echelon.hrl_xf.competitors import roster
from echelon.hrl_xf.competitors.specs import AgentSpec, parse_agent
from echelon.hrl_xf.layers.l2_play import PlayManager
from echelon.hrl_xf.layers.l3_play import PlayExecutor
from echelon.hrl_xf.layers.l4_play import PlayCoordinator
from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.layers.weight_files import player_of_bytes
from echelon.hrl_xf.online.exploring import ExploringCoordinator, ExploringManager
from echelon.hrl_xf.online.wishes import SeatRecorder, SeatWishes
from echelon.hrl_xf.options.compete import Seats
from echelon.runtime.seeding import rng, seed_everything, task_seed

Kinds = ("GreedyStdAgent", "RandomStdAgent", "SyncRandomStdAgent", "ours", "rival")
"""The kinds of agents in a world that the critic distinguishes."""
CENTRAL = 3 * len(Kinds) + 3


@dataclass(frozen=True)
class Weights:
    """The three layers as their files' bytes, and the deviation of L4's draws: all a worker needs to play."""

    l2: bytes
    l3: bytes
    l4: bytes
    l4_log_std: float = 0.0

    def players(self) -> tuple[PlayManager, PlayExecutor, PlayCoordinator]:
        """The layers in numpy, read once per process."""
        return _read(self.l2, self.l3, self.l4)

    def layers(self) -> Layers:
        """The layers as an agent plays with them in a tournament."""
        return Layers(*self.players())


@functools.lru_cache(maxsize=12)
def _read(l2: bytes, l3: bytes, l4: bytes) -> tuple[PlayManager, PlayExecutor, PlayCoordinator]:
    return (
        player_of_bytes(PlayManager, l2),
        player_of_bytes(PlayExecutor, l3),
        player_of_bytes(PlayCoordinator, l4),
    )


@dataclass(frozen=True)
class WorldTask:
    """Which world is to be played."""

    field: str
    """league, champions, or names of agents"""
    seed: int
    """of the configurations; those of training, validation and test differ"""
    index: int
    """which configuration"""
    seats: Seats
    steps: int | None
    draws: int | None
    """seed of our draws; None: every layer takes its mode"""
    past: float = 0.0
    """share of the rivals' seats that past versions of ours hold, if there are any"""

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"world {self.field} {self.seed}/{self.index}" + ("" if self.draws is None else f" draws {self.draws}")

    def configuration(self) -> ArenaConfiguration:
        return configuration(ArenaPlan(parse_field(self.field), self.seats, self.steps, self.seed), self.index)


@dataclass(frozen=True)
class PlayedSeat:
    """One of our seats in a validation."""

    place: int
    score: float
    fallbacks: int


def play_round_world(task: WorldTask, weights: Weights, past: Sequence[Weights] = ()) -> list[SeatWishes]:
    """Play a world with draws; what each of our seats drew."""
    if task.draws is None:
        raise ValueError(f"{task.name} has no seed of draws; use play_greedily")
    made, world, agents = _built(task, past)
    recorders = [_attach(agent, weights, task.draws, i) for i, agent in enumerate(agents)]
    world.run()
    scores = world.scores()
    return [
        recorder.finish(float(scores[recorder.agent.id]), central_inputs(made, seat))
        for recorder, seat in zip(recorders, made.focal, strict=True)
    ]


def play_greedily(task: WorldTask, weights: Weights) -> list[PlayedSeat]:
    """Play a world as the agent plays in a tournament."""
    return play_with(task, weights.layers())


def play_with(task: WorldTask, layers: Layers) -> list[PlayedSeat]:
    """Play a world with these layers in our seats."""
    return play_seats(task, lambda seat: layers)


def play_seats(task: WorldTask, layers_of: Callable[[int], Layers]) -> list[PlayedSeat]:
    """Play a world with these layers in each of our seats.

    Each day begins with random numbers of its own, whatever was drawn on the days before, so that chance is more alike
    in two plays of a world that differ in our answers.
    """
    _, world, agents = _built(task, ())
    for seat, agent in enumerate(agents):
        agent.layers = layers_of(seat)
    for day in range(world.n_steps):
        seed_everything(task_seed(task.index + 1, "day", day) % 2**32)
        if not world.step():
            break
    scores = world.scores()
    return [PlayedSeat(_place(a), float(scores[a.id]), a.fallbacks + a.errors) for a in agents]


def _built(task: WorldTask, past: Sequence[Weights]) -> tuple[ArenaConfiguration, Any, list[LitaAgentHRL]]:
    made = task.configuration()
    ours = parse_agent("LitaAgentHRL")
    replaced: dict[int, Weights] = {}
    if past and task.past > 0:
        draw = rng(task.seed, "past versions", task.index)
        for seat, spec in enumerate(made.background):
            if spec is not None and spec.label not in roster.FILL_UPS and draw.random() < task.past:
                replaced[seat] = past[int(draw.integers(len(past)))]
    if replaced:
        background = tuple(ours if seat in replaced else spec for seat, spec in enumerate(made.background))
        made = ArenaConfiguration(made.index, made.seed, made.params, made.levels, made.focal, background)
    world = start(made, ours, record=False)
    agents = [adapter.adapted_object for adapter in world.non_system_agents]
    for seat, weights in replaced.items():
        agents[seat].layers = weights.layers()
    return made, world, [agents[seat] for seat in made.focal]


def _attach(agent: LitaAgentHRL, weights: Weights, draws: int, seat: int) -> SeatRecorder:
    """Let the agent draw from the weights, and somebody listen."""
    recorder, (l2, l3, l4) = SeatRecorder(agent), weights.players()
    agent.mode = "sample"
    agent.layers = recorder.layers = Layers(
        ExploringManager(l2, rng(draws, "l2", seat), recorder.dawn),
        l3,
        ExploringCoordinator(l4, weights.l4_log_std, rng(draws, "l4", seat), recorder.divided),
    )
    agent.reseed(task_seed(draws, "l3", seat))
    agent.on_decided = recorder.decided
    return recorder


def _place(agent: Any) -> int:
    return 0 if agent.awi.is_first_level else 2 if agent.awi.is_last_level else 1


def central_inputs(made: ArenaConfiguration, seat: int) -> NDArray[np.float32]:
    """What the critic may know of a seat: who sits on the level before, on the same one and on the next one, and where
    it is in the chain.  # (CENTRAL,)"""
    counts = np.zeros((3, len(Kinds)), np.float32)
    level = made.levels[seat]
    for other, (at, spec) in enumerate(zip(made.levels, made.background, strict=True)):
        if other != seat and abs(at - level) <= 1:
            counts[at - level + 1, _kind(spec)] += 0.2
    last = max(made.levels)
    where = (level / max(last, 1), last / 4.0, np.float32(level == last))
    return np.concatenate([counts.ravel(), np.array(where, np.float32)])


def _kind(spec: AgentSpec | None) -> int:
    if spec is None or spec.label == "LitaAgentHRL":
        return Kinds.index("ours")
    return Kinds.index(spec.label) if spec.label in Kinds else Kinds.index("rival")
