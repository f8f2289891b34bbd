"""Tables of what happens within a day: threads, tokens, decisions with L1's view of them, and sets.

The offers of a thread are stored once; a decision sees the first `history` of them, and its own offer comes after. So
one causal pass over a thread serves all its decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelon.hrl_xf.dataset.table_schema import Tables
from echelon.hrl_xf.recording.log_columns import COLUMNS, FRAMEWORK, LogColumns
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT
from echelon.hrl_xf.state.l1_safety import L1Output, L1SafetyLayer, LegalOffers
from echelon.hrl_xf.state.threads import DELTA_P, DELTA_Q, others_in_sight
from echelon.runtime.arrays import Bools, Floats, Ints

HAS_BASELINE, ON_GRID, SAFE_DAY, SAFE_QUANTITY, SAFE_MONEY, IN_RANGE = (1 << bit for bit in range(6))
REPRESENTABLE = HAS_BASELINE | ON_GRID | SAFE_DAY | SAFE_QUANTITY | SAFE_MONEY | IN_RANGE
"""All bits of `decision.l1_rules`: the offer (sent, or accepted) is the baseline plus a residual that L1 lets pass."""

L1_ROWS = 4096
"""Decisions that L1 looks at together: bounds memory; rows do not affect each other."""


@dataclass(frozen=True)
class DecisionTable:
    """Decisions of many logs as columns (`log_columns.COLUMNS`); days and threads numbered over all logs."""

    table: Ints  # (N, columns)
    relative_time: Floats  # (N,)

    def __getattr__(self, name: str) -> Ints:
        if name not in COLUMNS:
            raise AttributeError(f"decisions have no column {name!r}; they are {', '.join(COLUMNS)}")
        column: Ints = self.table[:, COLUMNS.index(name)]
        return column

    def __len__(self) -> int:
        return len(self.table)

    def take(self, rows: Ints | slice) -> DecisionTable:
        return DecisionTable(self.table[rows], self.relative_time[rows])


def put_threads(
    tables: Tables, logs: Sequence[LogColumns], decided: DecisionTable, n_days: Ints, partners: dict[str, int]
) -> DecisionTable:
    """Threads, their tokens, and `decision.history`; returns the agent's own decisions in the order of threads."""
    threads: list[tuple[int, int, bool]] = []
    deals: list[tuple[int, ...]] = []
    for log, first_day in zip(logs, (np.cumsum(n_days) - n_days).tolist(), strict=True):
        for thread, (quantity, time, price) in log.agreements.items():
            ahead = time - log.days[log.threads[thread][0]].current_step
            deals.append((len(threads) + thread, quantity, ahead, price))
        threads += [(first_day + day, partners.setdefault(name, len(partners)), s) for day, name, s in log.threads]
    day, partner, seller = np.array(threads, np.int64).reshape(-1, 3).T
    agreed = np.array(deals, np.int64).reshape(-1, 4)
    deal = np.zeros((len(threads), 3), np.int64)
    deal[agreed[:, 0]] = agreed[:, 1:]
    ordered = decided.take(np.argsort(decided.thread, kind="stable"))
    first_token, n_tokens, history = _put_tokens(tables, ordered, len(threads))
    own = np.flatnonzero(ordered.asked != FRAMEWORK)
    decisions = ordered.take(own)
    tables["decision.history"] = history[own]
    n_decisions = np.bincount(decisions.thread, minlength=len(threads))
    columns = {
        "day": day, "partner": partner, "seller": seller, "deal": deal, "first_token": first_token,
        "n_tokens": n_tokens, "first_decision": np.cumsum(n_decisions) - n_decisions, "n_decisions": n_decisions,
    }  # fmt: skip
    tables.update({f"thread.{name}": column for name, column in columns.items()})
    return decisions


def _put_tokens(tables: Tables, ordered: DecisionTable, n_threads: int) -> tuple[Ints, Ints, Ints]:
    """Tokens of threads; returns where each thread's begin, how many they are, and how many each decision had seen.

    A decision is between two possible tokens: the partner's offer it answers, and the offer it sends. The same
    offer of the partner under two decisions in a row is one token: the partner made no offer in between.
    """
    n = len(ordered)
    thread = np.repeat(ordered.thread, 2)
    mine = np.tile([False, True], n)
    offers = np.empty((2 * n, 3), np.int64)
    offers[::2] = np.stack([ordered.quantity_seen, ordered.ahead_seen, ordered.price_seen], axis=-1)
    offers[1::2] = np.stack([ordered.quantity, ordered.ahead, ordered.price], axis=-1)
    spoken = np.empty(2 * n, np.bool_)
    spoken[::2] = ordered.on_table == 1
    spoken[1::2] = (ordered.sent == 1) & (ordered.op == REJECT)
    slots = np.flatnonzero(spoken)
    here, before = slots[1:], slots[:-1]
    same = (thread[here] == thread[before]) & (offers[here] == offers[before]).all(axis=1)
    spoken[here[same & ~mine[here] & ~mine[before]]] = False
    slots = np.flatnonzero(spoken)
    n_tokens = np.bincount(thread[slots], minlength=n_threads)
    first = np.cumsum(n_tokens) - n_tokens
    tables["token.quantity"], tables["token.ahead"], tables["token.price"] = offers[slots].T
    tables["token.mine"] = mine[slots]
    history = np.cumsum(spoken)[::2] - first[ordered.thread]  # behind the partner's slot, before the own one
    return first, n_tokens, history


def put_decisions(
    tables: Tables,
    layer: L1SafetyLayer,
    sides: L1Output,
    legal: LegalOffers,
    decisions: DecisionTable,
    first_ledger: Ints,
) -> None:
    """Answers and outgoing offers, the other threads in sight, and what L1 makes of the moment.

    `sides` and `legal` are L1's view and its legal baseline for each ledger, as buyer (row 2n) and seller (row 2n + 1).
    """
    for name in ("thread", "call", "round", "quantity", "ahead", "price", "deals_before"):
        tables[f"decision.{name}"] = decisions.table[:, COLUMNS.index(name)]
    times, code = np.unique(decisions.relative_time.astype(np.float32), return_inverse=True)
    tables["time.relative"], tables["decision.time"] = times, code
    tables["decision.others"] = _others(decisions)
    l1_op, l1_rules = np.empty(len(decisions), np.int64), np.empty(len(decisions), np.int64)
    for begin in range(0, len(decisions), L1_ROWS):
        span = slice(begin, begin + L1_ROWS)
        some = decisions.take(span)
        row = 2 * (first_ledger[some.day] + some.deals_before) + some.seller
        out = sides.take(row)
        seen = np.stack([some.quantity_seen, some.ahead_seen, some.price_seen], axis=-1)
        accepts = layer.accepts(out, seen) & (some.on_table == 1)
        l1_op[span] = np.where(accepts, ACCEPT, np.where(legal.legal[row], REJECT, END))
        l1_rules[span] = _rules_of(out, some, legal.take(row))
    tables["decision.l1_rules"] = l1_rules
    tables["decision.answer"] = pack_answer(decisions.op, l1_op, decisions.sent, decisions.on_table, decisions.asked)


def pack_answer(op: Ints, l1_op: Ints, sent: Ints, on_table: Ints, asked: Ints) -> Ints:
    """Five small numbers in one byte."""
    return op | l1_op << 2 | sent << 4 | on_table << 5 | asked << 6


def unpack_answer(packed: Ints) -> tuple[Ints, Ints, Bools, Bools, Ints]:
    """op, L1's op, sent, on_table, asked."""
    return packed & 3, packed >> 2 & 3, (packed >> 4 & 1) == 1, (packed >> 5 & 1) == 1, packed >> 6 & 3


def _rules_of(out: L1Output, some: DecisionTable, base: LegalOffers) -> Ints:
    """Which of L1's rules the offer keeps that the agent sent or accepted; 0 for an END."""
    accepts = some.op == ACCEPT
    q = np.where(accepts, some.quantity_seen, some.quantity)
    ahead = np.where(accepts, some.ahead_seen, some.ahead)
    p = np.where(accepts, some.price_seen, some.price)
    rows, width = np.arange(len(q)), out.safe.shape[1]
    day = np.clip(ahead, 0, width - 1)
    low, high = out.issues[:, ::2], out.issues[:, 1::2]
    offer = np.stack([q, ahead, p], axis=-1)
    near = (np.abs(q - base.offer[:, 0]) <= DELTA_Q) & (np.abs(p - base.offer[:, 2]) <= DELTA_P)
    bits = [
        base.legal | accepts,
        ((offer >= low) & (offer <= high)).all(axis=1),
        (day == ahead) & out.open[rows, day],
        q <= out.safe[rows, day],
        out.seller | (q * p <= out.B_free),
        accepts | ~base.legal | near,
    ]
    rules = np.stack(bits, axis=-1) @ (1 << np.arange(len(bits)))
    return np.where((some.op == REJECT) | accepts, rules, 0)


def _others(decisions: DecisionTable) -> Ints:
    """`others_in_sight` of decisions; those of one call and side see each other.  # (N, 3)"""
    group = _call_numbers(decisions) * 2 + decisions.seller
    return others_in_sight(
        group, decisions.seller == 1, decisions.on_table == 1, decisions.quantity_seen, decisions.price_seen
    )


def _call_numbers(decisions: DecisionTable) -> Ints:
    """Calls numbered in the order of days.  # (N,)"""
    key = decisions.day * (int(decisions.call.max(initial=0)) + 1) + decisions.call
    _, number = np.unique(key, return_inverse=True)
    return np.asarray(number, np.int64)


def put_sets(tables: Tables, decisions: DecisionTable) -> None:
    """Decisions made together, for L4."""
    number = _call_numbers(decisions)
    order = np.argsort(number, kind="stable")
    sizes = np.bincount(number)
    first = np.cumsum(sizes) - sizes
    tables["member.decision"] = order
    tables["set.first_member"], tables["set.n_members"] = first, sizes
