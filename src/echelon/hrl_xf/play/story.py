"""A log day by day: what an agent knew, wanted, was offered, offered, signed and paid.

Everything is read from the log's entries; only the goal is computed again by L2, which is a function of the day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from echelon.hrl_xf.layers.protocols import GoalMaker
from echelon.hrl_xf.state.day_batch import day_batch
from echelon.hrl_xf.state.day_state import DayState, Offer, Role
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.schema import (
    ContractSignedEntry,
    DailyStatusEntry,
    DayClosed,
    DayClosedEntry,
    DecisionEntry,
    Entry,
    NegotiationFailureEntry,
    NegotiationSuccessEntry,
)
from echelon.runtime.arrays import Float32


@dataclass
class ThreadStory:
    """One negotiation: who said what, in order, and how it ended."""

    partner: str
    role: Role
    said: list[tuple[bool, Offer]] = field(default_factory=list)
    """(mine, offer); a partner that repeats itself while it waits is heard once"""
    deal: Offer | None = None
    end: str = "still open"

    @property
    def heard(self) -> list[Offer]:
        return [offer for mine, offer in self.said if not mine]

    @property
    def offered(self) -> list[Offer]:
        return [offer for mine, offer in self.said if mine]


@dataclass
class DayStory:
    """One day of an agent."""

    dawn: DayState
    goal: Float32  # (4, 2, 2) bucket, [buy, sell], [pieces, unit price]
    may_buy: int
    """pieces L1 allows on the best day"""
    may_sell: int
    threads: dict[tuple[str, Role], ThreadStory] = field(default_factory=dict)
    exogenous: list[tuple[Role, Offer]] = field(default_factory=list)
    """given by the world on this day"""
    dusk: DayClosed | None = None

    @property
    def deals(self) -> list[tuple[str, Role, Offer]]:
        return [(t.partner, t.role, t.deal) for t in self.threads.values() if t.deal is not None]

    def spot(self, role: Role) -> float:
        return self.dawn.spot_price_in if role == "buyer" else self.dawn.spot_price_out


class DayBuilder:
    """Hears a log's entries one by one, while the world is played or afterwards."""

    def __init__(self, l2: GoalMaker, layer: L1SafetyLayer | None = None) -> None:
        self._l2, self._layer = l2, layer or L1SafetyLayer()
        self._today: DayStory | None = None

    def add(self, entry: Entry) -> DayStory | None:
        """The day that this entry brings to its end, if it does."""
        today = self._today
        if isinstance(entry, DailyStatusEntry):
            self._today = _dawn(entry.data, self._l2, self._layer)
        elif today is not None and isinstance(entry, DayClosedEntry):
            today.dusk, self._today = entry.data, None
            return today
        elif today is not None:
            _tell(today, entry)
        return None

    def add_all(self, entries: Iterable[Entry]) -> list[DayStory]:
        """The days that these entries bring to their ends."""
        return [story for entry in entries if (story := self.add(entry)) is not None]


def _dawn(state: DayState, l2: GoalMaker, layer: L1SafetyLayer) -> DayStory:
    days = day_batch([state], layer.horizon)
    limits = layer.limits(days)
    reach = int(days.last[0]) + 1
    may = [int(max(0.0, safe[0, :reach].max())) for safe in (limits.Q_safe, limits.Q_safe_sell)]
    goal = np.asarray(l2.goals_of_days(days), np.float32).reshape(4, 2, 2)
    return DayStory(state, goal, may[0] if state.buy_issues else 0, may[1] if state.sell_issues else 0)


def _tell(story: DayStory, entry: Entry) -> None:
    if isinstance(entry, DecisionEntry):
        d = entry.data
        thread = _thread(story, d.partner, d.role)
        if d.offer is not None and (not thread.said or thread.said[-1] != (False, d.offer)):
            thread.said.append((False, d.offer))
        if d.sent and d.counter_offer is not None:
            thread.said.append((True, d.counter_offer))
        if d.sent and d.answer == "END":
            thread.end = "we ended it"
    elif isinstance(entry, NegotiationSuccessEntry):
        thread = _thread(story, entry.data.partner, entry.data.role)
        accepted = bool(thread.said) and thread.said[-1] == (False, entry.data.agreement)
        thread.deal, thread.end = entry.data.agreement, "we accepted" if accepted else "they accepted"
    elif isinstance(entry, NegotiationFailureEntry):
        thread = _thread(story, entry.data.partner, entry.data.role)
        if thread.end == "still open":
            thread.end = "time ran out" if entry.data.timedout else "they ended it"
    elif isinstance(entry, ContractSignedEntry) and entry.data.exogenous:
        c = entry.data
        story.exogenous.append((c.role, (c.quantity, c.time, round(c.price))))


def _thread(story: DayStory, partner: str, role: Role) -> ThreadStory:
    return story.threads.setdefault((partner, role), ThreadStory(partner, role))


@dataclass(frozen=True)
class Totals:
    """Totals over all days."""

    bought: int
    bought_at: float
    """price over spot, weighted by pieces; 1 is the market's"""
    sold: int
    sold_at: float
    contracts: int
    shortfall: float
    storage: float


def totals_of(days: Sequence[DayStory]) -> Totals:
    """Sums over the days."""
    pieces = {"buyer": 0, "seller": 0}
    money = {"buyer": 0.0, "seller": 0.0}
    for story in days:
        for _, role, (q, _, p) in story.deals:
            pieces[role] += q
            money[role] += q * p / max(story.spot(role), 1e-9)
    closed = [story.dusk for story in days if story.dusk is not None]
    return Totals(
        pieces["buyer"], money["buyer"] / max(pieces["buyer"], 1),
        pieces["seller"], money["seller"] / max(pieces["seller"], 1),
        sum(len(story.deals) for story in days),
        sum(c.shortfall_penalty for c in closed), sum(c.storage_cost for c in closed),
    )  # fmt: skip
