"""L3 under the name that the guides import; the code is in `networks.l3_executor`."""

from __future__ import annotations

from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer, load_l3

__all__ = [
    "TemporalDecisionTransformer",
    "load_l3",
]
