"""What a UAV sees beside the list view of the specification: a map, or an outlook. Neither adds facts.

The list view names 50 users in an arbitrary order; a small network would have to learn the same thing for every place
in the list. The map tells how many users and how many other UAVs there are around the UAV, place by place: the same
facts, slightly blurred, in the UAV's own frame. It is a function of the list view.

The outlook tells how the team's coverage and quality would change if the UAV stood elsewhere. Around each UAV lie rings
of spots, the nearer the denser. For each spot: what the reward's terms of coverage and quality would be with this UAV
there, at its height, and all others where they are, less what they are now. Then the best spot, a later gain being
worth less: the way there, and what it is worth. It is a function of the list view and of the radio model, without the
shadowing of links. Quality is that of all users who could be served, capacity or not.
"""

from __future__ import annotations

import numpy as np

from echelon.envs.uav import radio
from echelon.envs.uav.config import MAP_CELLS, MAP_SIDE, SPOT_DIRECTIONS, SPOT_RINGS, UAVConfig
from echelon.envs.vector import Array, Bool, Float32

PIECE = 2  # worlds at a time: the arrays of spots stay in the processor's cache
GAIN_SHOWN = 0.05  # of the reward; shown as .5 + tanh(1) / 2
PATIENCE = np.float32(0.97)  # what is left of a gain for each step that it is away
RADII = np.repeat(np.array(SPOT_RINGS), SPOT_DIRECTIONS)  # of the spots, without staying

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


def _offsets() -> Float32:
    """(1 + rings · directions, 2) in sides of the area: staying, then ring by ring, every other ring turned by half."""
    turn = np.arange(SPOT_DIRECTIONS) + 0.5 * (np.arange(len(SPOT_RINGS)) % 2)[:, None]
    angle = 2.0 * np.pi / SPOT_DIRECTIONS * turn  # (rings, directions)
    ring = np.array(SPOT_RINGS)[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=2)
    return np.concatenate([np.zeros((1, 2)), ring.reshape(-1, 2)]).astype(np.float32)


OFFSETS = _offsets()


def outlook(
    config: UAVConfig, position: Array, users: Array, near_user: Bool | None = None, near_uav: Bool | None = None
) -> Float32:
    """(W, n, OUTLOOK) in [0, 1], .5 for no gain and no way to go; only what is `near` counts where that is given."""
    worlds, n = position.shape[:2]
    people, uavs = near_user, ~np.eye(n, dtype=np.bool_) & (True if near_uav is None else near_uav)
    if people is None:
        people = np.ones((worlds, n, users.shape[1]), dtype=np.bool_)
    uavs = np.broadcast_to(uavs, (worlds, n, n))
    pieces = [slice(at, at + PIECE) for at in range(0, worlds, PIECE)]
    value = np.concatenate([_value(config, position[at], users[at], people[at], uavs[at]) for at in pieces])
    gain = value[:, :, 1:] - value[:, :, :1]  # (W, n, spots)
    stride = config.max_speed * config.dt / config.area
    soon = gain * PATIENCE ** (RADII / stride).astype(np.float32)
    best, most = soon.argmax(axis=2), soon.max(axis=2, keepdims=True)
    way = np.where(most > 0.0, np.clip(OFFSETS[1:][best] / np.float32(stride), -1.0, 1.0), 0.0)
    shown: Float32 = np.concatenate([np.tanh(gain / GAIN_SHOWN), way, np.tanh(most / GAIN_SHOWN)], axis=2)
    return (0.5 + 0.5 * shown).astype(np.float32)


def _value(c: UAVConfig, position: Array, users: Array, near_user: Bool, near_uav: Bool) -> Float32:
    """The reward's terms of coverage and quality with each UAV at each of its spots, (W, n, spots + 1).

    What `UAVEnv` measures once a step is measured here for every spot, with what does not depend on it worked out
    before; a test holds the two together.
    """
    power = _power(c, position, users)  # (W, n, spots, m)
    least, noise = np.float32(radio.from_db(c.min_sinr)), np.float32(radio.from_db(c.noise))
    others = np.where(near_uav[..., None], power[:, None, :, 0], np.float32(0.0))  # (W, n, n, m)
    loudest = others.max(axis=2)  # (W, n, m)
    rest = others.sum(axis=2) - loudest + noise
    # A user is this UAV's, or its loudest other's: whose signal is stronger, and loud enough beside all the rest.
    floor, ceiling = np.maximum(least * (rest + loudest), loudest), np.minimum(loudest / least - rest, loudest)
    mine = (power >= floor[:, :, None]).astype(np.float32)
    theirs = (power <= ceiling[:, :, None]).astype(np.float32)
    counts = near_user.astype(np.float32)[..., None]  # (W, n, m, 1)
    whose = (others.argmax(axis=2)[..., None] == np.arange(position.shape[1])) * counts  # (W, n, m, n)
    load = np.concatenate([mine @ counts, theirs @ whose], axis=3)  # (W, n, spots, 1 + n)
    covered = np.minimum(load, np.float32(c.capacity)).sum(axis=3) / np.float32(users.shape[1])
    # Signal over noise and the rest, in units of the least that serves; the two that matter, in place.
    other = loudest[:, :, None] / least / (power + rest[:, :, None])
    own = np.multiply(power, 1.0 / (least * (rest + loudest))[:, :, None], out=power)
    above = np.maximum(own, other, out=own)
    top = np.float32(radio.from_db(radio.QUALITY_SPAN))
    np.log(np.clip(above, np.float32(1.0), top, out=above), out=above)
    quality = (above @ counts)[..., 0] / np.log(top) / np.maximum(load.sum(axis=3), np.float32(1.0))
    return np.asarray(np.float32(c.coverage_weight) * covered + np.float32(c.quality_weight) * quality)


def _power(c: UAVConfig, position: Array, users: Array) -> Float32:
    """Received power in mW at every user of each UAV at each of its spots, without shadowing."""
    worlds, n = position.shape[:2]
    height = position[:, :, 2].astype(np.float32)[:, :, None]  # (W, n, 1)
    spots = np.clip(position[:, :, None, :2].astype(np.float32) + OFFSETS * np.float32(c.area), 0.0, c.area)
    people = users.astype(np.float32)
    # |spot - user|² + height² in one product: (-2x, -2y, x² + y² + height², 1) by (u, v, 1, u² + v²).
    left = np.ones((*spots.shape[:3], 4), dtype=np.float32)
    left[..., :2], left[..., 2] = -2.0 * spots, (spots**2).sum(axis=3) + height**2
    right = np.ones((worlds, users.shape[1], 4), dtype=np.float32)
    right[..., :2], right[..., 3] = people, (people**2).sum(axis=2)
    distance_sq = left.reshape(worlds, -1, 4) @ right.swapaxes(1, 2)
    distance_sq = distance_sq.reshape(worlds, n, len(OFFSETS), -1)
    np.maximum(distance_sq, (height**2)[..., None], out=distance_sq)  # rounding must not bring a user nearer than that
    if c.channel != "3gpp-36777":
        return radio.log_distance_power(c.uav_power, c.channel, distance_sq)
    none = np.zeros(1)
    return radio.power_3gpp(c.uav_power, distance_sq, height[..., None], none, none)
