"""L4 under the name that the guides import; the code is in `networks.l4_coordinator`."""

from __future__ import annotations

from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator, load_l4

__all__ = [
    "GlobalCoordinator",
    "load_l4",
]
