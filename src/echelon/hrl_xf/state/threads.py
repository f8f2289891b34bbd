"""What a layer sees of a thread: its offers as tokens, the other threads, and how far an offer may differ from L1's."""

from __future__ import annotations

import numpy as np

from echelon.runtime.arrays import Bools, Float32, Ints

DELTA_Q = 30
DELTA_P = 20
"""Residuals beyond ± these are outside the range of L3's heads."""


def tokens_of(offers: Ints, mine: Bools, low: Ints, high: Ints) -> Float32:
    """Offers (quantity, days ahead, unit price) as L3 hears them: quantity, price as a ratio of the issue's range, days
    ahead, 1 if mine.  # (M, 4)"""
    quantity, ahead, price = offers.T
    ratio = np.divide(price - low, high - low, out=np.zeros(len(offers)), where=high > low)
    return np.stack([quantity, ratio, ahead, mine], axis=-1).astype(np.float32)


def others_in_sight(group: Ints, seller: Bools, on_table: Bools, quantity: Ints, price: Ints) -> Ints:
    """The other threads of a group (a call and side): how many have an offer, their quantity, rank.  # (N, 3)

    The rank of this thread's offer is how many of them have a strictly better price; 0 without an offer.
    """
    sizes = np.bincount(group, on_table).astype(np.int64)
    pieces = np.bincount(group, quantity * on_table).astype(np.int64)
    rank = np.zeros(len(group), np.int64)
    rows = np.flatnonzero(on_table)
    badness = np.where(seller[rows], -price[rows], price[rows])
    order = np.lexsort((badness, group[rows]))
    g, b = group[rows][order], badness[order]
    place = np.arange(len(order))
    new_group = np.append(True, g[1:] != g[:-1])[: len(g)]
    new_price = new_group | np.append(True, b[1:] != b[:-1])[: len(g)]
    start = np.maximum.accumulate(np.where(new_group, place, 0)) if len(g) else place
    first_equal = np.maximum.accumulate(np.where(new_price, place, 0)) if len(g) else place
    rank[rows[order]] = first_equal - start
    others = sizes[group] - on_table
    return np.stack([others, pieces[group] - quantity * on_table, rank], axis=-1)
