"""Logs to tables: everything a sample needs, for many logs at once, by whole columns.

The tables, one row each (a name in brackets is the table a column points into):

    log         what is constant in a log
    day         one dawn [log], its v2 goal label, and the outcome of the day
    commitment  what is signed and open at dawn, by side and days ahead; rows without anything are left out
    offer       yesterday's offers, as the day's features see them
    ledger      L1's limits on a day after its first n deals [day]
    thread      one negotiation [day] and the deal that ended it
    token       the offers of a thread in their order, each once: decisions see a prefix of them
    decision    one answer of the agent [thread] [time], with L1's; in the order of threads, then time
    time        the relative times that occur
    set         the decisions of one call [member]
    member      [decision], in the order of calls

Answers the negotiation framework gave in the agent's name are tokens, not decisions. A first proposal that a partner's
offer overtook was never sent: it is a decision with `sent` 0, kept because L4 needs all threads of a call; it is no
target for L3 (the agent makes it again in each call of the day, and no partner ever answers it).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from echelon.hrl_xf.dataset.table_schema import OF_DAY, OF_LOG, Tables
from echelon.hrl_xf.dataset.thread_tables import DecisionTable, put_decisions, put_sets, put_threads
from echelon.hrl_xf.recording.log_columns import COLUMNS, FRAMEWORK, LogColumns
from echelon.hrl_xf.state.day_batch import DayBatch, Ledger, Offers, age_of, day_batch
from echelon.hrl_xf.state.day_state import REJECT
from echelon.hrl_xf.state.goals import BUCKETS, reconstruct_l2_goals
from echelon.hrl_xf.state.l1_safety import L1Output, L1SafetyLayer, LegalOffers
from echelon.runtime.arrays import Float32, Ints

_COSTS = ("shortfall_penalty", "storage_cost", "disposal_cost")
_OUTCOMES = ("profit", *_COSTS)


def build_tables(logs: Sequence[LogColumns], partners: dict[str, int], horizon: int = 40) -> Tables:
    """The tables of some logs; row numbers count from 0 in each table. New partners are added to `partners`."""
    states = [state for log in logs for state in log.days]
    days = day_batch(states, horizon)
    counts = np.array([len(log.days) for log in logs], np.int64)
    ledgers, first_ledger = Ledger.after_each_deal(days, [deals for log in logs for deals in log.deals])
    decided = _decided(logs, counts)
    tables: Tables = {}
    _put_days(tables, logs, states, days, counts)
    tables["day.first_ledger"], tables["day.goal"] = first_ledger, _goals(days, ledgers, first_ledger, decided)
    layer = L1SafetyLayer(horizon)
    sides, legal = _put_ledgers(tables, layer, days, ledgers, first_ledger)
    decisions = put_threads(tables, logs, decided, counts, partners)
    put_decisions(tables, layer, sides, legal, decisions, first_ledger)
    put_sets(tables, decisions)
    return tables


def _decided(logs: Sequence[LogColumns], counts: Ints) -> DecisionTable:
    """All decisions, with days and threads numbered over all logs."""
    table = np.concatenate([log.decisions for log in logs])
    sizes = [len(log.decisions) for log in logs]
    threads = np.array([len(log.threads) for log in logs], np.int64)
    table[:, COLUMNS.index("day")] += np.repeat(np.cumsum(counts) - counts, sizes)
    table[:, COLUMNS.index("thread")] += np.repeat(np.cumsum(threads) - threads, sizes)
    return DecisionTable(table, np.fromiter(chain.from_iterable(log.relative_time for log in logs), np.float64))


def _put_days(tables: Tables, logs: Sequence[LogColumns], states: list[Any], days: DayBatch, counts: Ints) -> None:
    first_day = np.cumsum(counts) - counts
    tables["log.first_day"], tables["log.n_days"] = first_day, counts
    for name in OF_LOG:
        tables[f"log.{name}"] = getattr(days, name)[first_day]
    tables["day.log"] = np.repeat(np.arange(len(logs)), counts)
    for name in OF_DAY:
        tables[f"day.{name}"] = getattr(days, name)
    for name in ("buy_issues", "sell_issues"):
        tables[f"day.{name}"] = getattr(days, name)
    costs = np.array([attrgetter(*_COSTS)(state) for state in states], np.float32).reshape(-1, len(_COSTS))
    missing = (np.nan,) * len(_OUTCOMES)
    closed = [missing if c is None else attrgetter(*_OUTCOMES)(c) for log in logs for c in log.closed]
    tables["day.costs"], tables["day.outcome"] = costs, np.array(closed, np.float32).reshape(-1, len(_OUTCOMES))
    offers, offsets = days.offers, days.offers.offsets(len(days))
    tables["day.first_offer"], tables["day.n_offers"] = offsets[:-1], np.diff(offsets)
    for name in ("seller", "ahead", "quantity", "price", "age"):
        tables[f"offer.{name}"] = getattr(offers, name)
    quantity = np.stack([days.Q_in, days.Q_out], axis=1)  # (D, 2, H+1)
    money = np.stack([days.Payables, days.Receivables], axis=1)
    row, side, ahead = np.nonzero((quantity != 0) | (money != 0))
    tables["day.first_commitment"] = np.searchsorted(row, np.arange(len(days)))
    tables["day.n_commitments"] = np.bincount(row, minlength=len(days))
    tables["commitment.seller"], tables["commitment.ahead"] = side, ahead
    tables["commitment.quantity"], tables["commitment.money"] = quantity[row, side, ahead], money[row, side, ahead]


def _goals(days: DayBatch, ledgers: Ledger, first_ledger: Ints, decided: DecisionTable) -> Float32:
    """The v2 labels of all days of a log."""
    at_dusk = ledgers.take(np.append(first_ledger[1:], len(ledgers.step)) - 1)
    own_will = decided.asked != FRAMEWORK
    heard = decided.take(np.flatnonzero(own_will & (decided.on_table == 1)))
    seen = Offers(
        heard.day, heard.seller == 1, heard.ahead_seen, heard.quantity_seen, heard.price_seen,
        age_of(heard.round, heard.rounds),
    )  # fmt: skip
    said = np.flatnonzero(own_will & (decided.sent == 1) & (decided.op == REJECT))
    last = np.zeros(int(decided.thread.max(initial=-1)) + 1, np.int64) - 1
    last[decided.thread[said]] = said  # of equal threads the last assignment stays
    mine = decided.take(np.sort(last[last >= 0]))
    own = Offers(mine.day, mine.seller == 1, mine.ahead, mine.quantity, mine.price, np.zeros_like(mine.day))
    return reconstruct_l2_goals(days, at_dusk, seen, own)


def _put_ledgers(
    tables: Tables, layer: L1SafetyLayer, days: DayBatch, ledgers: Ledger, first_ledger: Ints
) -> tuple[L1Output, LegalOffers]:
    """Limits and baselines after each deal; returns L1's view and its legal offers, buyer and seller in turn."""
    width = int(min(days.horizon.max(initial=0), days.H)) + 1  # beyond it nothing can be agreed
    day = np.repeat(np.arange(len(days)), np.diff(np.append(first_ledger, len(ledgers.step))))
    of_ledger = days.without_offers().take(day)
    limits = layer.limits(of_ledger, ledgers)
    twice = np.repeat(np.arange(len(day)), 2)
    sides = layer.compute(of_ledger.take(twice), None, np.tile([False, True], len(day)), limits=limits.take(twice))
    legal = layer.legal_baseline(sides)
    signed = np.stack([BUCKETS.sums(ledgers.q_in), BUCKETS.sums(ledgers.q_out)], axis=-1)
    columns: Tables = {
        "day": day, "Q_safe": limits.Q_safe[:, :width], "Q_safe_sell": limits.Q_safe_sell[:, :width],
        "B_free": limits.B_free,
        "signed": 4.0 * signed.reshape(-1, 8),  # quarters of pieces, bucket by bucket [bought, sold]
        "baseline_quantity": sides.baseline[:, 0].astype(np.float32).reshape(-1, 2),
        "baseline_ahead": sides.baseline[:, 1].astype(np.int64).reshape(-1, 2),
        "plain": legal.offer.reshape(-1, 6),  # the baseline as a legal offer, if any
    }  # fmt: skip
    tables.update({f"ledger.{name}": column for name, column in columns.items()})
    return sides, legal
