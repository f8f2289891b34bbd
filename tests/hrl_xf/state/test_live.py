"""Reading the live interface."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.hrl_xf.state.day_state import OffersSnapshot
from echelon.hrl_xf.state.live import commitments_of, day_state
from tests.hrl_xf.conftest import MakeWorld


class Watched:
    """A world interface that notes what is read of it, and may lack one name."""

    def __init__(self, awi: Any, missing: str = "") -> None:
        self._awi, self._missing, self.read = awi, missing, set[str]()

    def __getattr__(self, name: str) -> Any:
        if name == self._missing:
            raise AttributeError(name)
        self.read.add(name)
        return getattr(self._awi, name)


def test_a_name_that_the_interface_lacks_is_an_error(make_world: MakeWorld) -> None:
    world = make_world(["RandomStdAgent"], n_steps=8, levels=3, per_level=2)
    world.step()
    awi = next(a.awi for a in world.agents.values() if not a.id.startswith(("SELLER", "BUYER")) and a.awi.level == 1)
    watched = Watched(awi)
    whole = day_state(watched, 100.0, OffersSnapshot([], []))
    assert whole.commitments == commitments_of(awi)
    assert {"current_balance", "future_supplies_cost", "current_exogenous_input_price"} <= watched.read
    for name in watched.read:
        with pytest.raises(AttributeError, match=name):
            day_state(Watched(awi, name), 100.0, OffersSnapshot([], []))
