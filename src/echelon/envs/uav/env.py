"""UAV base stations over users on the ground: scenario 1 (`uav1`) and, with relays, scenario 2 (`uav2`, `uav2-relay`).

UAVs fly in a box and serve users by radio. Scenario 1 rewards coverage and signal quality and charges for altitude;
scenario 2 adds ground stations that the traffic must reach, directly or over other UAVs, and rewards connectivity and
throughput. All UAVs share the one reward. Observations and state are in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.envs.dense import ALL, DenseEnv, Outcome, Rows
from echelon.envs.parallel import SingleWorld
from echelon.envs.uav import radio
from echelon.envs.uav.config import UAVConfig, uav_config
from echelon.envs.uav.radio import Network
from echelon.envs.vector import BoxActions, EnvSpec, Position
from echelon.runtime.arrays import Array, Bools, Float32

IDLE, BASE_STATION, RELAY = 0, 1, 2


class UAVEnv(DenseEnv):
    """B skies at once."""

    def __init__(
        self,
        config: UAVConfig,
        num_envs: int,
        seed: int | Sequence[int] = 0,
        *,
        name: str = "uav",
        autoreset: bool = True,
    ) -> None:
        n, m, ground = config.num_uavs, config.num_users, config.num_ground
        agents = tuple(f"uav_{i}" for i in range(n))
        actions = BoxActions(((-1.0,) * 3,) * n, ((1.0,) * 3,) * n)
        spec = EnvSpec(
            name,
            agents,
            (config.obs_dim,) * n,
            config.state_dim,
            actions,
            config.max_steps,
            observation_sets=config.observation_sets,
            state_sets=config.state_sets,
            state_places=config.state_places,
            position=Position(0, 1, 0.0),
        )
        super().__init__(spec, num_envs, seed, autoreset=autoreset)
        self.config = config
        self._floor = np.array([0.0, 0.0, config.min_height])
        self._ceiling = np.array([config.area, config.area, config.max_height])
        self.ground = radio.ground_stations(ground, config.area, config.ground_height)  # (G, 3)
        self.position = np.zeros((num_envs, n, 3))
        self.users = np.zeros((num_envs, m, 2))
        self.network = Network(
            server=np.full((num_envs, m), -1, dtype=np.int64),
            quality=np.zeros(num_envs),
            throughput=np.zeros((num_envs, n)),
            load=np.zeros((num_envs, n), dtype=np.int64),
            role=np.zeros((num_envs, n), dtype=np.int64),
            hops=np.zeros((num_envs, n), dtype=np.int64),
            next_hop=np.full((num_envs, n), -1, dtype=np.int64),
            ground_link=np.zeros((num_envs, n, ground), dtype=np.bool_),
        )

    def _begin(self, rows: Rows) -> None:
        c = self.config
        draws = self.streams.uniform(rows, 3 * c.num_uavs).reshape(-1, c.num_uavs, 3)
        self.position[rows] = self._floor + draws * (self._ceiling - self._floor)
        self.users[rows] = self._draw_users(rows)
        fresh = self._measure(rows)
        for field in fields(Network):
            self.network.__dict__[field.name][rows] = fresh.__dict__[field.name]

    def _draw_users(self, rows: Rows) -> Array:
        """(W, m, 2) in metres."""
        c, m = self.config, self.config.num_users
        if c.user_distribution == "uniform":
            return self.streams.uniform(rows, 2 * m).reshape(-1, m, 2) * c.area
        if c.user_distribution == "cluster":
            groups = min(5, m // 10 + 1)
            centres = self.streams.uniform(rows, 2 * groups).reshape(-1, groups, 2) * c.area
            spread = self.streams.normal(rows, 2 * m).reshape(-1, m, 2) * (c.area / 10)
            return np.clip(centres[:, np.arange(m) % groups] + spread, 0.0, c.area)
        # The centre lies so that the whole hotspot is inside the area: clipping would put many users on its edge.
        radius = c.area / 3
        centre = radius + self.streams.uniform(rows, 2).reshape(-1, 1, 2) * radius  # (W, 1, 2)
        draws = self.streams.uniform(rows, 2 * m).reshape(-1, m, 2)
        r, phi = radius * np.sqrt(draws[..., 0]), 2 * np.pi * draws[..., 1]  # uniform over the disc
        near = centre + np.stack([r * np.cos(phi), r * np.sin(phi)], axis=2)
        inside = np.arange(m) < round(0.7 * m)
        return np.where(inside[:, None], near, draws * c.area)

    def _measure(self, rows: Rows) -> Network:
        """The radio network of these worlds; draws the shadowing where the channel has any."""
        c = self.config
        position, users = self.position[rows], self.users[rows]  # (W, n, 3), (W, m, 2)
        height = position[:, :, 2:3]
        flat_sq = (position[:, :, 0:1] - users[:, None, :, 0]) ** 2
        flat_sq += (position[:, :, 1:2] - users[:, None, :, 1]) ** 2  # (W, n, m)
        power = self._user_power(rows, flat_sq, height)
        found = radio.associate(power, radio.from_db(c.noise), radio.from_db(c.min_sinr), c.capacity)
        worlds, n = position.shape[:2]
        served = found.served
        count = served.sum(axis=1)
        heard = np.where(served, found.sinr, 1.0)
        over = np.clip((10.0 * np.log10(heard) - c.min_sinr) / radio.QUALITY_SPAN, 0.0, 1.0)
        quality = np.where(served, over, 0.0).sum(axis=1) / np.maximum(count, 1)
        # Sums by UAV: one flat bin for each (world, UAV), the first of each world for users without one.
        bins = ((np.arange(worlds) * (n + 1) + 1)[:, None] + found.server).ravel()
        rates = (c.bandwidth / 1e6 * np.log2(1.0 + heard)).ravel()
        size, table = worlds * (n + 1), (worlds, n + 1)
        access: Array = np.bincount(bins, weights=rates, minlength=size).reshape(table)[:, 1:]
        load = np.bincount(bins, minlength=size).reshape(table)[:, 1:]
        if not c.relays:
            none = np.zeros((worlds, n), dtype=np.int64)
            flags = np.zeros((worlds, n, c.num_ground), dtype=np.bool_)
            return Network(found.server, quality, access, load, (load > 0) * BASE_STATION, none, none - 1, flags)
        return self._backhaul(position, found.server, quality, access, load)

    def _user_power(self, rows: Rows, flat_sq: Array, height: Array) -> Array:
        """Received power in mW of every UAV at every user."""
        c = self.config
        distance_sq = flat_sq + height**2  # (W, n, m)
        if c.channel != "3gpp-36777":
            return radio.log_distance_power(c.uav_power, c.channel, distance_sq)
        links = c.num_uavs * c.num_users
        shadow = self.streams.normal(rows, 2 * links).reshape(-1, 2, c.num_uavs, c.num_users)
        return radio.power_3gpp(c.uav_power, distance_sq, height, shadow[:, 0], shadow[:, 1])

    def _backhaul(self, position: Array, server: Array, quality: Array, access: Array, load: Array) -> Network:
        """Scenario 2: routes to the ground, what they let through, and each UAV's role.

        A UAV delivers min(access rate, slowest link on its route / hops). One that carries another's traffic is a
        relay, whether or not it also serves users; else one with users is a base station; else it is idle.
        """
        c = self.config
        to_ground = ((position[:, :, None] - self.ground) ** 2).sum(axis=3)  # (W, n, G)
        ground_rate = self._rate(to_ground, c.ground_power, c.ground_link_snr)
        between = ((position[:, :, None] - position[:, None]) ** 2).sum(axis=3)  # (W, n, n)
        between[:, np.arange(c.num_uavs), np.arange(c.num_uavs)] = np.inf  # no link to itself
        uav_rate = self._rate(between, c.uav_power, c.uav_link_snr)
        routes = radio.find_routes(ground_rate, uav_rate, c.max_hops)
        throughput = np.minimum(access, routes.rate / np.maximum(routes.hops, 1))
        role = np.where(radio.forwarders(routes, load > 0, c.max_hops), RELAY, (load > 0) * BASE_STATION)
        return Network(server, quality, throughput, load, role, routes.hops, routes.next_hop, ground_rate > 0)

    def _rate(self, distance_sq: Array, power: float, min_snr: float) -> Array:
        # Nearer than a metre the free-space formula has no meaning, and at 0 it is infinite.
        return radio.link_rate(np.maximum(distance_sq, 1.0), power, self.config.noise, min_snr, self.config.bandwidth)

    def _advance(self, actions: Array) -> Outcome:
        c = self.config
        moved = self.position + actions * (c.max_speed * c.dt)
        self.position = np.clip(moved, self._floor, self._ceiling)
        self.network = now = self._measure(ALL)
        served = now.load.sum(axis=1)
        coverage = served / c.num_users
        info: dict[str, Array] = {
            "coverage_ratio": coverage,
            "served_users": served,
            "quality": now.quality.copy(),  # copies: a reset writes into the network's arrays
            "throughput": now.throughput.copy(),
            "users_per_uav": now.load.copy(),
            "reward_coverage": c.coverage_weight * coverage,
            "reward_quality": c.quality_weight * now.quality,
        }
        if c.relays:
            linked = now.hops > 0
            routed = linked.sum(axis=1)
            hops = now.hops.sum(axis=1) / np.maximum(routed, 1)  # mean over UAVs that have a route
            total = now.throughput.sum(axis=1) / (c.num_uavs * radio.REFERENCE_RATE)
            info |= {
                "hops": now.hops.copy(),
                "roles": now.role.copy(),
                "reward_connectivity": 0.2 * routed / c.num_uavs,
                "reward_throughput": 0.2 * np.minimum(total, 1.0),
                "reward_hops": -0.1 * hops / c.max_hops,
            }
        else:
            climb = (self.position[:, :, 2].mean(axis=1) - c.min_height) / (c.max_height - c.min_height)
            info["reward_altitude"] = -0.1 * climb
        parts = [value for key, value in info.items() if key.startswith("reward_")]
        return Outcome(np.sum(parts, axis=0), None, info)

    def _observe(self, rows: Rows) -> tuple[Float32, Float32]:
        c, n = self.config, self.config.num_uavs
        place = ((self.position[rows] - self._floor) / (self._ceiling - self._floor)).astype(np.float32)  # (W, n, 3)
        users = (self.users[rows] / c.area).astype(np.float32)  # (W, m, 2)
        time = (self.step_count[rows] / c.max_steps).astype(np.float32)  # (W,)
        worlds = len(place)
        state = np.empty((worlds, c.state_dim), dtype=np.float32)
        state[:, : 3 * n] = place.reshape(worlds, -1)
        state[:, 3 * n : -1] = users.reshape(worlds, -1)
        state[:, -1] = time

        seen = np.empty((worlds, n, c.obs_dim), dtype=np.float32)
        seen[:, :, :3] = place
        at = self._see_lists(seen, rows, state)
        if c.relays:
            seen[:, :, at : at + 3] = self.network.role[rows, :, None] == np.arange(3)
            seen[:, :, at + 3 : -1] = self.network.ground_link[rows]
            seen[:, :, -1] = self.network.hops[rows] / c.max_hops
        return seen, state

    def _see_lists(self, seen: Float32, rows: Rows, state: Float32) -> int:
        """Users, all UAVs, time; with a sensing range also flags of what is within it. Returns where it ends."""
        n, m = self.config.num_uavs, self.config.num_users
        users, uavs, time = (int(end) for end in np.cumsum([3, 2 * m, 3 * n]))
        seen[:, :, users:uavs] = state[:, None, 3 * n : -1]
        seen[:, :, uavs:time] = state[:, None, : 3 * n]
        seen[:, :, time] = state[:, None, -1]
        at = time + 1
        if self.config.sensing_range is None:
            return at
        near_user, near_uav = self._near(rows)
        seen[:, :, users:uavs] *= np.repeat(near_user, 2, axis=2)
        seen[:, :, uavs:time] *= np.repeat(near_uav, 3, axis=2)
        seen[:, :, at : at + m], seen[:, :, at + m : at + m + n] = near_user, near_uav
        return at + m + n

    def _near(self, rows: Rows) -> tuple[Bools, Bools]:
        """Which users (W, n, m) and which UAVs (W, n, n) are within each UAV's sensing range."""
        position, users = self.position[rows], self.users[rows]
        reach_sq = float(self.config.sensing_range or 0.0) ** 2
        to_users = ((position[:, :, None, :2] - users[:, None]) ** 2).sum(axis=3) + position[:, :, None, 2] ** 2
        to_uavs = ((position[:, :, None] - position[:, None]) ** 2).sum(axis=3)
        return to_users <= reach_sq, to_uavs <= reach_sq

    def _arrays(self) -> dict[str, Array]:
        return {"position": self.position, "users": self.users, **self.network.__dict__}

    def render(self, world: int = 0, colours: Sequence[str] | None = None) -> NDArray[np.uint8]:
        from echelon.envs.uav.render import Sky, draw_sky

        network = Network(*(array[world] for array in vars(self.network).values()))
        place, users, step = self.position[world], self.users[world], int(self.step_count[world])
        return draw_sky(Sky(self.spec.name, self.config, step, place, users, self.ground, network), colours)


def parallel_env(preset: str = "uav1", render_mode: str | None = None, **options: Any) -> SingleWorld:
    """One sky as a PettingZoo ParallelEnv; the options are those of `UAVConfig`."""
    worlds = UAVEnv(uav_config(preset, **options), 1, [0], name=preset, autoreset=False)
    return SingleWorld(worlds, 0.0, 1.0, render_mode)
