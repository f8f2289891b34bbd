"""What the layers of one LitaAgentHRL computed in one world: the arena keeps it with the tracker's log.

    diary = Diary()
    agent.on_decided = diary.note
    …play…
    write_diary(path, diary.finish(agent_id=…, competitor=…, world_id=…, config_id=…, seed=…))

A thought belongs to the decision of the log with the same day, partner and round. Where the agent was asked twice in
one round, the last thought is the one whose answer left. A thread that is not asked again keeps its promise and has no
thought of its own.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import numpy as np

from echelon.hrl_xf.play.day import AnsweredCall, DayPlay
from echelon.hrl_xf.state.day_state import ANSWERS, Answer, Offer, Role
from echelon.hrl_xf.state.reservation import Wish
from echelon.runtime.files import write_atomic

FORMAT_VERSION = 1
_DIGITS = 4


class SideLimits(msgspec.Struct, frozen=True, kw_only=True):
    """L1's view of one side when a call began: after the deals signed so far, before anything of this call."""

    safe: list[int]
    """pieces that may be traded for delivery 0, 1, … days from now; 0 on days that are closed"""
    baseline: Offer | None
    """L1's own offer (quantity, day, unit price); none where nothing can be traded"""


class Thought(msgspec.Struct, frozen=True, kw_only=True):
    """One thread of a call, from the offer on the table to the answer."""

    partner: str
    role: Role
    """the agent's"""
    round: int
    relative_time: float
    offer: Offer | None
    """on the table"""
    alpha: float
    """L4's share"""
    ops: list[float] | None
    """L3's probabilities of ACCEPT, REJECT, END; None where a rule decided, also because a layer had failed"""
    wish: Answer
    """what L3 chose"""
    wish_offer: Offer | None
    """with it: the offer to be made or accepted"""
    answer: Answer
    """what is left of it after the reservation"""
    answer_offer: Offer | None


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """All threads that were answered together."""

    day: int
    B_free: float
    """money that may still be spent"""
    buyer: SideLimits | None
    """limits of the threads in which the agent buys; None if there are none in this call"""
    seller: SideLimits | None
    threads: list[Thought]


class AgentDiary(msgspec.Struct, frozen=True, kw_only=True):
    """diary_<agent>_world_<world>.json.gz"""

    format_version: int = FORMAT_VERSION
    agent_id: str
    competitor: str
    """its label"""
    world_id: str
    config_id: str
    seed: int
    goals: dict[int, list[float]]
    """L2's goal by day: 4 buckets of days ahead × [Q_buy, P_buy, Q_sell, P_sell]"""
    calls: list[Call]
    """in order"""


class Diary:
    """Listens to an agent's `on_decided`."""

    def __init__(self) -> None:
        self._goals: dict[int, list[float]] = {}
        self._calls: list[Call] = []

    def note(self, play: DayPlay, decided: AnsweredCall) -> None:
        """Write down one call."""
        if play.step not in self._goals:
            self._goals[play.step] = _rounded(play.goal[0].tolist())
        self._calls.append(
            Call(
                day=play.step,
                B_free=round(float(decided.l1.B_free[0]), 2),
                buyer=_limits(play, decided, seller=False),
                seller=_limits(play, decided, seller=True),
                threads=_thoughts(decided),
            )
        )

    def finish(self, *, agent_id: str, competitor: str, world_id: str, config_id: str, seed: int) -> AgentDiary:
        """The whole diary."""
        return AgentDiary(
            agent_id=agent_id,
            competitor=competitor,
            world_id=world_id,
            config_id=config_id,
            seed=seed,
            goals=self._goals,
            calls=self._calls,
        )


def _limits(play: DayPlay, decided: AnsweredCall, *, seller: bool) -> SideLimits | None:
    """The view of one side, which all its threads share."""
    rows = np.flatnonzero(decided.l1.seller == seller)
    if not len(rows):
        return None
    out = decided.l1.take(rows[:1])
    days = int(decided.situation.issues[rows[0], 3]) + 1
    safe = np.where(out.open[0], np.maximum(out.safe[0], 0.0), 0.0)
    pieces = np.floor(safe[: max(0, days)]).astype(np.int64).tolist()
    return SideLimits(safe=pieces, baseline=play.layer.legal_baseline(out).outcome(0, play.step))


def _thoughts(decided: AnsweredCall) -> list[Thought]:
    K = len(decided.questions)
    logs = decided.actions.op_log_probs
    ops = [None] * K if logs is None else [_rounded(row) for row in np.exp(logs).tolist()]
    rows = zip(decided.questions, decided.wishes, decided.answers, ops, strict=True)
    return [
        Thought(
            partner=question.partner,
            role="seller" if decided.l1.seller[i] else "buyer",
            round=question.round,
            relative_time=round(question.relative_time, _DIGITS),
            offer=question.offer,
            alpha=round(float(decided.alpha[i]), _DIGITS),
            ops=chances,
            wish=_answer(wish),
            wish_offer=wish.offer,
            answer=_answer(answer),
            answer_offer=answer.offer,
        )
        for i, (question, wish, answer, chances) in enumerate(rows)
    ]


def _answer(wish: Wish) -> Answer:
    return ANSWERS[wish.op]


def _rounded(numbers: list[float]) -> list[float]:
    return [round(number, _DIGITS) for number in numbers]


def write_diary(path: Path, diary: AgentDiary) -> None:
    """Write it atomically."""
    write_atomic(path, gzip.compress(msgspec.json.encode(diary), compresslevel=6, mtime=0))


def read_diary(path: Path) -> AgentDiary:
    """A diary from its file; an error names it."""
    try:
        diary = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=AgentDiary)
    except (msgspec.DecodeError, OSError, EOFError) as error:
        raise ValueError(f"{path} is not a diary ({error})") from error
    if diary.format_version != FORMAT_VERSION:
        raise ValueError(f"{path} has format_version {diary.format_version}, this Echelon reads {FORMAT_VERSION}")
    return diary
