"""The rules as teachers: labels made from a log are what the rules wished when the log was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from echelon.hrl_xf.agent import LitaAgentRules
from echelon.hrl_xf.batches import L2Source, L3Source
from echelon.hrl_xf.data_pipeline import macro_of, micro_of, open_tournament
from echelon.hrl_xf.day_play import Decided
from echelon.hrl_xf.l1_safety import REJECT
from echelon.hrl_xf.l2_manager import HeuristicManager
from echelon.hrl_xf.reservation import Wish
from echelon.hrl_xf.schema import encode_log
from echelon.hrl_xf.tournament_data import TournamentData
from tests.hrl_xf.agent_cases import Watched, log_of, ours, play, variant

Said = dict[tuple[str, int, int, str], tuple[Wish, Wish]]
"""by agent, day, call and partner: what was wished, and what was left of it"""


class Wishful(Watched, LitaAgentRules):
    """Keeps its wishes by day, call and partner."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.said: dict[tuple[int, int, str], tuple[Wish, Wish]] = {}

    def note(self, day: int, call: int, decided: Decided) -> None:
        for partner, wish, answer in zip(decided.partners, decided.wishes, decided.answers, strict=True):
            self.said[day, call, partner] = wish, answer


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Said, TournamentData]:
    """A world of the rules, live and as data that the rules are to explain; goals are the rules' own."""
    world = play([variant(Wishful), "PenguinAgent", "AS0"], n_steps=12, per_level=4, seed=8)
    folder: Path = tmp_path_factory.mktemp("rules_logs")
    said: Said = {}
    for agent in ours(world):
        (folder / f"agent_{agent.id}_world_w.json").write_bytes(encode_log(log_of(agent)))
        said |= {(agent.id, *key): wishes for key, wishes in agent.said.items()}
    data = open_tournament(folder, "Variant", 1, quiet=True)
    data.goals = HeuristicManager().goals_of_days(data.tables.days(np.arange(data.tables.store.rows("day"))))
    return said, data


def test_labels_are_the_wishes_before_reservation(played: tuple[Said, TournamentData]) -> None:
    said, data = played
    micro = micro_of(data)
    data.teacher = "rules"
    source = L3Source(micro, "direct")
    at = np.arange(len(micro))
    rows = source.load(at).rows
    q, p = (rows.inputs.legal.first_q + rows.dq).tolist(), (rows.inputs.legal.first_p + rows.dp).tolist()
    moments = data.tables.moments(micro.rows)
    held_back = offers = 0
    for i, (thread, call) in enumerate(zip(moments.thread.tolist(), moments.call.tolist(), strict=True)):
        _, day, agent, partner = data.negotiation_id(thread).split("/")
        wish, answer = said[agent, int(day), call, partner]
        assert int(rows.op[i]) == wish.op
        held_back += wish != answer
        if wish.op == REJECT and bool(rows.offer_counts[i]):
            assert wish.offer == (q[i], int(day) + int(rows.day[i]), p[i])
            offers += 1
    assert offers > 100
    assert held_back > 10, "the log alone would have taught something else"
    data.teacher = "logs"
    assert not torch.equal(L3Source(micro, "direct").load(at).rows.op, rows.op)


def test_l2_learns_the_goals_of_the_rules(played: tuple[Said, TournamentData]) -> None:
    _, data = played
    macro = macro_of(data)
    at = np.array([5, 0, 3])
    logged = L2Source(macro).load(at).goal
    data.teacher = "rules"
    taught = L2Source(macro).load(at).goal
    data.teacher = "logs"
    assert data.goals is not None
    assert np.array_equal(taught, data.goals[macro.rows[at]])
    assert not torch.equal(taught, logged)
