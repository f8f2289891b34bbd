"""What a UAV sees as a map: how many users and how many other UAVs there are around it, place by place.

The list view of the specification names 50 users in an arbitrary order; a small network would have to learn the same
thing for every place in the list. The map view tells the same facts, slightly blurred, in the UAV's own frame. It adds
none: everything here is a function of the list view.
"""

from __future__ import annotations

import numpy as np

from echelon.envs.uav_config import MAP_CELLS, MAP_SIDE
from echelon.envs.vector import Bool, Float32

MIDDLES = np.linspace(-0.45, 0.45, MAP_SIDE, dtype=np.float32)  # offsets of the cells, in sides of the area
BLUR = 0.1
USERS_HALF, UAVS_HALF = 5.0, 1.0  # counts that are shown as one half


def around(place: Float32, others: Float32, half: float, counts: Bool | None = None) -> Float32:
    """Soft counts c / (c + half) in [0, 1) of `others` (W, m, 2) around each `place` (W, n, 2), as (W, n, 49).

    c of a cell is the sum over the others of exp(-d² / 2 BLUR²), d their distance to the cell's middle; `counts`
    (W, n, m) says who counts for whom, everybody if not given.
    """
    offset = others[:, None] - place[:, :, None]  # (W, n, m, 2)
    kernel = np.exp(((offset[..., None] - MIDDLES) / BLUR) ** 2 * np.float32(-0.5))  # (W, n, m, 2, 7)
    along_x, along_y = kernel[..., 0, :], kernel[..., 1, :]  # a Gaussian of two dimensions is a product of two
    if counts is not None:
        along_x = along_x * counts[..., None]
    total = along_x.swapaxes(2, 3) @ along_y  # (W, n, 7, 7)
    shown: Float32 = (total / (total + np.float32(half))).reshape(*place.shape[:2], MAP_CELLS)
    return shown


def maps(place: Float32, users: Float32, near_user: Bool | None = None, near_uav: Bool | None = None) -> Float32:
    """The map of users, then that of the other UAVs, (W, n, 98); only what is `near` where that is given."""
    uavs = place.shape[1]
    others = np.broadcast_to(~np.eye(uavs, dtype=np.bool_), (len(place), uavs, uavs))
    seen = others if near_uav is None else others & near_uav
    return np.concatenate([around(place, users, USERS_HALF, near_user), around(place, place, UAVS_HALF, seen)], axis=2)
