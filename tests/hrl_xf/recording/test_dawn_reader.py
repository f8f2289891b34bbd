"""The simulator's tables say what the agent's interface says, on every day and level."""

from __future__ import annotations

import pytest

from echelon.hrl_xf.recording.dawn_reader import DawnReader, Market
from echelon.hrl_xf.state.day_state import OffersSnapshot
from echelon.hrl_xf.state.live import day_state
from tests.hrl_xf.conftest import MakeWorld


@pytest.mark.parametrize("perishable", [False, True])
def test_the_tables_agree_with_the_interface(make_world: MakeWorld, perishable: bool) -> None:
    world = make_world(["SyncRandomStdAgent", "RandomStdAgent"], n_steps=8, levels=3, per_level=2)
    awis = [adapter.awi for adapter in world.non_system_agents]
    market = Market(world)
    readers = [DawnReader(awi, market) for awi in awis]
    offers, ahead, needs = OffersSnapshot([], []), 0, 0
    for _ in range(world.n_steps - 1):
        world.step()
        usual, world.perishable = world.perishable, perishable  # only for the reading: a play with it is another game
        for awi, reader in zip(awis, readers, strict=True):
            day = reader.state(reader.look(), offers)
            assert day == day_state(awi, reader.initial_balance, offers)
            ahead += sum(day.commitments.Q_in[1:]) + sum(day.commitments.Q_out[1:])
            needs += abs(day.needed_supplies) + abs(day.needed_sales)
        world.perishable = usual
    assert ahead > 0
    assert needs > 0
