"""Play equals training: what the layers saw in a world, against the data set made of the log of that world.

A tracked agent plays with layers that are watched. Its log goes through files, cache and pipeline like any expert's.
Each decision of the data set must then show the networks the same numbers that they saw when it was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from echelon.hrl_xf.data_pipeline import load_tournament_data
from echelon.hrl_xf.dataset.datasets import L4Dataset, MicroDataset
from echelon.hrl_xf.dataset.tournament import Goals, TournamentData, open_tournament
from echelon.hrl_xf.layers.l3_situation import P_SIZE, Q_SIZE, Situation, context_of
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.layers.rules import HeuristicCoordinator, HeuristicManager
from echelon.hrl_xf.learning.sources import alphas_of, situation_of
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l3_inputs import legal_of
from echelon.hrl_xf.play.day import AnsweredCall
from echelon.hrl_xf.state.schema import encode_log
from echelon.hrl_xf.weights import BUNDLED, layer_in
from echelon.runtime.arrays import Float32
from tests.hrl_xf.layers.examples import wild
from tests.hrl_xf.play.agent_cases import Watched, log_of, ours, play, variant
from tests.hrl_xf.state.examples import same_bits
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric

Key = tuple[str, int, int]
"""agent, day, call of the day"""


class WatchedL3(TemporalDecisionTransformer):
    """Remembers the histories' states it was given."""

    seen: Float32

    def act(self, state: Any, situation: Situation, **options: Any) -> L3Actions:
        self.seen = state.copy()
        return super().act(state, situation, **options)


class WatchedL4(HeuristicCoordinator):
    """Remembers the set it was given."""

    def alpha(self, *arrays: Any) -> Any:
        self.seen = [np.asarray(a)[0] for a in arrays]
        return super().alpha(*arrays)


@dataclass(frozen=True)
class Call:
    """One call as the layers saw it."""

    decided: AnsweredCall
    states: Float32  # (K, w)
    thread_feat: Any  # (K, 24)
    global_feat: Any  # (30,)
    days: Any  # (K,)


class Remembering(Watched):
    """Keeps what its layers saw, by day and call."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: dict[tuple[int, int], Call] = {}

    def note(self, day: int, call: int, decided: AnsweredCall) -> None:
        l3, l4 = self.layers.l3, self.layers.l4
        assert isinstance(l3, WatchedL3)
        assert isinstance(l4, WatchedL4)
        thread_feat, global_feat, days, _, _ = l4.seen
        self.calls[day, call] = Call(decided, l3.seen, thread_feat, global_feat, days)


@dataclass(frozen=True)
class Both:
    """A world: live and as data."""

    live: dict[Key, Call]
    folder: Path
    data: TournamentData
    layer: WatchedL3


WORLDS = [
    pytest.param({"n_steps": 8, "seed": 4}, id="small"),
    pytest.param({"n_steps": 30, "levels": 4, "per_level": 5, "seed": 5}, id="large", marks=pytest.mark.slow),
    pytest.param({"n_steps": 30, "levels": 2, "per_level": 6, "seed": 6}, id="wide", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=WORLDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    layer = wild(WatchedL3(), 3, 0.05)
    assert isinstance(layer, WatchedL3)
    agent = variant(Remembering, l2="heuristic", l3=layer, l4=WatchedL4(), mode="sample", seed=1)
    world = play([agent, "PenguinAgent", "RandomStdAgent", agent, "AS0"], **request.param)
    folder = tmp_path_factory.mktemp("own_logs")
    live: dict[Key, Call] = {}
    for player in ours(world):
        assert player.fallbacks == player.errors == 0
        (folder / f"agent_{player.id}_world_w.json").write_bytes(encode_log(log_of(player)))
        live |= {(player.id, day, call): seen for (day, call), seen in player.calls.items()}
    data = open_tournament(folder, "Variant", 1, quiet=True)
    rows = np.arange(data.tables.store.rows("day"))
    data = data.with_goals(Goals("rules", HeuristicManager().goals_of_days(data.tables.days(rows))))
    return Both(live, folder, data, layer)


def names_of(data: TournamentData, decisions: Any) -> Iterator[tuple[Key, str]]:
    """Agent, day, call and partner of decisions."""
    m = data.tables.decisions(decisions)
    for thread, call in zip(m.thread.tolist(), m.call.tolist(), strict=True):
        _, day, agent, partner = data.negotiation_id(thread).split("/")
        yield (agent, int(day), call), partner


def test_the_world_is_worth_comparing(both: Both) -> None:
    assert len({agent.rpartition("@")[2] for agent, _, _ in both.live}) > 1, "on several levels"
    calls = list(both.live.values())
    assert sum(len(call.decided.partners) for call in calls) > 150
    assert max(len(call.decided.partners) for call in calls) >= 4
    assert any(call.decided.situation.on_table.any() for call in calls)
    lengths = both.data.tables.store.take("decision.history", both.data.rows("decision"))
    assert lengths.max() > 4, "histories of some length"


def test_l3_sees_in_play_what_it_is_trained_on(both: Both) -> None:
    """Context, choices and history of every decision, whether its answer was sent or overtaken."""
    rows = both.data.rows("decision")
    b = MicroDataset(both.data, rows).batch(np.arange(len(rows)))
    logged = situation_of(b, alphas_of(both.data)[rows])
    context, legal = context_of(logged), legal_of(logged, "residual", Q_SIZE, P_SIZE)
    states = both.layer.states(*map(torch.as_tensor, (b.threads.tokens, b.threads.mask, b.thread, b.decisions.history)))
    for row, (key, partner) in enumerate(names_of(both.data, rows)):
        call = both.live[key]
        i = call.decided.partners.index(partner)
        live = call.decided.situation
        where = f"{key} {partner}"
        assert_equal_but_for_rounding(context_of(live)[i], context[row], message=where)
        may = legal_of(live, "residual", Q_SIZE, P_SIZE)
        for f in fields(may):
            ours_, theirs = getattr(may, f.name)[i], getattr(legal, f.name)[row]
            if f.name == "most":  # what is beyond the horizon is not stored
                ours_, theirs = ours_[may.day[i]], theirs[may.day[i]]
            assert torch.equal(ours_, theirs), f"{f.name} of {where}"
        assert_equal_but_for_rounding(call.states[i], states[row], message=where)


def test_situations_are_equal_to_the_bit_but_for_alpha(both: Both) -> None:
    """α is a quotient of sums, which two ways of adding may round differently; nothing else may differ at all."""
    rows = both.data.rows("decision")
    b = MicroDataset(both.data, rows).batch(np.arange(len(rows)))
    alpha = alphas_of(both.data)[rows]
    logged = situation_of(b, alpha)
    reachable = slice(0, 11)
    for row, (key, partner) in enumerate(names_of(both.data, rows)):
        call = both.live[key]
        i = call.decided.partners.index(partner)
        for f in fields(Situation):
            live, stored = getattr(call.decided.situation, f.name)[i], getattr(logged, f.name)[row]
            if f.name == "alpha":
                assert_equal_but_for_rounding(live, stored)
            elif f.name == "asked":
                assert stored == 0, "what a partner did on other days is not in a day's log"
            elif f.name in ("safe", "open"):
                assert live[reachable].tolist() == stored[reachable].tolist(), (f.name, key, partner)
            else:
                assert np.array_equal(live, stored), (f.name, key, partner, live, stored)


def test_l4_sees_in_play_what_it_is_trained_on(both: Both) -> None:
    sets = L4Dataset(both.data, both.data.rows("set"))
    take = both.data.tables.store.take
    compared = 0
    for at, row in enumerate(sets.rows.tolist()):
        begin, size = int(take("set.first_member", np.array([row]))[0]), int(take("set.n_members", np.array([row]))[0])
        members = take("member.decision", np.arange(begin, begin + size))
        named = list(names_of(both.data, members))
        call = both.live[named[0][0]]
        assert sorted(partner for _, partner in named) == call.decided.partners, "the same threads"
        place = [call.decided.partners.index(partner) for _, partner in named]
        b = sets.batch(np.array([at]))
        assert same_bits(call.thread_feat[place], b.thread_feat[0])
        assert same_bits(call.global_feat, b.global_feat[0])
        assert call.days[place].tolist() == b.days[0].tolist()
        assert_equal_but_for_rounding(call.decided.alpha[place], b.alpha[0])
        compared += 1
    assert compared == len(both.live) > 30


def test_goals_of_a_trained_l2_are_those_of_the_data_set(tmp_path: Path) -> None:
    """One dawn at a time, or all days of a log in one batch: the same but for rounding."""
    agent = variant(Remembering, l3=wild(WatchedL3(), 3, 0.05), l4=WatchedL4())
    world = play([agent, "PenguinAgent"], n_steps=5, levels=2)
    goals: dict[tuple[str, int], Any] = {}
    for player in ours(world):
        (tmp_path / f"agent_{player.id}_world_w.json").write_bytes(encode_log(log_of(player)))
        goals |= {(player.id, day): call.decided.situation.goal[0] for (day, _), call in player.calls.items()}
    _, micro = load_tournament_data(tmp_path, "Variant", 1, "l2", layer_in(BUNDLED, "l2"), quiet=True)
    b = micro.batch(np.arange(len(micro)))
    for row, ((agent_id, day, _), _) in enumerate(names_of(micro.data, micro.rows)):
        assert_equal_but_for_rounding(goals[agent_id, day], b.goal[row])
    assert len(goals) > 5
    assert np.abs(b.goal).max() > 1
