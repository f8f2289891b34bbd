"""L3's habits: a few terms that are added to its logits, with a weight for each kind of thread.

What a network has learnt answers a round. A habit is what lasts: how long to wait for a large deal, how much of what a
partner usually asks for to offer, how the price falls with time. Trying a habit out takes a whole world, and refusing
small offers in one round alone costs money, so habits are learnt by evolution (`evolve.evolution`), world by world.

With time τ in 0..1, r a price's place in the issue's range, `asked` the most pieces that the partner asked for at once
in the last days (`play.memory`), `room` the most of them that fit on one day, days later counting less:

    ACCEPT    1,  1 − τ,  how good the price is,  days ahead,  pieces,  ±1: whether the offer, with the better ones of
              other threads, is within what is still open of L2's goal
    END       1 where an offer could be made instead,  1 where nothing is open of the goal
    patience  of weight w: neither accepts nor ends where an offer can be made and less than w / 8 · (1 − τ) · room is
              on the table. A threshold, for half a patience costs money: who refuses must go on refusing
    day       part of `asked` that fits on it, days later counting less;  days ahead
    quantity  |ln(q / asked)| and ln(q / asked), or |ln(q / 5)| where nothing is known;  |ln(q / share)| for the share
              of the open goal that α gives the thread
    price     r,  r · (2τ − 1),  |r − (1 − τ / 0.9)|

Every formula is written once, for numpy in play and torch in training: `xp` is the one or the other, and arrays are
float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from echelon.hrl_xf.layers.l3_situation import LegalArrays, Situation, better_offers, needed, share_of
from echelon.hrl_xf.state.reservation import NEXT_DAY
from echelon.runtime.arrays import Float32, Ints

Array = Any
"""of numpy or torch, float32"""
LARGE = 5
"""A partner that asks for this many pieces is a large one: the league's default agents ask for up to seven, champions
for one to four."""
KINDS = (
    "buyer, middle level, small partner", "buyer, middle level, large partner",
    "buyer, last level, small partner", "buyer, last level, large partner",
    "seller, first level, small partner", "seller, first level, large partner",
    "seller, middle level, small partner", "seller, middle level, large partner",
)  # fmt: skip
"""The kinds of threads that have habits of their own; a partner of whom nothing is known is a small one."""
BUYERS = 4
"""How many of them are of buyers; they come first."""
TERMS = (
    "patience", "accept", "accept_early", "accept_good_price", "accept_far", "accept_much", "end",
    "day_room", "day_far", "quantity_asked", "quantity_much", "quantity_unknown",
    "price_high", "price_late", "price_falling", "accept_in_goal", "end_without_goal", "quantity_share",
)  # fmt: skip
UNKNOWN = 5.0
"""Pieces that a partner is taken to want of whom nothing is known."""
PATIENCE = 0.125
"""What a patience of 1 waits for, as a part of the room."""
NEVER = 50.0
"""Nats below which an answer is not given."""
LOWEST_AT = 0.9
"""Time from which on a falling price is the lowest."""


def kinds_of(s: Situation) -> Ints:
    """Which of `KINDS` each thread is.  # (N,)"""
    role = np.where(s.seller, 2 + s.both_sides, 1 - s.both_sides)
    found: Ints = 2 * role + (s.asked >= LARGE)
    return found


class HabitInputs(NamedTuple):
    """What the terms look at, at N decisions."""

    weight: Array  # (N, TERMS)
    seller: Array  # (N,) 1 or 0
    time: Array  # (N,)
    asked: Array  # (N,)
    seen: Array  # (N, 3) the partner's offer
    low: Array  # (N, 1) prices of the issue
    high: Array  # (N, 1)
    most: Array  # (N, H+1) pieces that may be traded on each day, 0 where it is closed
    first_q: Array  # (N, 1)
    first_p: Array  # (N, 1)
    need: Array  # (N,) pieces of the goal still open
    share: Array  # (N,) what α gives the thread of them
    better: Array  # (N,) pieces that other threads offer at better prices, about

    def term(self, name: str) -> Array:
        """The weight of a term.  # (N, 1)"""
        at = TERMS.index(name)
        return self.weight[:, at : at + 1]

    def take(self, rows: Ints) -> HabitInputs:
        return HabitInputs(*(column[rows] for column in self))


def habit_inputs(habits: Float32, s: Situation, legal: LegalArrays) -> HabitInputs:
    """Decisions in play."""

    def f(x: Any) -> Float32:
        return np.asarray(x, np.float32)

    return HabitInputs(
        habits[kinds_of(s)], f(s.seller), f(s.relative_time), f(s.asked), f(s.seen), f(s.issues[:, 4:5]),
        f(s.issues[:, 5:6]), f(np.where(legal.day, legal.most, 0)), f(legal.first_q[:, None]),
        f(legal.first_p[:, None]), f(needed(s)), f(share_of(s)), f(better_offers(s)),
    )  # fmt: skip


def answer_terms(xp: Any, x: HabitInputs, days: Array) -> Array:
    """What is added to the logits of ACCEPT, REJECT, END.  # (H+1,) -> (N, 3)"""
    early, quantity, price = 1.0 - x.time[:, None], x.seen[:, :1], x.seen[:, 2:]
    wants = _wants(xp, x.asked)[:, None]
    room = xp.amax(xp.minimum(x.most, wants) * NEXT_DAY**days, 1)[:, None].clip(1.0, None)
    can_offer = xp.amax(x.most, 1)[:, None] > 0
    waits = can_offer & (quantity > 0) & (quantity < x.term("patience") * PATIENCE * early * room)
    place, zero = _place(price, x), 0.0 * early
    good = xp.where(x.seller[:, None] > 0, place, 1.0 - place)
    accept = (
        x.term("accept")
        + x.term("accept_early") * early
        + x.term("accept_good_price") * good
        - x.term("accept_far") * x.seen[:, 1:2] / 3.0
        + x.term("accept_much") * quantity / 10.0
        + x.term("accept_in_goal") * xp.where(x.better[:, None] + quantity <= x.need[:, None], 1.0 + zero, zero - 1.0)
        - NEVER * waits
    )
    end = x.term("end_without_goal") * (x.need[:, None] < 1) - x.term("end") * can_offer - NEVER * waits
    return xp.concatenate([accept, zero, end], 1)


def day_terms(xp: Any, x: HabitInputs, days: Array) -> Array:
    """What is added to the logits of days ahead.  # (H+1,) -> (N, H+1)"""
    wants = _wants(xp, x.asked)[:, None]
    fits = xp.minimum(x.most, wants) / wants * NEXT_DAY**days
    return x.term("day_room") * 3.0 * fits - x.term("day_far") * days / 5.0


def quantity_terms(xp: Any, x: HabitInputs, places: Array) -> Array:
    """What is added to the logits of quantities.  # (61,) -> (N, 61)"""
    known, pieces = x.asked[:, None] > 0, xp.log((x.first_q + places).clip(1.0, None))
    apart = pieces - xp.log(_wants(xp, x.asked))[:, None]
    known_terms = x.term("quantity_much") * apart - x.term("quantity_asked") * xp.abs(apart)
    of_partner = xp.where(known, known_terms, -x.term("quantity_unknown") * xp.abs(apart))
    return of_partner - x.term("quantity_share") * xp.abs(pieces - xp.log(x.share)[:, None])


def price_terms(xp: Any, x: HabitInputs, places: Array) -> Array:
    """What is added to the logits of prices.  # (41,) -> (N, 41)"""
    place, time = _place(x.first_p + places, x), x.time[:, None]
    falling = (1.0 - time / LOWEST_AT).clip(0.0, None)
    return (
        x.term("price_high") * 2.0 * place
        - x.term("price_late") * 2.0 * place * (2.0 * time - 1.0)
        - x.term("price_falling") * 2.0 * xp.abs(place - falling)
    )


def _wants(xp: Any, asked: Array) -> Array:
    return xp.where(asked > 0, asked, UNKNOWN + 0.0 * asked)


def _place(price: Array, x: HabitInputs) -> Array:
    """Where a price is in the issue's range."""
    return ((price - x.low) / (x.high - x.low).clip(1.0, None)).clip(0.0, 1.0)
