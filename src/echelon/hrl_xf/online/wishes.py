"""What one of our seats drew in one world: every goal, every division of attention, every wish, as arrays.

A *wish* is what L3 drew in a thread, before the reservation. It is kept with all that the layer saw, so that the
learner can score it again. An offer that never left (the partner spoke first, or the negotiation ended) is dropped: it
had no effect. *Moments* are the dawn of each day and each call of it, in their order; the critic values them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.layers.l3_situation import NEAR_DAYS, Situation
from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.networks.day_critic import game_inputs
from echelon.hrl_xf.online.exploring import DrawnGoal, DrawnShares
from echelon.hrl_xf.online.potential import signed_profit
from echelon.hrl_xf.play.day import AnsweredCall, DayPlay, Thread
from echelon.hrl_xf.state.day_batch import DayBatch, Ledger, Offers
from echelon.hrl_xf.state.day_state import REJECT
from echelon.hrl_xf.state.features import StateBuilder
from echelon.hrl_xf.state.threads import tokens_of
from echelon.runtime.arrays import Floats, Ints

Array = NDArray[Any]
Table = dict[str, Array]
NEAR = ("safe", "open")
"""Columns of a `Situation` by days ahead; no deal reaches beyond the game's horizon, so the near days are all."""
MOMENT = 5
"""Inputs of the critic that only a moment within the day has."""


@dataclass(frozen=True)
class SeatWishes:
    """One seat in one world."""

    score: float
    place: int
    """0 first level, 1 middle, 2 last level"""
    days: Table
    """one row for each dawn: L2's inputs, mask, draw and log-probability, the balance"""
    moments: Table
    """one row for each dawn and call: the critic's inputs; `day`"""
    calls: Table
    """one row for each call, sets padded to the largest: L4's inputs, draw and log-probability; `moment`"""
    wishes: Table
    """one row for each wish: the situation, the choice, its log-probability; `moment`, and where its history stands"""
    tokens: Array  # (N, 4)
    """offers of all threads, one thread after the other"""
    asked: int
    """wishes before any was dropped"""
    changed: int
    """of these, answers that the reservation changed"""
    fallbacks: int
    """how often a layer failed or there was no answer"""


@dataclass
class _Day:
    drawn: DrawnGoal
    costs: tuple[float, float, float]
    threads: dict[str, Thread] = field(default_factory=dict)


@dataclass
class _Call:
    day: int
    decided: AnsweredCall
    ledger: Ledger
    shares: DrawnShares
    history: list[int]
    """offers that each thread had exchanged before"""


class SeatRecorder:
    """Listens to one agent while it plays with exploring layers; `finish` gives what it heard."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.layers: Layers | None = None
        """those that draw; calls that others answered (after a layer failed) are not kept"""
        self._days: list[_Day] = []
        self._calls: list[_Call] = []
        self._shares: DrawnShares | None = None

    def dawn(self, drawn: DrawnGoal) -> None:
        """L2 drew a goal; if it is asked twice for one day, the last counts."""
        awi = self.agent.awi
        costs = (
            float(awi.current_shortfall_penalty),
            float(awi.current_storage_cost),
            float(awi.current_disposal_cost),
        )
        if self._days and self._days[-1].drawn.days.current_step[0] == drawn.days.current_step[0]:
            self._days.pop()
        self._days.append(_Day(drawn, costs))

    def divided(self, drawn: DrawnShares) -> None:
        """L4 drew its scores."""
        self._shares = drawn

    def decided(self, play: DayPlay, decided: AnsweredCall) -> None:
        """A call was answered."""
        shares, self._shares = self._shares, None
        if play.layers is not self.layers or shares is None or not self._days:
            return
        self._days[-1].threads = play.threads
        history = [len(play.threads[name].offers) for name in decided.partners]
        self._calls.append(_Call(len(self._days) - 1, decided, play.ledger, shares, history))

    def finish(self, score: float, central: Array) -> SeatWishes:
        """Everything as arrays; `central` is what the critic may know of the seat and the agent does not."""
        agent, days = self.agent, self._days
        state = agent.awi
        place = 0 if state.is_first_level else 2 if state.is_last_level else 1
        batch = _joined([day.drawn.days for day in days])
        call_day = np.array([call.day for call in self._calls], np.int64)
        moment_day, moment_of_call = _order(len(days), call_day)
        wishes, tokens, asked, changed = self._wishes(moment_of_call)
        return SeatWishes(
            score=score,
            place=place,
            days=_day_table(days, batch),
            moments=self._moments(batch, moment_day, moment_of_call, central),
            calls=_call_table(self._calls, moment_of_call),
            wishes=wishes,
            tokens=tokens,
            asked=asked,
            changed=changed,
            fallbacks=agent.fallbacks + agent.errors,
        )

    def _moments(self, batch: DayBatch, moment_day: Ints, moment_of_call: Ints, central: Array) -> Table:
        """The critic's inputs: the day with what was signed since dawn among its commitments, and the moment."""
        n = len(moment_day)
        now = batch.take(moment_day)
        signed = np.zeros((4, n, now.H + 1))
        moment = np.zeros((n, MOMENT), np.float32)
        for row, call in zip(moment_of_call.tolist(), self._calls, strict=True):
            ledger, asked = call.ledger, call.decided.questions
            signed[:, row] = [x[0] for x in (ledger.q_in, ledger.q_out, ledger.payables, ledger.receivables)]
            sells = int(call.decided.situation.seller.sum())
            late = max(question.relative_time for question in asked)
            moment[row, :4] = 1.0, late, (len(asked) - sells) / 10.0, sells / 10.0
        names = ("Q_in", "Q_out", "Payables", "Receivables")
        tables = {name: getattr(now, name) + more for name, more in zip(names, signed, strict=True)}
        now = DayBatch(**{**{f.name: getattr(now, f.name) for f in fields(now)}, **tables})
        costs = np.array([day.costs for day in self._days], np.float64)[moment_day]
        potential = signed_profit(now, costs)
        moment[:, 4] = np.clip(potential, -5.0, 5.0)
        x = StateBuilder(now.H).build(now)
        return {
            "day": moment_day,
            "x_static": x.x_static,
            "X_temporal": x.X_temporal.astype(np.float16),
            "x_role": x.x_role,
            "x_game": game_inputs(now, costs),
            "x_moment": moment,
            "x_central": np.repeat(np.asarray(central, np.float32)[None], n, axis=0),
            "potential": potential,
        }

    def _wishes(self, moment_of_call: Ints) -> tuple[Table, Array, int, int]:
        rows, start, tokens = [], {}, []
        asked = changed = told = 0
        for day_index, day in enumerate(self._days):
            for name, thread in day.threads.items():
                start[day_index, name] = told
                told += len(thread.offers)
                tokens += [(*offer, thread.seller, day_index) for offer in thread.offers]
        for moment, call in zip(moment_of_call.tolist(), self._calls, strict=True):
            decided, threads = call.decided, self._days[call.day].threads
            for k, (question, wish, answer) in enumerate(
                zip(decided.questions, decided.wishes, decided.answers, strict=True)
            ):
                asked += 1
                changed += wish != answer
                thread, heard = threads[question.partner], call.history[k]
                if answer.op == REJECT and not (heard < len(thread.offers) and thread.offers[heard][3]):
                    continue  # it never left
                rows.append((moment, start[call.day, question.partner], heard, k, answer.op))
        return _wish_table(self._calls, moment_of_call, rows), self._tokens(tokens), asked, changed

    def _tokens(self, offers: list[tuple[Any, ...]]) -> Array:
        if not offers:
            return np.zeros((0, 4), np.float32)
        flat = np.array(offers, np.int64)  # quantity, days ahead, unit price, mine, seller, day
        issues = np.array(
            [[day.drawn.days.buy_issues[0], day.drawn.days.sell_issues[0]] for day in self._days], np.int64
        )[flat[:, 5], flat[:, 4]]
        return tokens_of(flat[:, :3], flat[:, 3] == 1, issues[:, 4], issues[:, 5])


def _joined(days: list[DayBatch]) -> DayBatch:
    """Days of one row each as one batch."""
    arrays = {f.name: np.concatenate([getattr(day, f.name) for day in days]) for f in fields(DayBatch)[:-1]}
    columns = [day.offers.columns() for day in days]
    row = np.repeat(np.arange(len(days)), [len(c[0]) for c in columns])
    others = (np.concatenate([c[i] for c in columns]) for i in range(1, len(columns[0])))
    return DayBatch(**arrays, offers=Offers(row, *others))


def _order(days: int, call_day: Ints) -> tuple[Ints, Ints]:
    """The day of each moment, and the moment of each call: every dawn stands before the calls of its day."""
    dawns = np.arange(days)
    day = np.concatenate([dawns, call_day])
    order = np.argsort(day, kind="stable")
    place = np.empty(len(day), np.int64)
    place[order] = np.arange(len(day))
    return day[order], place[days:]


def _day_table(days: list[_Day], batch: DayBatch) -> Table:
    drawn = [day.drawn for day in days]
    return {
        "step": batch.current_step.astype(np.int64),
        "balance": batch.balance / np.maximum(batch.initial_balance, 1e-6),
        "x_static": np.concatenate([d.features.x_static for d in drawn]),
        "X_temporal": np.concatenate([d.features.X_temporal for d in drawn]),
        "x_role": np.concatenate([d.features.x_role for d in drawn]),
        "mask": np.stack([d.mask for d in drawn]),
        "z": np.stack([d.z for d in drawn]),
        "log_prob": np.array([d.log_prob for d in drawn], np.float32),
    }


def _call_table(calls: list[_Call], moment: Ints) -> Table:
    widest = max((len(call.shares.z) for call in calls), default=1)

    def padded(name: str, *shape: int, dtype: Any = np.float32) -> Array:
        table = np.zeros((len(calls), widest, *shape), dtype)
        for i, call in enumerate(calls):
            found = getattr(call.shares, name)
            table[i, : len(found)] = found
        return table

    sizes = np.array([len(call.shares.z) for call in calls], np.int64)
    common = np.array([call.shares.global_feat for call in calls], np.float32)
    return {
        "moment": moment,
        "thread_feat": padded("thread_feat", calls[0].shares.thread_feat.shape[1] if calls else 1),
        "global_feat": common.reshape(len(calls), -1),
        "days": padded("days", dtype=np.int64),
        "role": padded("role", 2),
        "mask": np.arange(widest) < sizes[:, None],
        "z": padded("z"),
        "log_prob": np.array([call.shares.log_prob for call in calls], np.float32),
    }


def _wish_table(calls: list[_Call], moment_of_call: Ints, rows: Sequence[tuple[int, int, int, int, int]]) -> Table:
    """The wishes that are kept, gathered from their calls."""
    flat = np.array(rows, np.int64).reshape(-1, 5)  # moment, start, heard, thread of the call, answer
    sizes = np.array([len(call.decided.questions) for call in calls], np.int64)
    first = np.cumsum(sizes) - sizes
    call_at = np.searchsorted(moment_of_call, flat[:, 0])
    keep = first[call_at] + flat[:, 3] if len(flat) else np.zeros(0, np.int64)
    table: Table = {"moment": flat[:, 0], "start": flat[:, 1], "heard": flat[:, 2], "answer": flat[:, 4]}
    for f in fields(Situation):
        columns = [getattr(call.decided.situation, f.name) for call in calls]
        if f.name in NEAR:
            columns = [column[:, :NEAR_DAYS] for column in columns]
        table[f.name] = np.concatenate(columns)[keep] if columns else np.zeros(0)
    for name in ("op", "day", "dq", "dp"):
        chosen = [call.decided.actions.parts[name] for call in calls]
        table[f"chosen_{name}"] = np.concatenate(chosen)[keep].astype(np.int16) if chosen else np.zeros(0, np.int16)
    log_prob = [call.decided.actions.log_prob for call in calls]
    table["log_prob"] = np.concatenate(log_prob)[keep].astype(np.float32) if log_prob else np.zeros(0, np.float32)
    return table


def situation_of(wishes: Table, horizon: int) -> Situation:
    """The situations of kept wishes."""
    columns: dict[str, Any] = {f.name: wishes[f.name] for f in fields(Situation)}
    for name in NEAR:
        near = columns[name]
        full = np.zeros((len(near), horizon + 1), near.dtype)
        full[:, : near.shape[1]] = near
        columns[name] = full
    return Situation(**columns)


def profits_of_days(seat: SeatWishes) -> Floats:
    """Profit of each day over the initial balance; their sum is the score less what the first balance was.  # (D,)"""
    balance = np.append(seat.days["balance"], seat.score)
    rewards: Floats = np.diff(balance)
    return rewards
