"""Small run folders, made up or of the tests' own logs: nothing is played for them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from echelon.hrl_xf.arena.seat import Losses
from echelon.hrl_xf.arena.world import ArenaResult
from echelon.hrl_xf.play.diary import AgentDiary, Call, SideLimits, Thought, write_diary
from echelon.hrl_xf.recording.log_columns import columns_of
from echelon.runtime.metrics import MetricsWriter
from tests.hrl_xf.arena.examples import result, seat
from tests.hrl_xf.log_examples import PENGUIN_FIRST, log_of

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


def with_log(arena: Path, played: ArenaResult) -> ArenaResult:
    """The result with a real log and a made-up diary of its first seat, both put into the arena's folder."""
    folder = arena / "tracker_logs"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(PENGUIN_FIRST, folder)
    write_diary(folder / "diary.json.gz", a_diary())
    first = msgspec.structs.replace(
        played.seats[0], log_file=f"tracker_logs/{PENGUIN_FIRST.name}", diary_file="tracker_logs/diary.json.gz"
    )
    return msgspec.structs.replace(played, seats=[first, *played.seats[1:]], background=["", "AS0", "", "AS0", "Far"])


def a_diary() -> AgentDiary:
    """In the first thread of the log, two thoughts about its first answer that was sent; the second one counted."""
    columns = columns_of(log_of(PENGUIN_FIRST))
    row = next(i for i, sent in enumerate(columns.column("sent")) if sent)
    day, partner, seller = columns.threads[columns.column("thread")[row]]
    limits = SideLimits(safe=[4, 9], baseline=(3, 1, 20))
    calls = [
        Call(
            day=columns.days[day].current_step, B_free=100.0, buyer=None, seller=limits,
            threads=[
                Thought(
                    partner=partner, role="seller" if seller else "buyer", round=int(columns.column("round")[row]),
                    relative_time=0.0, offer=None, alpha=alpha, ops=ops, wish="REJECT", wish_offer=(5, 1, 20),
                    answer="REJECT", answer_offer=(4, 1, 20),
                )
            ],
        )
        for alpha, ops in ((0.25, None), (0.75, [0.1, 0.7, 0.2]))
    ]  # fmt: skip
    return AgentDiary(
        agent_id=columns.agent_id, competitor="Ours", world_id=columns.world_id, config_id=columns.config_id, seed=0,
        goals={columns.days[day].current_step: [1.0] * 16}, calls=calls,
    )  # fmt: skip
