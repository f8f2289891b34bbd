"""L2 under the name that the guides import; the code is in `layers.l2_manager`."""

from __future__ import annotations

from echelon.hrl_xf.layers.l2_manager import HorizonManagerPPO, load_l2

__all__ = [
    "HorizonManagerPPO",
    "load_l2",
]
