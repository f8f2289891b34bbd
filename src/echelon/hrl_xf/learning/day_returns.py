"""Rewards of recorded days, their returns, and TD(λ) advantages against a critic (spec §7).

reward_t    = profit of day t / initial balance
return_t    = Σ_{k≥t} reward_k                               what the critic learns
δ_t         = reward_t + V_{t+1} − V_t                        V after the last day is 0, γ = 1
advantage_t = δ_t + λ δ_{t+1} + λ² δ_{t+2} + …
"""

from __future__ import annotations

import numpy as np

from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.networks.day_critic import DayCritic, game_inputs
from echelon.onpolicy.advantage import gae
from echelon.runtime.arrays import Bools, Floats, Ints

CHUNK = 4096
LEVELS = ("first level", "middle levels", "last level")


def levels_of(data: TournamentData, days: Ints) -> Ints:
    """The level of the factory of each day: an index into `LEVELS`.  # (N,)"""
    take = data.tables.store.take
    log = take("day.log", days)
    first = take("log.my_input_product", log) == 0
    last = take("log.my_output_product", log) == take("log.n_products", log) - 1
    return np.where(first, 0, np.where(last, 2, 1))


def day_rewards(data: TournamentData) -> Floats:
    """Profit over initial balance of each day of the chosen logs, NaN elsewhere.  # (days of the store,)"""
    take, days = data.tables.store.take, data.rows("day")
    profit = take("day.outcome", days)[:, 0].astype(np.float64)
    if np.isnan(profit).any():
        at = days[np.isnan(profit)][:1]
        record = data.records[int(data.log_of_day(at)[0])]
        raise ValueError(
            f"{record.file.path}: day {int(take('day.current_step', at)[0])} was not closed, so its profit is not "
            "known; remove the log, or collect it again"
        )
    found = np.full(data.tables.store.rows("day"), np.nan)
    found[days] = profit / take("log.initial_balance", take("day.log", days))
    return found


def by_log(data: TournamentData) -> tuple[Ints, Bools]:
    """Day rows as columns of logs: row t is each log's t-th day; and which cells there are.  # (T, logs) each"""
    counts = np.array([record.days[1] for record in data.records], np.int64)
    there = np.arange(counts.max())[:, None] < counts
    cells = np.zeros(there.shape[::-1], np.int64)
    cells[there.T] = data.rows("day")  # log by log
    return cells.T, there


def returns_to_go(data: TournamentData) -> Floats:
    """What each day and those after it earned; NaN on days of other logs.  # (days of the store,)"""
    cells, there = by_log(data)
    reward = np.where(there, day_rewards(data)[cells], 0.0)
    found = np.full(data.tables.store.rows("day"), np.nan)
    found[cells[there]] = np.cumsum(reward[::-1], axis=0)[::-1][there]
    return found


def values_of(data: TournamentData, critic: DayCritic) -> Floats:
    """V of each dawn of the chosen logs, NaN elsewhere.  # (days of the store,)"""
    if critic.horizon != data.horizon:
        raise ValueError(f"the critic has horizon {critic.horizon}, the data {data.horizon}; use one horizon")
    rows, tables = data.rows("day"), data.tables
    found = np.full(tables.store.rows("day"), np.nan)
    for i in range(0, len(rows), CHUNK):
        some = rows[i : i + CHUNK]
        days = tables.days(some)
        found[some] = critic.values(tables.build(days), game_inputs(days, tables.store.take("day.costs", some)))
    return found


def day_advantages(data: TournamentData, values: Floats, lam: float = 0.95) -> Floats:
    """TD(λ) advantage of each day, NaN on days of other logs.  # (days of the store,)"""
    cells, there = by_log(data)
    reward, value = (np.where(there, x[cells], 0.0) for x in (day_rewards(data), values))
    after = np.concatenate([value[1:], np.zeros_like(value[:1])])
    last = ~np.concatenate([there[1:], np.zeros_like(there[:1])])  # of its log, or beyond it
    advantage, _ = gae(reward, value, after, last, last, np.ones_like(reward), 1.0, lam)
    found = np.full(len(values), np.nan)
    found[cells[there]] = advantage[there]
    return found
