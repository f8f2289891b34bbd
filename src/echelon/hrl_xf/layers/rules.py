"""The layers by rule: what LitaAgentRules plays, what replaces a layer that fails, and a teacher."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from echelon.hrl_xf.layers.l3_situation import (
    P_SIZE,
    Q_SIZE,
    Mode,
    Situation,
    better_offers,
    legal_arrays,
    needed,
    share_of,
)
from echelon.hrl_xf.layers.l4_features import CONFLICT_RANGE
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT
from echelon.hrl_xf.state.goals import BUCKETS, GOAL_SIZE, goal_mask
from echelon.hrl_xf.state.l1_safety import BUY_AT, SELL_AT, L1SafetyLayer
from echelon.hrl_xf.state.reservation import roomiest_day
from echelon.hrl_xf.state.threads import DELTA_P, DELTA_Q
from echelon.runtime.arrays import Bools, Float32, Ints


@dataclass(frozen=True)
class RuleConstants:
    """The numbers of the rules, chosen on development worlds; `experiments/rules_search.py` looks for better ones."""

    hold: float = 0.9
    """share of a day's material in stock below which a factory fills up"""
    expected: float = 0.3
    """share of the lines that is expected to be sold on a day on which less is sold yet"""
    late: int = 5
    """days before the end from which on stock is not filled up any more"""
    buy_days: int = 3
    """days ahead for which a buyer buys"""
    ask_power: float = 1.0
    """a seller asks for (1 − time / ask_end)^ask_power of the range of prices"""
    ask_end: float = 0.9
    """time from which on it asks for the lowest price: late is better than never"""
    patience: float = 0.7
    """a seller accepts what is at least patience · (1 − time) of what the partner has asked for lately"""
    unknown: int = 5
    """pieces to offer to a partner that has asked for nothing yet"""
    bid_power: float = 1.0
    """a buyer bids time^bid_power of the range of prices"""
    bid_most: float = 0.0
    """share of the way from the highest price to its own present bid above which a buyer accepts nothing"""


CONSTANTS = RuleConstants()


class HeuristicManager:
    """A goal without learning, from how the game counts stock (`l1_safety`): stock can be processed again every day, so
    a factory needs a full day's material once, early, and hardly any after that; and every day has lines of its own.

        short   = max(0, min(sales today, L) − stock − Q_in[0])
        Q_buy   = max(short, [stock < hold · L and days left > late] · (L − stock + expected − Q_in[0]))    first bucket
        Q_sell  = what L1 allows on the days of each bucket

    expected: today's sales, at least that constant · L where the output is negotiated, for what is made today does not
    stay in stock. Prices are L1's.
    """

    def __init__(self, horizon: int = 40, constants: RuleConstants = CONSTANTS) -> None:
        self.horizon, self.constants = horizon, constants
        self._l1 = L1SafetyLayer(horizon)

    def goals_of_days(self, days: DayBatch) -> Float32:
        """Goals of days as they come at dawn.  # (N, 16)"""
        L, stock, arriving = days.n_lines, days.inventory_input, days.Q_in[:, 0]
        sales = np.minimum(days.Q_out[:, 0], L)
        short = np.maximum(0.0, sales - stock - arriving)
        expected = np.where(days.can_sell, np.maximum(sales, self.constants.expected * L), sales)
        fills_up = (stock < self.constants.hold * L) & (days.n_steps - days.current_step > self.constants.late)
        reachable = days.ahead <= days.last[:, None]
        goal = np.zeros((len(days), GOAL_SIZE // 4, 2, 2))  # bucket, side, [Q, P]
        goal[:, 0, 0, 0] = np.maximum(short, np.where(fills_up, L - stock + expected - arriving, 0.0))
        goal[:, :, 1, 0] = BUCKETS.sums(np.where(reachable, self._l1.limits(days).Q_safe_sell, 0.0))
        goal[:, :, 0, 1] = (BUY_AT * days.spot_price_in)[:, None]
        goal[:, :, 1, 1] = (SELL_AT * days.spot_price_out)[:, None]
        return np.where(goal_mask(days), goal.reshape(-1, GOAL_SIZE), 0.0).astype(np.float32)


class BaselineExecutor:
    """L1's own answers with the signature of L3: what an untrained L3 plays, without a network."""

    mode: Mode = "residual"

    def act(
        self,
        state: Float32 | None,
        situation: Situation,
        *,
        generator: np.random.Generator | None = None,
        greedy: bool = True,
    ) -> L3Actions:
        """ACCEPT, the baseline, or END, as L1 says."""
        op = situation.l1_op
        offer = np.where((op == REJECT)[:, None], situation.legal_baseline, 0)
        parts = {"op": op, "day": offer[:, 1], "dq": np.full_like(op, DELTA_Q), "dp": np.full_like(op, DELTA_P)}
        return L3Actions(op, offer, parts, np.zeros(len(op), np.float32))


class HeuristicExecutor:
    """A round's action without learning: sell much at once to those who take much, buy what the goal wants.

    Same signature as the network's `act`; the history's state is not looked at. A partner gives at most one deal per
    day, an idle line earns nothing and prices differ by 10 %, so what counts is the quantity of that deal:

        wants   = the most that the partner asked for or bought at once in the last days (`asked`)
        room    = what may be sold on the day with the most room for it, near days first (`roomiest_day`)
        seller: ACCEPT q pieces, on any day and at any price, if q ≥ patience · (1 − time) · min(wants, room)
        buyer:  ACCEPT what arrives within buy_days and, with the better offers of the other threads, fits the open goal
        else offer: a seller `wants` on that day (the reservation spreads the threads over the days), a buyer α of the
        open goal. A seller begins at the highest price and comes down to the
        lowest; a buyer's price rises with time. END without a goal
    """

    mode: Mode = "direct"

    def __init__(self, constants: RuleConstants = CONSTANTS) -> None:
        self.constants = constants

    def act(
        self,
        state: Float32 | None,
        situation: Situation,
        *,
        generator: np.random.Generator | None = None,
        greedy: bool = True,
    ) -> L3Actions:
        """ACCEPT, an offer, or END where nothing is legal or wanted."""
        s, legal, c = situation, legal_arrays(situation, "direct", Q_SIZE, P_SIZE), self.constants
        n, seller, time = np.arange(len(s)), s.seller, s.relative_time.astype(np.float64)
        days = np.arange(s.open.shape[1])
        need, least = needed(s), legal.least
        q, ahead, offered = s.seen.T
        wants = np.where(s.asked > 0, s.asked, c.unknown)
        near = legal.day & (seller[:, None] | (days <= c.buy_days))
        pieces = np.where(near, np.minimum(legal.most, wants[:, None]), 0)
        day = np.where(seller, roomiest_day(pieces, wants, np.zeros(len(s), np.int64)), near.argmax(axis=1))
        room = legal.most[n, day]

        low, high = s.issues[:, 4].astype(np.float64), s.issues[:, 5].astype(np.float64)
        way = np.where(seller, np.maximum(1.0 - time / c.ask_end, 0.0) ** c.ask_power, time**c.bid_power)
        price = np.floor(low + way * np.maximum(high - low, 0.0) + 1e-9)
        enough = q >= c.patience * (1.0 - time) * np.minimum(s.asked, room)
        fits = (better_offers(s) + q <= need) & (ahead <= c.buy_days) & (offered <= high - c.bid_most * (high - price))
        accept = legal.accept & np.where(seller, enough, fits)

        affordable = np.floor(np.minimum(legal.money, 1e9) / np.maximum(price, 1.0))
        share = np.minimum(np.maximum(share_of(s), least), np.minimum(room, affordable))
        quantity = np.where(seller, np.maximum(pieces[n, day], np.minimum(least, room)), share)
        possible = near[n, day] & (quantity >= least) & (seller | (need >= 1))
        op = np.where(accept, ACCEPT, np.where(possible, REJECT, END)).astype(np.int64)
        offer = np.where((op == REJECT)[:, None], np.stack([quantity, day, price], axis=-1), 0.0).astype(np.int64)
        parts = {"op": op, "day": offer[:, 1], "dq": offer[:, 0] - legal.first_q, "dp": offer[:, 2] - legal.first_p}
        return L3Actions(op, offer, parts, np.zeros(len(s), np.float32))


class HeuristicCoordinator:
    """The teacher, on padded sets: urgency · priority / (1 + conflict), where priority is the first thread feature."""

    def alpha(self, thread_feat: Float32, global_feat: Float32, days: Ints, role: Float32, mask: Bools) -> Float32:
        """α of each thread, 0 in padding.  # (S, K)"""
        d = np.asarray(days, np.float64)
        near = np.exp(-np.abs(d[:, :, None] - d[:, None, :]) / CONFLICT_RANGE) * mask[:, None, :]
        conflict = near.sum(axis=2) - 1.0  # less the thread itself
        priority = np.where(mask, np.asarray(thread_feat, np.float64)[..., 0], 0.0)
        raw = np.where(mask, priority / (d + 1.0) / (1.0 + np.where(mask, conflict, 0.0)), 0.0)
        alpha: Float32 = (raw / np.maximum(raw.sum(axis=1, keepdims=True), 1e-12)).astype(np.float32)
        return alpha
