"""L2 under the name that the guides import; the code is in `networks.l2_manager`."""

from __future__ import annotations

from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO, load_l2

__all__ = [
    "HorizonManagerPPO",
    "load_l2",
]
