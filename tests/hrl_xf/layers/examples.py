"""Situations for the tests of L3: of a real log, computed as in play, and with weights as no training makes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from echelon.hrl_xf.layers.l3_situation import Situation
from echelon.hrl_xf.layers.l4_features import teacher_alphas
from echelon.hrl_xf.layers.rules import HeuristicManager
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.state.day_batch import Ledger, day_batch, in_days_ahead, issue_bounds
from echelon.hrl_xf.state.day_state import ANSWERS, Offer, Role
from echelon.hrl_xf.state.goals import open_goal
from echelon.hrl_xf.state.l1_safety import L1Answers, L1Output, L1SafetyLayer
from echelon.hrl_xf.state.schema import DailyStatusEntry, Decision, DecisionEntry, NegotiationSuccessEntry
from echelon.runtime.arrays import Bools, Floats, Ints
from tests.hrl_xf.log_examples import log_of


def wild(layer: TemporalDecisionTransformer, seed: int, scale: float = 1.0) -> TemporalDecisionTransformer:
    """Random weights everywhere, in the heads too."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    return layer.eval()


def tokens(rng: np.random.Generator, B: int, L: int) -> torch.Tensor:
    """Offers at random."""
    columns = [rng.integers(1, 30, (B, L)), rng.random((B, L)), rng.integers(0, 11, (B, L)), rng.integers(0, 2, (B, L))]
    return torch.as_tensor(np.stack(columns, axis=-1).astype(np.float32))


@dataclass(frozen=True)
class Played:
    """A recorded world seen by an agent with L1 and a goal: L1's own answers beside what L3 would know."""

    situation: Situation
    out: L1Output
    l1: L1Answers
    offers: Ints  # (N, 3) on the table: quantity, absolute day, price
    on_table: Bools
    answers: list[int]
    """the expert's"""


def played(path: Path, layer: L1SafetyLayer) -> Played:
    """All decisions of a log, from its entries alone."""
    days: list[DailyStatusEntry] = []
    deals: list[list[tuple[Role, Offer]]] = []
    decisions: list[tuple[int, int, Decision]] = []
    for entry in log_of(path).entries:
        if isinstance(entry, DailyStatusEntry):
            days.append(entry)
            deals.append([])
        elif isinstance(entry, NegotiationSuccessEntry):
            deals[-1].append((entry.data.role, entry.data.agreement))
        elif isinstance(entry, DecisionEntry) and entry.data.asked != "framework":
            decisions.append((len(days) - 1, len(deals[-1]), entry.data))
    dawn = day_batch([day.data for day in days])
    ledgers, first = Ledger.after_each_deal(dawn, deals)
    row = np.array([day for day, _, _ in decisions])
    ledger = ledgers.take(first[row] + np.array([n for _, n, _ in decisions]))
    moments = dawn.take(row)
    said = [d for _, _, d in decisions]
    seller = np.array([d.role == "seller" for d in said])
    out = layer.compute(
        moments, ledger, seller, issue_bounds([d.issues for d in said], moments.current_step.astype(np.int64).tolist())
    )
    on_table = np.array([d.offer is not None for d in said])
    rows = [in_days_ahead([d.offer or (0, step, 0)], step)[0] for d, step in zip(said, out.step.tolist(), strict=True)]
    offers = np.array(rows)
    goal = HeuristicManager().goals_of_days(moments)
    n = len(said)
    situation = Situation.of_l1(
        layer,
        out,
        goal=goal,
        open_goal=open_goal(goal, ledger),
        relative_time=np.array([d.relative_time for d in said], np.float32),
        others=np.zeros((n, 3), np.int64),
        on_table=on_table,
        seen=offers,
        own=np.zeros((n, 3), np.int64),
        last_mine=np.zeros(n, np.bool_),
        alpha=np.full(n, 0.2, np.float32),
        spot=np.stack([moments.spot_price_in, moments.spot_price_out], axis=-1).astype(np.float32),
        asked=np.zeros(n, np.int64),
        both_sides=moments.can_buy & moments.can_sell,
    )
    expert = [ANSWERS.index(d.answer) for d in said]
    return Played(situation, out, layer.answer(out, offers, on_table), offers, on_table, expert)


def small_l3() -> TemporalDecisionTransformer:
    """A layer that learns fast, the same each time."""
    torch.manual_seed(0)
    return TemporalDecisionTransformer(width=16, heads=2, layers=1, hidden=32)


def teacher_alpha(days: Ints, priority: Floats) -> Floats:
    """The teacher's α of the threads of one set.  # (K,)"""
    return teacher_alphas(days, priority, np.array([0]))
