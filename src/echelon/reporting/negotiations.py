"""Negotiations to browse: what an agent was offered and answered, thread by thread, with L1's limits.

The data come from tracker logs. L1's limits are computed from the log, so they are shown for any agent; what only
LitaAgentHRL can report (goal, α, L3's probabilities) comes from its diary, if it kept one. The page has a budget of
bytes: each log gets an equal share and shows as many whole days as fit, evenly spread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from echelon.hrl_xf.recording.log_columns import LogColumns, columns_of
from echelon.hrl_xf.recording.log_files import read_log
from echelon.hrl_xf.state.day_batch import Ledger, day_batch
from echelon.hrl_xf.state.day_state import END
from echelon.hrl_xf.state.goals import BUCKETS
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer, safe_quantity
from echelon.hrl_xf.state.schema import LogError
from echelon.reporting.tables import significant
from echelon.runtime.arrays import Ints

Mind = Mapping[tuple[int, str, int], dict[str, Any]]
"""What the layers computed: by (day, partner, round)."""


@dataclass(frozen=True)
class Diary:
    """What an agent recorded about its decisions, ready for the page."""

    goals: Mapping[int, list[float]] = field(default_factory=dict)
    """L2's 16 numbers by day"""
    minds: Mind = field(default_factory=dict)


def nobody(partner: str) -> str | None:
    """For logs without information about partners."""


@dataclass(frozen=True)
class LogSource:
    """A log to browse."""

    world: str
    competitor: str
    path: Path
    who: Callable[[str], str | None] = nobody
    """the agent behind a partner's id, where it is known"""
    diary: Diary = field(default_factory=Diary)


def browse(sources: Sequence[LogSource], notes: Sequence[str], budget: int) -> dict[str, Any] | None:
    """The logs as the page shows them, in at most about `budget` bytes; None if there is nothing to show.

    `notes` are shown on the page; notes about omitted logs and days are added.
    """
    share = budget // max(1, len(sources))
    logs, said, thinned = [], list(notes), 0
    for source in sources:
        try:
            log, left = _log(source, share)
        except LogError as error:
            said.append(f"left out {source.path.name}: {error}")
            continue
        if log["days"]:
            logs.append(log)
        thinned += left
    if thinned:
        said.append(f"To keep the page small, {thinned} days of these logs are left out; the others are spread evenly.")
    buckets = [f"{first}–{last}" for first, last in BUCKETS.edges]
    return {"logs": logs, "notes": said, "buckets": buckets} if logs else None


def _log(source: LogSource, share: int) -> tuple[dict[str, Any], int]:
    """One log and how many of its days are left out."""
    read, _ = read_log(source.path.parent, source.path.name)
    columns = columns_of(read)
    days = days_of(columns, source)
    sizes = [len(msgspec.json.encode(day)) for day in days]
    shown = spread(sizes, share)
    partners = {thread["p"] for i in shown for thread in days[i]["threads"]}
    first = columns.days[0]
    return {
        "world": source.world,
        "competitor": source.competitor,
        "id": columns.agent_id,
        "level": first.level,
        "levels": first.n_products - 1,
        "lines": first.n_lines,
        "n_days": first.n_steps,
        "partners": {p: name for p in sorted(partners) if (name := source.who(p))},
        "days": [days[i] for i in shown],
    }, len(days) - len(shown)


def spread(sizes: Sequence[int], budget: int) -> list[int]:
    """As many positions as the budget takes, evenly spread; at least one."""
    n = len(sizes)
    for count in range(n, 1, -1):
        chosen = sorted({round(i * (n - 1) / (count - 1)) for i in range(count)})
        if sum(sizes[i] for i in chosen) <= budget:
            return chosen
    return [0] if n else []


def days_of(columns: LogColumns, source: LogSource) -> list[dict[str, Any]]:
    """Every day with its threads."""
    steps = _steps(columns, source.diary.minds)
    days: list[dict[str, Any]] = []
    for row, state in enumerate(columns.days):
        closed = columns.closed[row]
        known = [
            state.balance, state.inventory_input, state.inventory_output, state.spot_price_in, state.spot_price_out,
            state.needed_supplies, state.needed_sales, state.exogenous_input_quantity,
            state.exogenous_output_quantity, state.shortfall_penalty, state.storage_cost, state.disposal_cost,
        ]  # fmt: skip
        day: dict[str, Any] = {"day": state.current_step, "dawn": significant(known), "threads": []}
        if closed is not None:
            ended = (closed.balance, closed.profit, closed.shortfall_quantity, closed.productivity)
            day["dusk"] = significant(ended)
        if state.current_step in source.diary.goals:
            day["goal"] = source.diary.goals[state.current_step]
        days.append(day)
    for thread, (row, partner, seller) in enumerate(columns.threads):
        if not steps[thread]:
            continue
        state = columns.days[row]
        issues = state.sell_issues if seller else state.buy_issues
        agreed = columns.agreements.get(thread)
        end = "deal" if agreed else "ended" if steps[thread][-1][4] == END else "none"
        bounds = [] if issues is None else [*issues.quantity, *issues.time, *issues.price]
        found = {"p": partner, "s": int(seller), "issues": bounds, "end": end, "steps": steps[thread]}
        days[row]["threads"].append(found | ({"deal": list(agreed)} if agreed else {}))
    return days


def _steps(columns: LogColumns, minds: Mind) -> list[list[list[Any]]]:
    """By thread: [call, round, offer seen, own offer, answer, L1's limits for the two, what the layers computed]."""
    steps: list[list[list[Any]]] = [[] for _ in columns.threads]
    if not len(columns.decisions):
        return steps
    seen_safe, own_safe = (_safe(columns, suffix).astype(np.int64).tolist() for suffix in ("_seen", ""))
    names = ("day", "thread", "call", "round", "on_table", "op", "sent")
    table = np.stack([columns.column(name) for name in names], axis=-1).tolist()
    offers = [_offers(columns, suffix).tolist() for suffix in ("_seen", "")]
    for i, (day, thread, call, round_, on_table, op, sent) in enumerate(table):
        if not sent:
            continue
        own = offers[1][i] if op == 1 else 0
        seen = offers[0][i] if on_table else 0
        step: list[Any] = [call, round_, seen, own, op, seen_safe[i] if seen else 0, own_safe[i] if own else 0]
        mind = minds.get((columns.days[day].current_step, columns.threads[thread][1], round_))
        steps[thread].append([*step, mind] if mind else step)
    return steps


def _offers(columns: LogColumns, suffix: str) -> Ints:
    """(quantity, absolute day, unit price) of every decision.  # (N, 3)"""
    step = np.array([day.current_step for day in columns.days])[columns.column("day")]
    quantity, ahead, price = (columns.column(f"{name}{suffix}") for name in ("quantity", "ahead", "price"))
    found: Ints = np.stack([quantity, ahead + step, price], axis=-1)
    return found


def _safe(columns: LogColumns, suffix: str) -> Ints:
    """The most pieces L1 allows at the day and price of each offer, when it was decided about.  # (N,)"""
    days = day_batch(columns.days)
    ledger, first = Ledger.after_each_deal(days, columns.deals)
    day = columns.column("day")
    limits = L1SafetyLayer(days.H).limits(days.take(day), ledger.take(first[day] + columns.column("deals_before")))
    ahead = np.clip(columns.column(f"ahead{suffix}"), 0, days.H)
    seller, price = columns.column("seller") == 1, columns.column(f"price{suffix}")
    found: Ints = np.minimum(
        safe_quantity(limits.Q_safe, limits.Q_safe_sell, limits.B_free, seller, ahead, price), 1e6
    ).astype(np.int64)
    return found
