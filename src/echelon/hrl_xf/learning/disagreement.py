"""A clone put into its expert's own seat: where its answers differ from the expert's, decision by decision.

The clone is asked at the moments the expert went through: the same history, the same state at dawn, the goal that its
own L2 sets and the α that its own L4 gives the threads of the call. Its wish is L3's most probable answer, its answer
what the reservation leaves of the wishes of the call; what is still promised in threads that are not part of the call
is not held. After each call the expert's answers count, so every moment is one that the expert knew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from echelon.hrl_xf.dataset.datasets import L4Dataset, MicroDataset
from echelon.hrl_xf.dataset.shards import ranges
from echelon.hrl_xf.dataset.thread_tables import (
    HAS_BASELINE,
    IN_RANGE,
    ON_GRID,
    REPRESENTABLE,
    SAFE_DAY,
    SAFE_MONEY,
    SAFE_QUANTITY,
)
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.layers.protocols import Coordinator
from echelon.hrl_xf.learning.figures import Figures
from echelon.hrl_xf.learning.sources import situation_of
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.recording.log_columns import columns_of
from echelon.hrl_xf.recording.log_files import read_log
from echelon.hrl_xf.state.day_batch import DayBatch, Ledger, day_batch, in_days_ahead, outcome_of
from echelon.hrl_xf.state.day_state import ACCEPT, ANSWERS, END, REJECT
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.state.reservation import NOTHING, Reservations, Wish, settle_call
from echelon.runtime.arrays import Bools, Float32, Ints

SIDES = ("buy", "sell")
PLACES = ("first", "middle", "last")
SAME = 0
KINDS = (
    "the same",
    *(f"{a} → {b}" for a in ANSWERS for b in ANSWERS),
    "offer: earlier day", "offer: later day", "offer: fewer pieces", "offer: more pieces", "offer: lower price",
    "offer: higher price",
)  # fmt: skip
"""How an answer differs from another; the first thing that does, of answer, day, quantity, price."""
_REASONS = {
    "day": SAFE_DAY, "quantity": SAFE_QUANTITY, "money": SAFE_MONEY, "price": ON_GRID, "residual": IN_RANGE,
    "no baseline": HAS_BASELINE,
}  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """N decisions that were sent. Offers are quantity, days ahead, unit price: sent or accepted; zeros for END."""

    log: Ints  # (N,)
    day: Ints  # (N,)
    call: Ints  # (N,)
    seller: Ints  # (N,) 1 or 0
    place: Ints  # (N,) index into PLACES
    l1_rules: Ints  # (N,) which rules of L1 the expert's answer keeps
    op: Ints  # (N,) the expert's
    offer: Ints  # (N, 3)
    wish_op: Ints  # (N,) the clone's
    wish: Ints  # (N, 3)
    answer_op: Ints  # (N,) what the reservation left of it
    answer: Ints  # (N, 3)

    def __len__(self) -> int:
        return len(self.op)

    def pick(self, rows: Bools) -> Compared:
        return Compared(*(getattr(self, f.name)[rows] for f in fields(self)))

    @property
    def inside(self) -> Bools:
        """Whether the expert's answer is one that L1 lets pass and L3 can name."""
        found: Bools = (self.op == END) | (self.l1_rules == REPRESENTABLE)
        return found


def compare(
    data: TournamentData, logs: Ints, data_dir: Path, l3: TemporalDecisionTransformer, l4: Coordinator
) -> Compared:
    """The decisions of some logs (indices into `data.records`); `data` has the goals of the clone's L2."""
    parts = [_of_log(data, int(log), data_dir, l3, l4) for log in logs]
    if not parts:
        raise ValueError("no log is left to compare in; train with a larger ratio for this split")
    return Compared(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Compared)))


def _of_log(
    data: TournamentData, log: int, data_dir: Path, l3: TemporalDecisionTransformer, l4: Coordinator
) -> Compared:
    tables, record = data.tables, data.records[log]
    store, shard = tables.store, data.shards.index(record.shard)
    rows = store.first_row("decision", shard) + np.arange(*_span(record.decisions))
    alpha, sets = _alphas(data, store.first_row("set", shard) + np.arange(*_span(record.sets)), l4)
    batch = MicroDataset(data, rows).batch(np.arange(len(rows)))
    m = batch.decisions
    situation = situation_of(batch, alpha)
    with torch.inference_mode():
        tokens, mask = torch.as_tensor(batch.threads.tokens), torch.as_tensor(batch.threads.mask)
        state = l3.states(tokens, mask, torch.as_tensor(batch.thread), torch.as_tensor(m.history))
    chosen = l3.act(state, situation)
    wish_op, wish = chosen.op, chosen.offer.copy()
    wish[wish_op == ACCEPT] = situation.seen[wish_op == ACCEPT]
    columns = columns_of(read_log(data_dir, record.file.path)[0], data.horizon)
    days = day_batch(columns.days, data.horizon).without_offers()
    books = _Books(L1SafetyLayer(data.horizon), days, *Ledger.after_each_deal(days, columns.deals))
    day = m.day - store.first_row("day", shard) - record.days[0]
    names = [columns.threads[i][1] for i in m.thread - store.first_row("thread", shard) - record.threads[0]]
    before = store.take("decision.deals_before", rows)
    answer_op, answer = np.full(len(rows), END), np.zeros_like(wish)
    step = days.current_step.astype(np.int64)
    for members in sets:
        at = np.array(sorted((members - rows[0]).tolist(), key=lambda i: names[i]))
        wishes = [_wish(int(wish_op[i]), wish[i], int(step[day[i]])) for i in at]
        settled = books.settle(wishes, m.seller[at], alpha[at], int(day[at[0]]), int(before[at[0]]))
        for i, left in zip(at, settled, strict=True):
            answer_op[i] = left.op
            if left.offer is not None:
                answer[i] = in_days_ahead([left.offer], int(step[day[i]]))[0]
    offer = np.where((m.op == ACCEPT)[:, None], situation.seen, m.offer)
    first, last = days.my_input_product == 0, days.my_output_product == days.n_products - 1
    place = np.where(first, 0, np.where(last, 2, 1))[day]
    found = Compared(
        np.full(len(rows), log), day, m.call, m.seller.astype(np.int64), place, m.l1_rules, m.op, offer, wish_op, wish,
        answer_op, answer,
    )  # fmt: skip
    return found.pick(m.sent)


def _span(rows: tuple[int, int]) -> tuple[int, int]:
    return rows[0], rows[0] + rows[1]


def _alphas(data: TournamentData, sets: Ints, l4: Coordinator) -> tuple[Float32, list[Ints]]:
    """L4's α of each decision of a log, from the log's first decision on, and the decisions of each call."""
    if not len(sets):
        return np.zeros(0, np.float32), []
    take = data.tables.store.take
    b = L4Dataset(data, sets).batch(np.arange(len(sets)))
    found = np.asarray(l4.alpha(b.thread_feat, b.global_feat, b.days, b.role, b.mask), np.float32)
    sizes = take("set.n_members", sets)
    members = take("member.decision", ranges(take("set.first_member", sets), sizes))
    alpha = np.zeros(len(members), np.float32)
    alpha[members - members.min()] = found[b.mask]
    return alpha, np.split(members, np.cumsum(sizes)[:-1])


@dataclass(frozen=True)
class _Books:
    """The days of a log and what was signed on them: L1's account at each call."""

    layer: L1SafetyLayer
    days: DayBatch
    ledger: Ledger
    first: Ints

    def settle(self, wishes: Sequence[Wish], seller: Bools, alpha: Float32, day: int, deals: int) -> list[Wish]:
        one, ledger = self.days.take(np.array([day])), self.ledger.take(np.array([self.first[day] + deals]))

        def book(sells: bool) -> Reservations:
            return Reservations(self.layer, one, ledger, sells, one.sell_issues if sells else one.buy_issues)

        return settle_call(wishes, seller, alpha, book)


def _wish(op: int, offer: Ints, step: int) -> Wish:
    return NOTHING if op == END else Wish(op, outcome_of(offer, step))


def kinds(op: Ints, offer: Ints, other_op: Ints, other: Ints) -> Ints:
    """How `other` differs from the first, as indices into KINDS.  # (N,)"""
    offers = (op == REJECT) & (other_op == REJECT)
    found = np.where(op == other_op, SAME, 1 + op * len(ANSWERS) + other_op)
    base = 1 + len(ANSWERS) ** 2
    for column, place in ((1, 0), (0, 1), (2, 2)):  # day, quantity, price: the first that differs
        step = other[:, column] - offer[:, column]
        found = np.where(offers & (found == SAME) & (step != 0), base + 2 * place + (step > 0), found)
    return found


# -- figures


def figures(c: Compared) -> Figures:
    """All tables, by side and place of the seat."""
    return {
        "decisions": {"n": len(c), "logs": len(np.unique(c.log))},
        "outside L1": _by_seat(c, _outside),
        "agreement inside L1": _by_seat(c.pick(c.inside), _agreement),
        "confusions": _by_seat(c.pick(c.inside), _confusions),
        "reservation": _by_seat(c, _reservation),
        "first difference of a day": _by_seat(_first_of_days(c.pick(c.inside)), _confusions),
    }


def _by_seat(c: Compared, figure: Any) -> Figures:
    found: Figures = {"all": figure(c)} if len(c) else {}
    for side, side_name in enumerate(SIDES):
        for place, place_name in enumerate(PLACES):
            here = (c.seller == side) & (c.place == place)
            if here.any():
                found[f"{side_name}, {place_name}"] = figure(c.pick(here))
    return found


def _outside(c: Compared) -> Figures:
    """Acceptances and offers of the expert that L1 forbids or L3 cannot name, and which rule they break."""
    found: Figures = {}
    for name, op in (("accepts", ACCEPT), ("offers", REJECT)):
        l1_rules = c.l1_rules[c.op == op]
        found[name] = {"n": len(l1_rules)}
        if len(l1_rules):
            found[name]["outside"] = float((l1_rules != REPRESENTABLE).mean())
            found[name] |= {reason: float((l1_rules & bit == 0).mean()) for reason, bit in _REASONS.items()}
    return found


def _agreement(c: Compared) -> Figures:
    """Shares of equal answers; of day, quantity, price and all three where both make an offer."""
    both = c.pick((c.op == REJECT) & (c.wish_op == REJECT))
    equal = both.offer == both.wish
    found: Figures = {"n": len(c), "answer": float((c.op == c.wish_op).mean()), "both offer": len(both)}
    if len(both):
        found |= {name: float(equal[:, i].mean()) for i, name in ((1, "day"), (0, "quantity"), (2, "price"))}
        found["offer"] = float(equal.all(axis=1).mean())
        found["more pieces"] = float((both.wish[:, 0] - both.offer[:, 0]).mean())
    return found


def _confusions(c: Compared) -> Figures:
    """How often the wish differs in each way, most frequent first, as shares of the decisions."""
    count = np.bincount(kinds(c.op, c.offer, c.wish_op, c.wish), minlength=len(KINDS))
    order = np.argsort(-count, kind="stable")
    return {"n": len(c)} | {KINDS[i]: float(count[i] / len(c)) for i in order if count[i]}


def _reservation(c: Compared) -> Figures:
    """What the reservation makes of the wishes, and what that does to the agreement with the expert."""
    wished = c.pick(c.wish_op != END)
    if not len(wished):
        return {"n": 0}
    kind = kinds(wished.wish_op, wished.wish, wished.answer_op, wished.answer)
    count = np.bincount(kind, minlength=len(KINDS))
    before = kinds(wished.op, wished.offer, wished.wish_op, wished.wish) == SAME
    after = kinds(wished.op, wished.offer, wished.answer_op, wished.answer) == SAME
    found: Figures = {"n": len(wished), "changed": float((kind != SAME).mean())}
    found |= {"as the expert, before": float(before.mean()), "after": float(after.mean())}
    return found | {KINDS[i]: float(count[i] / len(wished)) for i in np.argsort(-count) if count[i] and i != SAME}


def _first_of_days(c: Compared) -> Compared:
    """The decisions at which the wish differs first on each day of a log: those of the first call that has one."""
    differ = c.pick(kinds(c.op, c.offer, c.wish_op, c.wish) != SAME)
    if not len(differ):
        return differ
    days, row = np.unique(np.stack([differ.log, differ.day], axis=-1), axis=0, return_inverse=True)
    first = np.full(len(days), np.iinfo(np.int64).max)
    np.minimum.at(first, row.ravel(), differ.call)
    return differ.pick(differ.call == first[row.ravel()])


def tables(found: Figures) -> list[str]:
    """The figures as lines of text: a table each, a row for each seat."""
    lines = [f"{found['decisions']['n']:,} decisions in {found['decisions']['logs']} logs"]
    for kind in ("accepts", "offers"):
        rows = {seat: group[kind] for seat, group in found["outside L1"].items()}
        lines += _table(f"The expert's {kind} outside L1, and the rule broken", rows)
    lines += _table("Inside L1: share of wishes equal to the expert's", found["agreement inside L1"])
    lines += _listed("Inside L1: expert → clone, most frequent first", found["confusions"])
    lines += _listed("The first difference of a day", found["first difference of a day"])
    lines += _listed("Wishes that the reservation changes: wish → answer", found["reservation"])
    return lines


def _shown(value: float | int) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _table(title: str, rows: Figures) -> list[str]:
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    width = [max(8, len(name) + 2) for name in names]
    head = f"{'':14}" + "".join(f"{name:>{w}}" for name, w in zip(names, width, strict=True))
    lines = ["", title, head]
    for seat, row in rows.items():
        cells = (f"{_shown(row[name]) if name in row else '':>{w}}" for name, w in zip(names, width, strict=True))
        lines.append(f"{seat:14}" + "".join(cells))
    return lines


def _listed(title: str, rows: Figures, most: int = 8) -> list[str]:
    lines = ["", title]
    for seat, row in rows.items():
        shown = [f"{name} {_shown(value)}" for name, value in list(row.items())[: most + 1]]
        lines.append(f"{seat:14}" + "   ".join(shown))
    return lines
