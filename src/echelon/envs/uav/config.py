"""Options of the UAV base-station environments, and their presets. Imports neither numpy nor torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from echelon.envs.entities import EntitySet, Sets

Distribution = Literal["uniform", "cluster", "hotspot"]
Channel = Literal["free_space", "urban", "suburban", "3gpp-36777"]


@dataclass(frozen=True)
class UAVConfig:
    """One scenario. Lengths in metres, times in seconds, powers in dBm."""

    num_uavs: int = 5
    num_users: int = 50
    area: float = 1000.0
    """Side of the square."""
    min_height: float = 50.0
    max_height: float = 150.0
    max_speed: float = 30.0
    dt: float = 1.0
    max_steps: int = 5000
    user_distribution: Distribution = "uniform"
    """`cluster`: several Gaussian groups; `hotspot`: 70 % within a third of the side of one centre."""
    channel: Channel = "free_space"
    """Path-loss model between UAVs and users."""
    sensing_range: float | None = None
    """Users and UAVs further away than this are hidden from an agent; flags say which ones it sees."""
    uav_power: float = 20.0
    noise: float = -104.0
    bandwidth: float = 20e6
    """Hz."""
    min_sinr: float = 0.0
    """dB a user needs to be served."""
    capacity: int = 10
    """Users one UAV can serve."""

    relays: bool = False
    """Scenario 2: traffic must reach a ground station, directly or over other UAVs."""
    num_ground: int = 1
    """Ground stations: one at the centre, two to four at corners, more on a grid."""
    ground_height: float = 30.0
    ground_power: float = 30.0
    ground_link_snr: float = 0.0
    """dB (free space, at the ground station's power) a UAV–ground link needs."""
    uav_link_snr: float = 0.0
    """dB (free space) a UAV–UAV link needs."""
    max_hops: int = 3
    """Links a route may have, 3 to 5."""

    def __post_init__(self) -> None:
        for name in ("num_uavs", "num_users", "max_steps", "capacity", "num_ground"):
            if (count := self.__dict__[name]) < 1:
                raise ValueError(f"{name}={count} must be at least 1")
        for name in ("area", "max_speed", "dt", "bandwidth"):
            if not (size := self.__dict__[name]) > 0:
                raise ValueError(f"{name}={size} must be above 0")
        if not 0 < self.min_height < self.max_height:
            raise ValueError(f"min_height={self.min_height} must be above 0 and below max_height={self.max_height}")
        if self.user_distribution not in ("uniform", "cluster", "hotspot"):
            raise ValueError(f"user_distribution={self.user_distribution!r}; use uniform, cluster or hotspot")
        if self.channel not in ("free_space", "urban", "suburban", "3gpp-36777"):
            raise ValueError(f"channel={self.channel!r}; use free_space, urban, suburban or 3gpp-36777")
        if self.sensing_range is not None and not self.sensing_range > 0:
            raise ValueError(f"sensing_range={self.sensing_range} must be above 0, or None to see everything")
        if not 3 <= self.max_hops <= 5:
            raise ValueError(f"max_hops={self.max_hops} must be 3, 4 or 5")

    @property
    def coverage_weight(self) -> float:
        """Of the share of users served, in the reward."""
        return 0.4 if self.relays else 0.7

    @property
    def quality_weight(self) -> float:
        """Of the quality of their signals, in the reward."""
        return 0.2 if self.relays else 0.3

    @property
    def state_dim(self) -> int:
        return 3 * self.num_uavs + 2 * self.num_users + 1

    @property
    def obs_dim(self) -> int:
        flags = 0 if self.sensing_range is None else self.num_users + self.num_uavs
        return 3 + 2 * self.num_users + 3 * self.num_uavs + 1 + flags + self.relay_dim

    @property
    def observation_sets(self) -> Sets:
        """UAVs and users; with a sensing range their flags come behind the time."""
        n, m = self.num_uavs, self.num_users
        flags = None if self.sensing_range is None else 3 + 2 * m + 3 * n + 1
        uavs = EntitySet("uavs", 3 + 2 * m, n, 3, None if flags is None else flags + m, origin=(0, 1, 2), place=2)
        return uavs, EntitySet("users", 3, m, 2, flags, origin=(0, 1), place=2)

    @property
    def state_sets(self) -> Sets:
        n, m = self.num_uavs, self.num_users
        return EntitySet("uavs", 0, n, 3, place=2), EntitySet("users", 3 * n, m, 2, place=2)

    @property
    def state_places(self) -> tuple[int, ...]:
        """Where an observation holds the state (UAVs, users, time); it does not if some of them may be hidden."""
        users, uavs, time = 3, 3 + 2 * self.num_users, 3 + 2 * self.num_users + 3 * self.num_uavs
        return (*range(uavs, time), *range(users, uavs), time) if self.sensing_range is None else ()

    @property
    def relay_dim(self) -> int:
        """The last numbers an agent sees, in scenario 2: its role, its links to ground stations, its hops."""
        return 3 + self.num_ground + 1 if self.relays else 0


PRESETS: dict[str, UAVConfig] = {
    "uav1": UAVConfig(),
    "uav2": UAVConfig(relays=True),
    # In 1 km every UAV always reaches the ground station; here a link spans 498 m to ground and 280 m between UAVs.
    "uav2-relay": UAVConfig(relays=True, area=2000.0, ground_link_snr=40.0, uav_link_snr=35.0),
}


def uav_config(preset: str, **changes: object) -> UAVConfig:
    """A preset with some options changed; a wrong option is one clear error."""
    known = UAVConfig.__dataclass_fields__
    if wrong := sorted(set(changes) - set(known)):
        raise ValueError(f"{preset} has no option {', '.join(wrong)}; it has {', '.join(known)}")
    return replace(PRESETS[preset], **changes)  # type: ignore[arg-type]  # the class checks its values itself
