"""Advantages of all moments of a round: one chain for each seat, from the first dawn to the last call.

    reward     the day's profit / initial balance, at its last moment; 0 at the others; γ = 1
    A          semi-Markov GAE over the chain (`onpolicy.advantage`); a moment's span is 0 but for the day's last
    A          less the mean that the *other* plays of the same configuration had in that seat on that day

The group's mean removes what the configuration does to everybody. It is of other plays, so it does not depend on the
seat's own choices and no direction is favoured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelon.hrl_xf.online.wishes import SeatWishes, profits_of_days
from echelon.onpolicy.advantage import batch_gae
from echelon.onpolicy.batch import RolloutBatch
from echelon.runtime.arrays import Floats, Ints


@dataclass(frozen=True)
class Seat:
    """A seat of a round, and which other plays it is compared with."""

    group: str
    """equal for the plays of one configuration"""
    number: int
    """which of the configuration's seats"""
    wishes: SeatWishes


@dataclass(frozen=True)
class Moments:
    """Moments of all seats, one seat after the other."""

    seat: Ints  # (N,)
    day: Ints  # (N,) number of the seat's day
    value: Floats  # (N,)
    advantage: Floats  # (N,)
    target: Floats  # (N,)

    def first(self) -> Ints:
        """Where each seat begins, and where the last ends.  # (seats + 1,)"""
        return np.searchsorted(self.seat, np.arange(int(self.seat[-1]) + 2))


def chain_of(seats: Sequence[SeatWishes], values: Sequence[Floats], rewards: Sequence[Floats]) -> RolloutBatch:
    """Moments of seats as columns; `rewards` are by day."""
    T, B = max(len(value) for value in values), len(seats)
    value, next_value, reward = np.zeros((3, T, B, 1), np.float32)
    valid, last = np.zeros((2, T, B), np.bool_)
    span = np.zeros((T, B), np.int64)
    for b, (seat, v, r) in enumerate(zip(seats, values, rewards, strict=True)):
        day, n = seat.moments["day"], len(v)
        ends = np.append(np.flatnonzero(np.diff(day)), n - 1)  # the last moment of each day
        value[:n, b, 0], next_value[: n - 1, b, 0] = v, v[1:]
        reward[ends, b, 0], span[ends, b] = r, 1
        valid[:n, b], last[n - 1, b] = True, True
    alive, zeros = valid[:, :, None], np.zeros((T, B, 1), np.float32)
    ends_here = last[:, :, None]
    return RolloutBatch(
        version=0, observation={}, action={}, log_prob=zeros, value=value, next_value=next_value, reward=reward,
        terminated=ends_here, done=ends_here, alive=alive, span=span, valid=valid, reset=np.zeros((T, B), np.bool_),
    )  # fmt: skip


def moments_of(
    seats: Sequence[Seat],
    values: Sequence[Floats],
    lam: float,
    grouped: bool = True,
    rewards: Sequence[Floats] | None = None,
) -> Moments:
    """Values, advantages and value targets of all moments; `rewards` of days stand in for what was earned."""
    wishes = [seat.wishes for seat in seats]
    rewards = [profits_of_days(w) for w in wishes] if rewards is None else rewards
    advantage, target = batch_gae(chain_of(wishes, values, rewards), 1.0, lam)
    sizes = [len(v) for v in values]
    flat = np.concatenate([advantage[:n, b, 0] for b, n in enumerate(sizes)])
    moments = Moments(
        seat=np.repeat(np.arange(len(seats)), sizes),
        day=np.concatenate([w.moments["day"] for w in wishes]),
        value=np.concatenate(list(values)),
        advantage=flat,
        target=np.concatenate([target[:n, b, 0] for b, n in enumerate(sizes)]),
    )
    if not grouped:
        return moments
    less = group_baseline(seats, moments)
    return Moments(moments.seat, moments.day, moments.value, moments.advantage - less, moments.target)


def group_baseline(seats: Sequence[Seat], moments: Moments) -> Floats:
    """For each moment: the mean over the other plays of its configuration of that seat's mean advantage on that day.

    0 where there is no other play, or none that reached the day.  # (N,)
    """
    days = int(moments.day.max()) + 1
    cell = moments.seat * days + moments.day
    size = len(seats) * days
    count = np.bincount(cell, minlength=size)
    mean = np.bincount(cell, moments.advantage, size) / np.maximum(count, 1)
    mean, there = mean.reshape(-1, days), (count > 0).reshape(-1, days)
    less = np.zeros((len(seats), days))
    members: dict[tuple[str, int], list[int]] = defaultdict(list)
    for i, seat in enumerate(seats):
        members[seat.group, seat.number].append(i)
    for rows in members.values():
        total, plays = np.where(there[rows], mean[rows], 0.0).sum(0), there[rows].sum(0)
        for i in rows:
            others = plays - there[i]
            less[i] = np.where(others > 0, (total - np.where(there[i], mean[i], 0.0)) / np.maximum(others, 1), 0.0)
    found: Floats = less.ravel()[cell]
    return found


def normalised(advantage: Floats, kind: Ints, floor: float = 1e-4) -> Floats:
    """Mean 0 and deviation 1 within each kind (place in the chain): first levels earn and lose on another scale."""
    found = np.zeros(len(advantage))
    for k in np.unique(kind):
        at = kind == k
        found[at] = (advantage[at] - advantage[at].mean()) / max(float(advantage[at].std()), floor)
    return found
