"""What the layers thought, beside the tracker's log of the same seat and the layers themselves."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.arena.plan import ArenaPlan, configuration, parse_field
from echelon.hrl_xf.arena.seat import SeatRecord
from echelon.hrl_xf.arena.world import ArenaResult, play
from echelon.hrl_xf.competitors.specs import parse_agent
from echelon.hrl_xf.play.diary import AgentDiary, read_diary
from echelon.hrl_xf.recording.log_files import find_logs, read_log
from echelon.hrl_xf.state.day_batch import Ledger, day_batch
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.schema import AgentLog, DailyStatusEntry, DecisionEntry, NegotiationSuccessEntry
from tests.hrl_xf.play.agent_cases import ours, variant
from tests.hrl_xf.play.agent_cases import play as play_in_any_world

MADE = configuration(ArenaPlan(parse_field("PenguinAgent,AS0"), "each-level", 6, 2), 0)
KEPT = "all=LitaAgentHRL"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arena")


@pytest.fixture(scope="module")
def played(folder: Path) -> ArenaResult:
    """The bundled agent on every level of a small world."""
    return play(MADE, parse_agent(KEPT), folder)


def both(folder: Path, seat: SeatRecord) -> tuple[AgentLog, AgentDiary]:
    assert seat.log_file is not None
    assert seat.diary_file is not None
    log, _ = read_log(folder, seat.log_file)
    return log, read_diary(folder / seat.diary_file)


def test_files_are_where_the_record_says(folder: Path, played: ArenaResult) -> None:
    for seat in played.seats:
        log, diary = both(folder, seat)
        assert seat.log_file == f"tracker_logs/00000_all/agent_{seat.agent_id}_world_arena-00000.json.gz"
        assert seat.diary_file == f"tracker_logs/00000_all/diary_{seat.agent_id}_world_arena-00000.json.gz"
        assert (diary.agent_id, diary.world_id, diary.config_id) == (log.agent_id, log.world_id, log.config_id)
        assert diary.competitor == "all"
    logs = {file.path for file in find_logs(folder)}
    assert logs == {seat.log_file for seat in played.seats}, "a diary is not taken for a log"


def test_every_answer_that_left_was_thought_of(folder: Path, played: ArenaResult) -> None:
    """By day, partner and round; what is not, repeats the promise of an earlier round."""
    matched = repeated = 0
    for seat in played.seats:
        log, diary = both(folder, seat)
        thoughts = {(call.day, t.partner, t.round): t for call in diary.calls for t in call.threads}
        promised: dict[tuple[int, str], Any] = {}
        for entry in (e for e in log.entries if isinstance(e, DecisionEntry) and e.data.sent):
            said = entry.data
            thought = thoughts.get((entry.day, said.partner, said.round))
            sent = said.offer if said.answer == "ACCEPT" else said.counter_offer
            if thought is None:
                assert sent == promised[entry.day, said.partner]
                repeated += 1
                continue
            assert (thought.role, thought.answer, thought.answer_offer) == (said.role, said.answer, sent)
            promised[entry.day, said.partner] = sent
            matched += 1
    assert matched > 100
    assert repeated <= matched / 10


def test_limits_are_those_l1_gives_for_the_log_s_day(folder: Path, played: ArenaResult) -> None:
    """The first call of a day, before any deal; then that deals only shrink money and the own side's room."""
    looked = 0
    for seat in played.seats:
        log, diary = both(folder, seat)
        states = {e.day: e.data for e in log.entries if isinstance(e, DailyStatusEntry)}
        firsts = {call.day: call for call in reversed(diary.calls)}
        for day, call in firsts.items():
            days = day_batch([states[day]])
            limits = L1SafetyLayer().limits(days, Ledger.empty(days))
            assert call.B_free == pytest.approx(float(limits.B_free[0]), abs=0.01)
            for side, room in ((call.buyer, limits.Q_safe), (call.seller, limits.Q_safe_sell)):
                if side is None:
                    continue
                assert 1 <= len(side.safe) <= 11, "as far as the issues go"
                allowed = np.floor(room[0, : len(side.safe)])
                assert all(safe in (0, most) for safe, most in zip(side.safe, allowed, strict=True))
                if side.baseline is not None:
                    quantity, time, _ = side.baseline
                    assert 1 <= quantity <= side.safe[time - day]
                looked += any(side.safe)
        bought = {e.day for e in log.entries if isinstance(e, NegotiationSuccessEntry) and e.data.role == "buyer"}
        for day in bought:
            money = [call.B_free for call in diary.calls if call.day == day]
            assert money[0] >= money[-1]
    assert looked > 5


def test_probabilities_goals_and_shares_are_what_they_are_called(folder: Path, played: ArenaResult) -> None:
    for seat in played.seats:
        _, diary = both(folder, seat)
        assert set(diary.goals) == {call.day for call in diary.calls}
        assert all(len(goal) == 16 for goal in diary.goals.values())
        for call in diary.calls:
            for thought in call.threads:
                assert thought.ops is not None
                assert sum(thought.ops) == pytest.approx(1.0, abs=2e-4)
                chosen = ("ACCEPT", "REJECT", "END").index(thought.wish)
                assert thought.ops[chosen] == max(thought.ops), "a greedy agent"
                assert thought.offer is not None or thought.ops[0] == 0.0, "nothing to accept"
                assert (thought.wish_offer is None) == (thought.wish == "END")
            for role in ("buyer", "seller"):
                shares = [t.alpha for t in call.threads if t.role == role]
                assert all(share >= 0 for share in shares)


def test_keeping_logs_changes_nothing_and_rules_weigh_nothing(folder: Path, played: ArenaResult) -> None:
    without = play(MADE, parse_agent(KEPT))
    assert without.scores == played.scores
    assert all(seat.log_file is None and seat.diary_file is None for seat in without.seats)
    rules = play(MADE, parse_agent("rules=LitaAgentRules"), folder)
    _, diary = both(folder, rules.seats[0])
    assert {t.ops for call in diary.calls for t in call.threads} == {None}
    penguin = play(MADE, parse_agent("PenguinAgent"), folder)
    assert all(seat.log_file and seat.diary_file is None for seat in penguin.seats)


def test_who_only_looks_on_cannot_spoil_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("the diary is full")

    class Watched(LitaAgentHRL):
        def init(self) -> None:
            super().init()
            self.on_decided = fail

    agents: list[type[Any]] = [
        variant(cls, l2="heuristic", l3="heuristic", l4="heuristic") for cls in (LitaAgentHRL, Watched)
    ]
    with caplog.at_level(logging.WARNING):
        plain, watched = (play_in_any_world([cls, "SyncRandomStdAgent"], n_steps=5) for cls in agents)
    assert plain.scores() == watched.scores()
    assert caplog.text.count("the observer failed") == len(ours(watched)), "it is asked once"
    assert all(agent.fallbacks == agent.errors == 0 for agent in ours(watched))


def test_a_file_that_is_not_a_diary_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "diary_x.json.gz"
    for content in (b"no gzip", gzip.compress(b'{"calls": 3}'), gzip.compress(b"{}")[:-4]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"diary_x\.json\.gz is not a diary"):
            read_diary(file)
