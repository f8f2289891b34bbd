"""Radio of the UAV scenarios as pure array functions: path loss, SINR, association, routes.

Axes: W worlds, n UAVs, m users. Powers are linear (mW) inside; dB only where a formula asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from echelon.envs.uav.config import Channel
from echelon.runtime.arrays import Array, Bools, Floats, Ints

FREQUENCY_GHZ = 2.4
QUALITY_SPAN = 30.0  # dB above the minimum at which quality is 1
REFERENCE_RATE = 199.3  # Mbit/s of 20 MHz at 30 dB, the unit of the throughput reward
# Path loss a + b·log10(d): d in metres (the usual formulae of the last two have d in km).
LOG_DISTANCE: dict[str, tuple[float, float]] = {
    "free_space": (40.05, 20.0),
    "urban": (128.1 - 3 * 37.6, 37.6),
    "suburban": (120.0 - 3 * 35.0, 35.0),
}


@dataclass(frozen=True)
class Network:
    """The radio network of W worlds at one moment; of one world without the first axis."""

    server: Ints  # (W, m): each user's UAV, −1 for none
    quality: Floats  # (W,)
    throughput: Floats  # (W, n): Mbit/s each UAV delivers
    load: Ints  # (W, n): users of each UAV
    role: Ints  # (W, n)
    hops: Ints  # (W, n): 0 for no route
    next_hop: Ints  # (W, n): −1 for a ground station or no route
    ground_link: Bools  # (W, n, G)


def from_db(x: float) -> float:
    return float(10.0 ** (x / 10.0))


def line_of_sight(elevation: Floats) -> Floats:
    """p = 1 / (1 + 5·exp(−0.6(θ − 5))), θ in degrees."""
    return np.asarray(1.0 / (1.0 + 5.0 * np.exp(-0.6 * (elevation - 5.0))))


def path_loss_3gpp(distance: Floats, elevation: Floats, shadow_los: Floats, shadow_nlos: Floats) -> Floats:
    """p·PL_LoS + (1 − p)·PL_NLoS in dB; the shadows are standard normal, scaled here to 4 and 8 dB."""
    log_d, log_f = np.log10(distance), 20.0 * np.log10(FREQUENCY_GHZ)
    los = 28.0 + 22.0 * log_d + log_f + 4.0 * shadow_los
    nlos = 22.7 + 41.0 * log_d + log_f + 8.0 * shadow_nlos
    p = line_of_sight(elevation)
    return np.asarray(p * los + (1.0 - p) * nlos)


def power_3gpp(power_dbm: float, distance_sq: Array, height: Array, shadow_los: Array, shadow_nlos: Array) -> Array:
    """Received power in mW under `path_loss_3gpp`, from a UAV at this height and distance."""
    distance = np.sqrt(distance_sq)
    elevation = np.degrees(np.arcsin(height / distance))
    return np.asarray(10.0 ** ((power_dbm - path_loss_3gpp(distance, elevation, shadow_los, shadow_nlos)) / 10.0))


def log_distance_power(power_dbm: float, channel: Channel, distance_sq: Array) -> Array:
    """Received power in mW under a + b·log10(d): 10^((P − a)/10) · (d²)^(−b/20), which needs no logarithm."""
    a, b = LOG_DISTANCE[channel]
    gain = from_db(power_dbm - a)
    return np.asarray(gain / distance_sq if b == 20.0 else gain * distance_sq ** (-b / 20.0))


def sinr(power: Floats, noise: float) -> Floats:
    """Power of each UAV over noise plus the power of all the others, linear."""
    total = power.sum(axis=1, keepdims=True) + noise  # (W, 1, m)
    return np.asarray(power / (total - power))  # (W, n, m)


@dataclass(frozen=True)
class Association:
    """Who serves whom."""

    server: Ints  # (W, m): the user's UAV, −1 for none
    sinr: Floats  # (W, m): linear, at its UAV; meaningless where it has none

    @property
    def served(self) -> Bools:
        return np.asarray(self.server >= 0)


def associate(power: Floats, noise: float, min_sinr: float, capacity: int) -> Association:
    """Greedy by descending SINR ≥ `min_sinr` (linear): one UAV per user, at most `capacity` users per UAV."""
    if min_sinr >= 1.0:
        return associate_strongest(power, noise, min_sinr, capacity)
    return associate_greedy(sinr(power, noise), min_sinr, capacity)


def associate_strongest(power: Floats, noise: float, min_sinr: float, capacity: int) -> Association:
    """The greedy rule at 0 dB and above, where a user's strongest UAV alone can be louder than all the rest together.

    So a user's only choice is its strongest UAV, and a UAV's first `capacity` users by SINR are those the greedy takes.
    """
    worlds, uavs, _ = power.shape
    strongest = power.max(axis=1)  # (W, m)
    ratio = strongest / (power.sum(axis=1) + noise - strongest)
    server = np.where(ratio >= min_sinr, power.argmax(axis=1), -1)  # (W, m)
    # UAV-major keys of all worlds in one flat count; index 0 of each world holds the unserved.
    keys = (np.arange(worlds) * (uavs + 1) + 1)[:, None] + server  # (W, m)
    load = np.bincount(keys.ravel(), minlength=worlds * (uavs + 1)).reshape(worlds, uavs + 1)[:, 1:]
    crowded = np.flatnonzero((load > capacity).any(axis=1))
    if crowded.size:
        server[crowded] = _within_capacity(server[crowded], ratio[crowded], uavs, capacity)
    return Association(server, ratio)


def _within_capacity(server: Ints, ratio: Floats, uavs: int, capacity: int) -> Ints:
    """Leave each UAV its `capacity` best users (the lower index first among equals)."""
    order = np.argsort(-ratio, axis=1, kind="stable")  # (W, m)
    by_rank = np.take_along_axis(server, order, axis=1)
    mine = by_rank[:, None, :] == np.arange(uavs)[:, None]  # (W, n, m)
    too_late = (mine & (mine.cumsum(axis=2, dtype=np.int16) > capacity)).any(axis=1)  # (W, m)
    kept = np.empty_like(server)
    np.put_along_axis(kept, order, np.where(too_late, -1, by_rank), axis=1)
    return kept


def associate_greedy(ratio: Floats, min_sinr: float, capacity: int) -> Association:
    """The general rule: all pairs by descending SINR; a loop over ranks, each step for all worlds at once."""
    worlds, uavs, users = ratio.shape
    flat = ratio.reshape(worlds, -1)  # (W, n*m)
    order = np.argsort(-flat, axis=1, kind="stable")
    longest = int((flat >= min_sinr).sum(axis=1).max())
    rows = np.arange(worlds)
    server = np.full((worlds, users), -1, dtype=np.int64)
    best = np.zeros((worlds, users))
    room = np.full((worlds, uavs), capacity)
    for rank in range(longest):
        pair = order[:, rank]
        value = flat[rows, pair]
        uav, user = np.divmod(pair, users)
        take = (value >= min_sinr) & (server[rows, user] < 0) & (room[rows, uav] > 0)
        hit = rows[take]
        server[hit, user[take]] = uav[take]
        best[hit, user[take]] = value[take]
        room[hit, uav[take]] -= 1
    return Association(server, best)


@dataclass(frozen=True)
class Routes:
    """The shortest route of each UAV to a ground station; among equally short ones, that with the widest bottleneck."""

    hops: Ints  # (W, n): links on the route, 0 for none
    rate: Floats  # (W, n): Mbit/s of its slowest link, 0 for none
    next_hop: Ints  # (W, n): the UAV it goes over first, −1 for a ground station or none


def find_routes(ground_rate: Floats, uav_rate: Floats, max_hops: int) -> Routes:
    """Routes of at most `max_hops` links; a rate of 0 means that there is no such link."""
    rate = ground_rate.max(axis=2)  # (W, n, G) -> (W, n)
    hops = (rate > 0).astype(np.int64)
    next_hop = np.full(hops.shape, -1, dtype=np.int64)
    for length in range(2, max_hops + 1):
        if hops.all():
            break
        # Who has no route yet has no neighbour with one of fewer than length − 1 links, or it had found that before.
        via = np.minimum(uav_rate, rate[:, None, :])  # (W, n, n): from i over j
        widest = via.max(axis=2)
        new = (hops == 0) & (widest > 0)
        hops = np.where(new, length, hops)
        rate = np.where(new, widest, rate)
        next_hop = np.where(new, via.argmax(axis=2), next_hop)
    return Routes(hops, rate, next_hop)


def forwarders(routes: Routes, sends: Bools, max_hops: int) -> Bools:
    """Which UAVs carry the traffic of another one that `sends` and has a route."""
    uavs = np.arange(sends.shape[1])
    carries = np.zeros_like(sends)
    active = sends & (routes.hops > 0)
    at = routes.next_hop  # (W, n): where each UAV's traffic is after one link
    for _ in range(max_hops - 1):
        here = active & (at >= 0)
        if not here.any():
            break
        carries |= ((at[:, :, None] == uavs) & here[:, :, None]).any(axis=1)
        at = np.where(at >= 0, np.take_along_axis(routes.next_hop, np.maximum(at, 0), axis=1), -1)
    return carries


def link_rate(distance_sq: Floats, power_dbm: float, noise_dbm: float, min_snr: float, bandwidth: float) -> Floats:
    """Mbit/s of a free-space link, W·log2(1 + SNR); 0 where its SNR is below `min_snr` dB."""
    snr = log_distance_power(power_dbm, "free_space", distance_sq) / from_db(noise_dbm)
    return np.asarray(np.where(snr >= from_db(min_snr), bandwidth / 1e6 * np.log2(1.0 + snr), 0.0))


def ground_stations(count: int, area: float, height: float) -> Floats:
    """One at the centre; two to four at corners (opposite ones first); more on the smallest square grid."""
    if count == 1:
        places: Array = np.array([[0.5, 0.5]])
    elif count <= 4:
        places = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])[:count]
    else:
        side = int(np.ceil(np.sqrt(count)))
        middle = (np.arange(side) + 0.5) / side
        places = np.stack(np.meshgrid(middle, middle), axis=2).reshape(-1, 2)[:count]
    return np.concatenate([places * area, np.full((count, 1), height)], axis=1)  # (G, 3)
