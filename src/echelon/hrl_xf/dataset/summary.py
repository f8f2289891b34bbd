"""A data set in numbers: what `echelon hrl dataset` prints and `echelon report` draws. It is read in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.dataset.datasets import MacroDataset, MicroDataset
from echelon.hrl_xf.dataset.split import SPLITS, Split, WorldSplit
from echelon.hrl_xf.dataset.thread_tables import (
    HAS_BASELINE,
    IN_RANGE,
    ON_GRID,
    REPRESENTABLE,
    SAFE_DAY,
    SAFE_MONEY,
    SAFE_QUANTITY,
)
from echelon.hrl_xf.dataset.tournament import Decisions, TournamentData
from echelon.hrl_xf.recording.log_columns import ASKED, OPS
from echelon.hrl_xf.state.day_state import ACCEPT, REJECT
from echelon.hrl_xf.state.goals import goal_mask
from echelon.runtime.arrays import Bools, Float32, Ints

PIECE = 16384
_RULES = {
    "L1 has a baseline": HAS_BASELINE,
    "legal by the issues": ON_GRID,
    "day open": SAFE_DAY,
    "quantity safe": SAFE_QUANTITY,
    "money free": SAFE_MONEY,
    "residual in range": IN_RANGE,
}
_FIRST = ASKED.index("first_proposals")
_TENTHS = tuple(f"{i / 10:.1f}–{(i + 1) / 10:.1f}" for i in range(10))
_FIFTHS = tuple(f"{i / 5:.1f}–{(i + 1) / 5:.1f}" for i in range(5))
_UP_TO_20 = (*map(str, range(20)), "20+")
_DIFFERENCES = tuple(f"{d:+d}" for d in range(-8, 9))
_ENOUGH = 20
"""A share of fewer is not shown."""


@dataclass(frozen=True)
class DecisionColumns:
    """What the summary looks at, for every decision of the agent, overtaken ones included."""

    op: Ints  # (N,)
    l1_op: Ints  # (N,)
    sent: Bools  # (N,)
    first: Bools  # (N,) made in first_proposals
    on_table: Bools  # (N,)
    seller: Bools  # (N,)
    masked: Bools  # (N,) L1 allows no day
    l1_rules: Ints  # (N,)
    history: Ints  # (N,)
    relative_time: Float32  # (N,)
    others: Ints  # (N, 3)
    offer: Ints  # (N, 3) the offer sent, or the one on the table where there is one: quantity, days ahead, unit price
    ratio: NDArray[np.float64]  # (N,) its price within the issue's range
    residual: Ints  # (N, 3)

    def where(self, keep: Bools) -> DecisionColumns:
        return DecisionColumns(*(column[keep] for column in vars(self).values()))


def decision_columns(data: TournamentData) -> DecisionColumns:
    parts = [_columns(data, m) for m in _decisions(data)]
    names = DecisionColumns.__dataclass_fields__
    return DecisionColumns(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _decisions(data: TournamentData) -> Iterator[Decisions]:
    rows = data.rows("decision")
    for begin in range(0, max(1, len(rows)), PIECE):
        yield data.tables.decisions(rows[begin : begin + PIECE])


def _columns(data: TournamentData, m: Decisions) -> DecisionColumns:
    threads, at = np.unique(m.thread, return_inverse=True)
    last = data.tables.threads(threads).offers[at, np.maximum(m.history - 1, 0)]
    rejects = m.op == REJECT
    offer = np.where(rejects[:, None], m.offer, np.where(m.on_table[:, None], last, 0))
    low, high = m.issues[:, 4], m.issues[:, 5]
    return DecisionColumns(
        op=m.op,
        l1_op=m.l1_op,
        sent=m.sent,
        first=m.asked == _FIRST,
        on_table=m.on_table,
        seller=m.seller,
        masked=np.logical_not(m.open.any(axis=1)),
        l1_rules=m.l1_rules,
        history=m.history,
        relative_time=m.relative_time,
        others=m.others,
        offer=offer,
        ratio=np.divide(offer[:, 2] - low, high - low, out=np.zeros(len(low)), where=high > low),
        residual=m.residual,
    )


def shares(values: Ints, names: tuple[str, ...]) -> dict[str, float]:
    counts = np.bincount(values, minlength=len(names))
    return {name: round(float(n) / max(1, len(values)), 4) for name, n in zip(names, counts, strict=True)}


def rates(places: Ints, happened: Bools, names: tuple[str, ...]) -> dict[str, float]:
    """How often something happened at each place."""
    of, all_ = (np.bincount(at, minlength=len(names)) for at in (places[happened], places))
    return {
        name: round(float(part) / n, 4) if n >= _ENOUGH else 0.0
        for name, part, n in zip(names, of.tolist(), all_.tolist(), strict=True)
    }


def days_ahead(columns: DecisionColumns) -> dict[str, float]:
    """Shares of offers by days ahead: 0, 1, 2, 3, 4 and more."""
    return shares(np.clip(columns.offer[:, 1], 0, 4), ("0", "1", "2", "3", "4+"))


def quantiles(values: NDArray[Any]) -> dict[str, float]:
    if not len(values):
        return {}
    points = {"mean": np.mean(values), "p50": np.median(values), "p90": np.quantile(values, 0.9), "max": np.max(values)}
    return {name: round(float(value), 3) for name, value in points.items()}


def goal_table(macro: MacroDataset) -> tuple[Float32, Bools]:
    """v2 labels and which of their numbers mean something.  # (N, 16) each"""
    data = macro.data
    masks = [goal_mask(data.tables.days(macro.rows[i : i + PIECE], offers=False)) for i in range(0, len(macro), PIECE)]
    return data.tables.store.take("day.goal", macro.rows), np.concatenate(masks)


def summarise(macro: MacroDataset, micro: MicroDataset, columns: DecisionColumns, split: WorldSplit) -> dict[str, Any]:
    """All figures of the summary, ready for JSON."""
    data = macro.data
    sent = columns.where(columns.sent)
    rejects, accepts = sent.where(sent.op == REJECT), sent.where(sent.op == ACCEPT)
    answers, openings = sent.where(sent.on_table), columns.where(columns.first & (columns.op == REJECT))
    goals, mask = goal_table(macro)
    names = [f"{kind}{bucket}" for bucket in range(4) for kind in ("Q_buy_", "P_buy_", "Q_sell_", "P_sell_")]
    return {
        "agent": data.records[0].agent_type,
        "fingerprint": data.fingerprint,
        "horizon": data.horizon,
        "logs": len(data.records),
        "left_out": {record.file.path: record.error for record in data.left_out},
        "worlds": len({(record.config_id, record.world_id) for record in data.records}),
        "configurations": len({record.config_id for record in data.records}),
        "agent_days": len(macro),
        "decisions": len(micro),
        "overtaken_first_proposals": int((~columns.sent).sum()),
        "decisions_by_answer": {name: int((sent.op == code).sum()) for code, name in enumerate(OPS)},
        "answers_to_an_offer": shares(answers.op, OPS),
        "l1_would_answer": shares(answers.l1_op, OPS),
        "agrees_with_l1": round(float((sent.op == sent.l1_op).mean()), 4) if len(sent.op) else 0.0,
        "openings": int((~sent.on_table).sum()),
        "days_ahead": {
            "first proposals": days_ahead(openings),
            "first proposals sent": days_ahead(openings.where(openings.sent)),
            "counter-offers": days_ahead(rejects.where(rejects.on_table)),
            "accepted": days_ahead(accepts),
        },
        "history_length": quantiles(sent.history),
        "all_masked": {
            "all": round(float(sent.masked.mean()), 4) if len(sent.op) else 0.0,
            "buyer": round(float(sent.masked[~sent.seller].mean()), 4) if (~sent.seller).any() else 0.0,
            "seller": round(float(sent.masked[sent.seller].mean()), 4) if sent.seller.any() else 0.0,
        },
        "offers_sent": _rules(rejects),
        "offers_accepted": _rules(accepts),
        "all_rules_by_side": {
            f"{side}, {name}": _rules(c.where(c.seller == seller))["all rules"]
            for name, c in (("sent", rejects), ("accepted", accepts))
            for side, seller in (("buying", False), ("selling", True))
        },
        "goal": {name: quantiles(goals[mask[:, i], i]) for i, name in enumerate(names) if mask[:, i].any()},
        "split": {s: _sizes(macro, micro, split, s) for s in SPLITS},
        "charts": _charts(sent),
    }


def _charts(sent: DecisionColumns) -> list[dict[str, Any]]:
    """Distributions for bar charts, as `echelon report` draws them: title, and shares by group and category."""
    answers, offers = sent.where(sent.on_table), sent.where(sent.op == REJECT)
    named = {"sent": offers, "accepted": sent.where(sent.op == ACCEPT)}
    sides = {"buying": False, "selling": True}
    by_side = {
        f"{side}, {name}": c.where(c.seller == seller) for side, seller in sides.items() for name, c in named.items()
    }
    based = offers.where(offers.l1_rules & HAS_BASELINE > 0)
    together = answers.where(answers.others[:, 0] > 0)
    tenth = np.clip((answers.relative_time * 10).astype(np.int64), 0, 9)
    rank = np.clip(together.others[:, 2], 0, 20)
    found: dict[str, dict[str, dict[str, float]]] = {
        "Answers to an offer by relative time": {
            name: rates(tenth, answers.op == code, _TENTHS) for code, name in enumerate(OPS)
        },
        "Pieces in an offer": {name: shares(np.clip(c.offer[:, 0], 0, 20), _UP_TO_20) for name, c in named.items()},
        "Price within the issue's range": {
            name: shares(np.clip((c.ratio * 5).astype(np.int64), 0, 4), _FIFTHS) for name, c in by_side.items()
        },
        "Offers of both sides before a decision": {"decisions": shares(np.clip(sent.history, 0, 20), _UP_TO_20)},
        "Offers sent, less L1's baseline": {
            name: shares(np.clip(based.residual[:, column], -8, 8) + 8, _DIFFERENCES)
            for name, column in (("pieces", 0), ("price", 2), ("days", 1))
        },
        "Accepted, by how many threads have a better price": {
            side: rates(rank[at], together.op[at] == ACCEPT, _UP_TO_20)
            for side, seller in sides.items()
            for at in (together.seller == seller,)
        },
    }
    return [{"title": title, "groups": groups} for title, groups in found.items()]


def _rules(columns: DecisionColumns) -> dict[str, float]:
    """Share of offers that keep each of L1's rules, and all of them."""
    n = max(1, len(columns.l1_rules))
    found = {name: float(((columns.l1_rules & bit) > 0).sum()) / n for name, bit in _RULES.items()}
    found["all rules"] = float((columns.l1_rules == REPRESENTABLE).sum()) / n
    return {name: round(value, 4) for name, value in found.items()}


def _sizes(macro: MacroDataset, micro: MicroDataset, split: WorldSplit, name: Split) -> dict[str, int]:
    days = macro.part(split, name)
    return {
        "configurations": len(split.of(name)),
        "logs": len(np.unique(days.log)),
        "agent_days": len(days),
        "decisions": len(micro.part(split, name)),
    }


def lines(summary: dict[str, Any]) -> Iterator[str]:
    """The summary as text."""
    s = summary
    worlds, days = f"{s['worlds']} worlds of {s['configurations']} configurations", f"{s['agent_days']} agent-days"
    yield f"{s['agent']}: {worlds}, {s['logs']} logs, {days}"
    if s["left_out"]:
        yield f"left out: {len(s['left_out'])} logs"
    by = ", ".join(f"{name} {n}" for name, n in s["decisions_by_answer"].items())
    overtaken = f"{s['overtaken_first_proposals']} first proposals were overtaken"
    yield f"{s['decisions']} decisions ({by}), {s['openings']} of them openings; {overtaken}"
    yield f"answers to an offer: {_percent(s['answers_to_an_offer'])}; L1 would answer {_percent(s['l1_would_answer'])}"
    for what, table in s["days_ahead"].items():
        yield f"days ahead, {what}: {_percent(table)}"
    yield f"offers seen before a decision: {_plain(s['history_length'])}"
    yield f"L1 allows no day: {_percent(s['all_masked'])}"
    yield f"offers sent that keep L1's rules: {_percent(s['offers_sent'])}"
    yield f"offers accepted that keep them: {_percent(s['offers_accepted'])}"
    if "all_rules_by_side" in s:  # an older summary has it not
        yield f"offers that keep all of them: {_percent(s['all_rules_by_side'])}"
    for name, table in s["goal"].items():
        if name.startswith("Q"):
            yield f"goal {name}: {_plain(table)}"
    for name, table in s["split"].items():
        yield f"{name}: " + ", ".join(f"{n} {what.replace('_', '-')}" for what, n in table.items())


def _percent(table: dict[str, float]) -> str:
    return ", ".join(f"{name} {100 * value:.1f} %" for name, value in table.items())


def _plain(table: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in table.items())
