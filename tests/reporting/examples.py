"""Small run folders, made up or of the tests' own logs: nothing is played for them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from echelon.hrl_xf.arena_seat import Losses
from echelon.hrl_xf.arena_world import ArenaResult
from echelon.runtime.metrics import MetricsWriter
from tests.hrl_xf.arena_examples import result, seat

LOST = Losses(shortfall=8.0, storage=2.0, price_bought=-5.0, price_sold=1.0, idle_lines=10.0, leftover=4.0)


def arena_results() -> list[ArenaResult]:
    """Three competitors in three configurations of two levels and two days; Ours is always .1 below Best."""
    found = []
    for index, luck in enumerate((0.0, 0.2, 0.4)):
        for name, skill in (("Ours", 1.0), ("Best", 1.1), ("</script><b>Worst", 0.5)):
            score = skill + luck
            seats = [
                seat(score - 0.1, "first", 0, losses=LOST, balance=[100.0, 100 * score], inventory_input=[4, 2]),
                seat(score + 0.1, "last", 1, balance=[100.0, 100 * score], inventory_output=[0, 6]),
            ]
            found.append(result(name, index, *seats))
    return found


def write_arena(folder: Path, results: Iterable[ArenaResult], agents: Iterable[str] = ("Ours",)) -> Path:
    """An arena's folder as `compete` leaves it when it is stopped before its tables."""
    (folder / "worlds").mkdir(parents=True)
    labels = set()
    for number, played in enumerate(results):
        (folder / "worlds" / f"{played.index:05d}_{number}.json").write_bytes(msgspec.json.encode(played))
        labels.add(played.competitor)
    options = {"field": "AS0,PenguinAgent", "seats": "each-level", "steps": 2, "seed": 0}
    (folder / "config.json").write_text(json.dumps({"format_version": 1, "kind": "arena", "options": options}))
    known = {label: {"agent": f"{'echelon' if label in agents else 'other'}.{label}"} for label in sorted(labels)}
    (folder / "competitors.json").write_text(json.dumps({"format_version": 1, "competitors": known}))
    return folder


def write_training(folder: Path, losses: Iterable[float]) -> Path:
    """A training run of L2."""
    folder.mkdir(parents=True)
    with MetricsWriter(folder, tensorboard=False) as metrics:
        for epoch, loss in enumerate(losses, start=1):
            metrics.record("l2_bc/train_loss", loss, epoch)
            metrics.record("l2_bc/val_loss", loss + 0.5, epoch)
            metrics.record("l2_bc/train_mae_q", loss, epoch)
    return folder
