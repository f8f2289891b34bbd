"""A small round of real worlds, played once for all tests of this folder."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from echelon.hrl_xf.online.wishes import SeatWishes
from echelon.hrl_xf.online.worlds import Weights, WorldTask, play_round_world
from echelon.hrl_xf.options.online import OnlineOptions
from echelon.hrl_xf.weights import BUNDLED, layer_in

TASK = WorldTask("GreedyStdAgent,SyncRandomStdAgent", 5, 0, "each-level", 12, draws=7)


def options(folder: Path, **changes: object) -> OnlineOptions:
    """A training of seconds."""
    small = OnlineOptions(
        output_dir=folder, rounds=2, field="GreedyStdAgent", configurations=1, group=2, steps=8, critic_rounds=0,
        l4_rounds=0, validate_every=0, validation_worlds=1, validation_fields="GreedyStdAgent", past=0.5, past_every=1,
        parallelism="serial", minibatch=64, quiet=True,
    )  # fmt: skip
    return replace(small, **changes)  # type: ignore[arg-type]


def bundled(log_std: float = -1.2) -> Weights:
    l2, l3, l4 = (layer_in(BUNDLED, level).read_bytes() for level in ("l2", "l3", "l4"))
    return Weights(l2, l3, l4, log_std)


@cache
def seats() -> tuple[SeatWishes, ...]:
    """What our seats drew in one world of twelve days."""
    return tuple(play_round_world(TASK, bundled()))
