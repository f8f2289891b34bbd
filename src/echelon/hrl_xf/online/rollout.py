"""A round as one `RolloutBatch` of each level.

Every decision is a column of one slot that ends at once and earns its advantage: the chain of moments has already
been discounted and compared (`returns`), and the critic is not the learner's. L3's wishes of one call share the call's
advantage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.hrl_xf.layers.l3_habits import kinds_of
from echelon.hrl_xf.layers.l3_situation import (
    P_SIZE,
    Q_SIZE,
    Mode,
    better_offers,
    context_of,
    legal_arrays,
    needed,
    share_of,
)
from echelon.hrl_xf.online.policies import LEGAL
from echelon.hrl_xf.online.returns import Moments, normalised
from echelon.hrl_xf.online.wishes import SeatWishes, Table, situation_of
from echelon.onpolicy.batch import Rollout, RolloutBatch
from echelon.runtime.arrays import Floats

Array = NDArray[Any]


def rollout_of(seats: Sequence[SeatWishes], moments: Moments, version: int, horizon: int, mode: Mode) -> Rollout:
    """The three levels of a round."""
    first = moments.first()[:-1]
    place = np.array([seat.place for seat in seats])
    wishes = _joined([seat.wishes for seat in seats])
    of_wish = _at(first, [seat.wishes["moment"] for seat in seats])
    calls = _joined([_widened(seat.calls, seats) for seat in seats])
    of_call = _at(first, [seat.calls["moment"] for seat in seats])
    days = _joined([seat.days for seat in seats])
    dawn = np.concatenate([np.searchsorted(seat.moments["day"], np.arange(len(seat.days["z"]))) for seat in seats])
    of_day = dawn + np.repeat(first, [len(seat.days["z"]) for seat in seats])

    def advantage(at: Array) -> Floats:
        return normalised(moments.advantage[at], place[moments.seat[at]])

    return {
        "l2": _batch(
            version,
            {name: days[name] for name in ("x_static", "X_temporal", "x_role")},
            {"z": days["z"]},
            {"goal": days["mask"]},
            days["log_prob"],
            advantage(of_day),
        ),
        "l3": _batch(
            version,
            _l3_inputs(wishes, seats, horizon, mode),
            {name: wishes[f"chosen_{name}"].astype(np.int64) for name in ("op", "day", "dq", "dp")},
            {},
            wishes["log_prob"],
            advantage(of_wish),
        ),
        "l4": _batch(
            version,
            {name: calls[name] for name in ("thread_feat", "global_feat", "days", "role")},
            {"z": calls["z"]},
            {"threads": calls["mask"]},
            calls["log_prob"],
            advantage(of_call),
        ),
    }


def _l3_inputs(wishes: Table, seats: Sequence[SeatWishes], horizon: int, mode: Mode) -> dict[str, Array]:
    """What L3 saw, as `L3Inputs` has it, and each wish's history, padded."""
    s = situation_of(wishes, horizon)
    seen: dict[str, Array] = {
        "context": context_of(s),
        "l1_op": s.l1_op,
        "base": s.legal_baseline,
        "seen": s.seen,
        "own": s.own,
        "need": needed(s),
        "share": share_of(s),
        "price_range": np.ascontiguousarray(s.issues[:, 4:]),
        "alpha": s.alpha,
        "kind": kinds_of(s),
        "time": s.relative_time,
        "asked": s.asked,
        "better": better_offers(s),
    }
    legal: tuple[Array, ...] = legal_arrays(s, mode, Q_SIZE, P_SIZE)
    for name, column in zip(LEGAL, legal, strict=True):
        seen[f"legal_{name}"] = column
    return seen | {"tokens": _histories(seats), "heard": wishes["heard"]}


def _histories(seats: Sequence[SeatWishes]) -> Array:
    """The offers before each wish, behind them zeros.  # (N, longest, 4)"""
    heard = np.concatenate([seat.wishes["heard"] for seat in seats])
    longest = max(int(heard.max(initial=0)), 1)
    found = np.zeros((len(heard), longest, 4), np.float32)
    row = 0
    for seat in seats:
        start, length = seat.wishes["start"], seat.wishes["heard"]
        at = start[:, None] + np.arange(longest)
        inside = np.arange(longest) < length[:, None]
        if len(seat.tokens):
            some = seat.tokens[np.minimum(at, len(seat.tokens) - 1)]
            found[row : row + len(start)] = np.where(inside[:, :, None], some, 0.0)
        row += len(start)
    return found


def _batch(
    version: int, observation: Table, action: Table, mask: Table, log_prob: Array, advantage: Floats
) -> RolloutBatch:
    n = len(log_prob)
    ones, zeros = np.ones((1, n, 1), np.bool_), np.zeros((1, n, 1), np.float32)
    return RolloutBatch(
        version=version,
        observation=_lead(observation),
        action=_lead(action),
        mask=_lead(mask),
        log_prob=log_prob.reshape(1, n, 1).astype(np.float32),
        value=zeros,
        next_value=zeros,
        reward=advantage.reshape(1, n, 1).astype(np.float32),
        terminated=ones,
        done=ones,
        alive=ones,
        span=np.ones((1, n), np.int64),
        valid=ones[:, :, 0],
        reset=np.zeros((1, n), np.bool_),
    )


def _lead(tree: Mapping[str, Array]) -> dict[str, Array]:
    return {name: array[None] for name, array in tree.items()}


def _joined(tables: Sequence[Table]) -> Table:
    """Tables of the same columns below each other."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _widened(calls: Table, seats: Sequence[SeatWishes]) -> Table:
    """The calls of a seat with room for the largest set of the round."""
    widest = max(seat.calls["mask"].shape[1] for seat in seats)
    found = {}
    for name, array in calls.items():
        if name in ("thread_feat", "days", "role", "mask", "z") and array.shape[1] < widest:
            room = [(0, 0), (0, widest - array.shape[1]), *[(0, 0)] * (array.ndim - 2)]
            array = np.pad(array, room)
        found[name] = array
    return found


def _at(first: Array, moments: Sequence[Array]) -> Array:
    """Moments of seats as rows among all moments."""
    return np.concatenate([start + m for start, m in zip(first, moments, strict=True)])
