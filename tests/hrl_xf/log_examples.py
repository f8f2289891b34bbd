"""Real logs for the tests of the pipeline: `short` are three worlds of 10 days, `long` two Penguins of 50."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from echelon.hrl_xf.dataset.tournament import TournamentData, open_tournament
from echelon.hrl_xf.options.train import TrainConfig, TrainOptions
from echelon.hrl_xf.state.schema import (
    AgentLog,
    DailyStatusEntry,
    DecisionEntry,
    Entry,
    NegotiationSuccessEntry,
    decode_log,
    encode_log,
)

LOGS = Path(__file__).parent.parent / "data" / "logs"
SHORT, LONG = LOGS / "short", LOGS / "long"
PENGUIN_FIRST = SHORT / "tracker_logs" / "agent_00Pe@0_world_w00003-s0-c0000-r0.json.gz"
RANDOM = SHORT / "tracker_logs" / "agent_04Ra@1_world_w00003-s0-c0000-r0.json.gz"
PENGUIN_MIDDLE = LONG / "tracker_logs" / "agent_05Pe@1_world_w00014-s2025-c0001-r0.json.gz"


@cache
def text_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def log_of(path: Path) -> AgentLog:
    """A fresh copy each time: entries may be changed by a test."""
    return decode_log(text_of(path))


def with_entries(log: AgentLog, entries: Sequence[Entry]) -> AgentLog:
    """The log with other entries, and stats that agree with them."""
    answers = [e.data.answer for e in entries if isinstance(e, DecisionEntry)]
    stats = msgspec.structs.replace(
        log.stats,
        days=sum(isinstance(e, DailyStatusEntry) for e in entries),
        decisions=len(answers),
        accepts=answers.count("ACCEPT"),
        rejects=answers.count("REJECT"),
        ends=answers.count("END"),
        deals=sum(isinstance(e, NegotiationSuccessEntry) for e in entries),
    )
    return msgspec.structs.replace(log, entries=list(entries), stats=stats)


def put(folder: Path, name: str, log: AgentLog | bytes) -> Path:
    """Write a log as a collection would."""
    path = folder / "tracker_logs" / f"agent_{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(log if isinstance(log, bytes) else encode_log(log))
    return path


@contextmanager
def plain_logging() -> Iterator[None]:
    """The package's logger as a script finds it; a command that ran before in this process may have set it up."""
    logger = logging.getLogger("echelon")
    before = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [], True
    logger.setLevel(logging.NOTSET)
    yield
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def train_options(**given: Any) -> TrainOptions:
    """Options of `hrl train` on these logs; what belongs to the training itself goes into its config."""
    config = {name: given.pop(name) for name in list(given) if name in TrainConfig.__dataclass_fields__}
    config = {"resume": True, "check_goals": True} | config
    return TrainOptions(**{"data_dir": LOGS, **given}, config=TrainConfig(**config))


def data_of(folder: Path, logs: Sequence[AgentLog], **options: Any) -> TournamentData:
    """The logs, through files and cache, as the pipeline gives them."""
    for i, log in enumerate(logs):
        put(folder, f"{i:03d}", log)
    return open_tournament(folder, logs[0].agent_type, 1, quiet=True, strict=True, **options)
