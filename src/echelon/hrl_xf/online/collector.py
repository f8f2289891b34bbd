"""A round of worlds: planned, played by the executor's workers, and turned into the levels' batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.layers.l3_situation import Mode
from echelon.hrl_xf.online.critic import MomentCritic
from echelon.hrl_xf.online.returns import Moments, Seat, moments_of
from echelon.hrl_xf.online.rollout import rollout_of
from echelon.hrl_xf.online.wishes import SeatWishes, Table
from echelon.hrl_xf.online.worlds import Weights, WorldTask, play_round_world
from echelon.hrl_xf.options.online import OnlineOptions
from echelon.onpolicy.batch import Rollout
from echelon.runtime.arrays import Floats
from echelon.runtime.execution.executors import NamedExecutor
from echelon.runtime.progress import WorkProgress
from echelon.runtime.seeding import rng, task_seed

log = logging.getLogger(__name__)
MAX_PAST = 8


@dataclass(frozen=True)
class RoundData:
    """What a round gave in addition to the batches."""

    seats: list[Seat]
    table: Table
    """moments of all seats, as the critic sees them"""
    moments: Moments
    failed: int


class RoundCollector:
    """Plays rounds with the current weights; `last` is the data of the newest."""

    def __init__(
        self,
        options: OnlineOptions,
        executor: NamedExecutor,
        weights: Callable[[], Weights],
        critic: MomentCritic,
        horizon: int,
        mode: Mode,
    ) -> None:
        self.options, self.executor, self.weights, self.critic = options, executor, weights, critic
        self.horizon, self.mode = horizon, mode
        self.last: RoundData | None = None
        self.past: list[Weights] = []

    def collect(self, version: int, steps: int) -> Rollout:
        """Play the worlds of round `version`; a world that fails is reported, and the round goes without it."""
        options, weights = self.options, self.weights()
        if options.past > 0 and version % options.past_every == 0:
            self.past = [*self.past, weights][-MAX_PAST:]
        tasks = round_tasks(options, version)
        if len(tasks) != steps:
            raise ValueError(f"a round has {len(tasks)} worlds, not {steps}")
        played = play_all(
            self.executor, play_round_world, [(task, weights, self.past) for task in tasks], options.world_timeout,
            options.quiet,
        )  # fmt: skip
        seats = [
            Seat(f"{task.field} {task.index}", number, wishes)
            for task, found in zip(tasks, played, strict=True)
            for number, wishes in enumerate(found or ())
            if len(wishes.wishes["moment"])
        ]
        if not seats:
            raise RuntimeError(f"no world of round {version} could be played; see the errors above")
        self.last = self._valued(seats, version, sum(found is None for found in played))
        return rollout_of([s.wishes for s in seats], self.last.moments, version, self.horizon, self.mode)

    def _valued(self, seats: list[Seat], version: int, failed: int) -> RoundData:
        wishes = [seat.wishes for seat in seats]
        table = joined_moments(wishes)
        flat = self.critic.values(table)
        sizes = np.cumsum([len(w.moments["day"]) for w in wishes])[:-1]
        rewards = None if self.options.reward == "profit" else noise_rewards(wishes, self.options.seed, version)
        grouped = self.options.group > 1
        moments = moments_of(seats, np.split(flat, sizes), self.options.gae_lambda, grouped, rewards)
        return RoundData(seats, table, moments, failed)

    def state_dict(self) -> dict[str, Tensor]:
        """The past versions; everything else follows from the number of the round."""
        state: dict[str, Tensor] = {"past": torch.tensor(len(self.past))}
        for i, weights in enumerate(self.past):
            for name in ("l2", "l3", "l4"):
                state[f"past.{i}.{name}"] = torch.from_numpy(np.frombuffer(getattr(weights, name), np.uint8).copy())
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        self.past = [
            Weights(**{name: state[f"past.{i}.{name}"].numpy().tobytes() for name in ("l2", "l3", "l4")})  # type: ignore[arg-type]
            for i in range(int(state["past"]))
        ]


def round_tasks(options: OnlineOptions, round_: int) -> list[WorldTask]:
    """The worlds of a round: configurations that no other round plays, each with several draws."""
    seed = task_seed(options.seed, "online training")
    tasks = []
    for i in range(options.configurations):
        index = round_ * options.configurations + i
        field = options.fields[index % len(options.fields)]
        for member in range(options.group):
            draws = task_seed(options.seed, "draws", index, member)
            tasks.append(WorldTask(field, seed, index, options.seats, options.steps, draws, options.past))
    return tasks


def play_all(
    executor: NamedExecutor,
    play: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    timeout: float,
    quiet: bool = True,
) -> list[Any]:
    """Play worlds on all workers; results in the order of the calls, None where a world failed."""
    results: list[Any] = []
    limit = None if executor.in_process else timeout
    with WorkProgress("worlds", len(calls), quiet=quiet, every=60.0) as progress:
        waiting: list[tuple[str, Future[Any]]] = []
        for args in calls:
            waiting.append((args[0].name, executor.start(args[0].name, limit, play, *args)))
        for name, future in waiting:
            try:
                results.append(future.result())
                progress.done()
            except Exception as error:  # noqa: BLE001 - a world that fails does not stop the round
                log.error("%s failed: %s: %s", name, type(error).__name__, error)
                results.append(None)
                progress.failed()
    return results


def joined_moments(wishes: Sequence[SeatWishes]) -> Table:
    """The moments of seats below each other."""
    return {name: np.concatenate([w.moments[name] for w in wishes]) for name in wishes[0].moments}


def noise_rewards(wishes: Sequence[SeatWishes], seed: int, round_: int) -> list[Floats]:
    """Random rewards of the size of real ones, for the control that must learn nothing."""
    draw = rng(seed, "noise", round_)
    return [0.02 * draw.standard_normal(len(w.days["z"])) for w in wishes]
