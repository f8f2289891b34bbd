"""`echelon hrl online`: improve trained layers by playing."""

from __future__ import annotations

from echelon.hrl_xf.online.run import train_online
from echelon.hrl_xf.options.online import OnlineOptions


def run(options: OnlineOptions) -> int:
    """The command."""
    train_online(options)
    return 0
