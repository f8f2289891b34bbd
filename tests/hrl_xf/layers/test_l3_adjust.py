"""Scheme F's guard and L4's modulation: by hand, and in real worlds, where L1's limits still hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.layers.l3_adjust import guarded, modulated
from echelon.hrl_xf.layers.rules import HeuristicExecutor
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.play.choice import choose_layers
from echelon.hrl_xf.play.day import DayPlay, Question
from echelon.hrl_xf.state.day_state import END, REJECT, Role
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from tests.hrl_xf.play.agent_cases import L1_ALONE, actions, assert_sound, listening, ours, play, variant
from tests.hrl_xf.state.examples import a_day

LAYER = L1SafetyLayer()
DAY = a_day(inventory_input=20, needed_sales=9)


def asked(n: int) -> DayPlay:
    """A day on which n buyers were asked, with L1's own answers."""
    partners: dict[str, Role] = {f"c{i}": "seller" for i in range(n)}
    day = DayPlay(DAY, choose_layers("heuristic", "l1", "heuristic"), LAYER, partners)
    day.answer([Question(name, None, 0, 0.0) for name in partners])
    return day


def test_residuals_grow_with_attention() -> None:
    call = asked(4).last_call
    assert call is not None
    base = call.situation.legal_baseline
    q, ahead, p = base[0].tolist()
    assert q == 5, "half of the ten lines"
    chosen = actions(np.full(4, REJECT), base + np.array([2, 1, -1]))
    alpha = np.array([0.5, 0.25, 0.15, 0.1], np.float32)  # K·α = 2, 1, .6, .4
    made = modulated(chosen, call.situation, LAYER, call.l1, alpha, 1.0)
    assert made.offer[:, 0].tolist() == [q + 4, q + 2, q + 1, q + 1]  # 2 · (2, 1, .6, .4) to the nearest piece
    assert made.offer[:, 2].tolist() == [p - 2, p - 1, p - 1, p]
    assert made.offer[:, 1].tolist() == [ahead + 1] * 4, "the day is not scaled"
    half = modulated(chosen, call.situation, LAYER, call.l1, alpha, 0.5)
    assert half.offer[0, 0] == q + 3  # 1 + .5 · (2 − 1) = 1.5
    assert modulated(chosen, call.situation, LAYER, call.l1, alpha, 0.0) is chosen


def test_modulation_stays_within_the_limits_and_leaves_other_answers_alone() -> None:
    call = asked(2).last_call
    assert call is not None
    base = call.situation.legal_baseline
    chosen = actions(
        np.array([REJECT, END]), base * np.array([[1, 1, 1], [0, 0, 0]]) + np.array([[5, 0, 0], [0, 0, 0]])
    )
    made = modulated(chosen, call.situation, LAYER, call.l1, np.array([0.9, 0.1], np.float32), 1.0)
    assert made.offer[0, 0] == 10, "5 + 1.8 · 5 pieces are more than the lines ship"
    assert made.offer[1].tolist() == [0, 0, 0]
    assert made.op.tolist() == [REJECT, END]


def test_the_rules_answer_where_l3_is_not_sure() -> None:
    call = asked(3).last_call
    assert call is not None
    probability = np.array([[0.1, 0.8, 0.1], [0.3, 0.45, 0.25], [0.05, 0.05, 0.9]], np.float32)
    offer = call.situation.legal_baseline + np.array([0, 0, -1])
    chosen = replace(actions(np.array([REJECT, REJECT, END]), offer), op_log_probs=np.log(probability))
    rules = HeuristicExecutor().act(None, call.situation)
    made = guarded(chosen, call.situation, 0.5)
    assert made.op.tolist() == [REJECT, int(rules.op[1]), END]
    assert np.array_equal(made.offer[1], rules.offer[1])
    assert not np.array_equal(made.offer[1], chosen.offer[1])
    assert np.array_equal(made.offer[0], chosen.offer[0])
    assert guarded(chosen, call.situation, 0.0) is chosen
    assert guarded(chosen, call.situation, 0.45 - 1e-6).op.tolist() == [REJECT, REJECT, END]


@pytest.mark.parametrize(
    ("mode", "options"), [("residual", {"residual_modulation": 1.0}), ("direct", {"min_confidence": 0.6})]
)
def test_in_play_they_change_answers_within_the_limits(mode: str, options: dict[str, float]) -> None:
    torch.manual_seed(5)
    l3 = TemporalDecisionTransformer(mode=mode)  # type: ignore[arg-type]
    with torch.no_grad():
        for head in (l3.op, l3.day, l3.q_head, l3.p_head):
            head.weight.normal_(std=0.1)
        l3.op.bias[REJECT] = 0.7
    told = []
    for given in ({}, options):
        agent = variant(LitaAgentHRL, **{**L1_ALONE, "l3": l3, **given})
        with listening() as heard:
            world = play([agent, "PenguinAgent"], n_steps=8)
        assert_sound(world)
        mine = {a.id for a in ours(world)}
        said = [s for s in heard if s.speaker in mine and s.offer is not None]
        assert len(said) > 30
        for s in said:
            assert s.offer is not None
            assert all(low <= x <= high for x, (low, high) in zip(s.offer, s.bounds, strict=True))
        for a in ours(world):
            assert a.awi.is_last_level or world.stats[f"shortfall_quantity_{a.id}"] == [0] * 8, "nothing falls short"
        told.append([(s.speaker, s.answer, s.offer) for s in said])
    assert told[0] != told[1]


@pytest.mark.parametrize(
    ("mode", "options", "reason"),
    [
        ("direct", {"residual_modulation": 0.5}, "has no residuals"),
        ("residual", {"min_confidence": 0.5}, "guards an L3 of mode 'direct'"),
        ("residual", {"residual_modulation": 1.5}, r"within 0\.\.1"),
    ],
)
def test_contradictory_options_are_refused(mode: str, options: dict[str, Any], reason: str) -> None:
    l3 = TemporalDecisionTransformer(mode=mode)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=reason):
        LitaAgentHRL(l2="heuristic", l3=l3, l4="heuristic", **options)
