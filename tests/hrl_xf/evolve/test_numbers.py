"""The numbers that evolve: who plays with them, and what they change."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.hrl_xf.evolve.numbers import HABITS, NAMES, SIZE, changed, used_by_place, values
from echelon.hrl_xf.layers.l3_habits import KINDS, TERMS
from tests.hrl_xf.evolve.test_evolution import evolution

pytestmark = pytest.mark.numeric


def test_what_each_place_plays_with() -> None:
    used = used_by_place()
    assert used.shape == (3, SIZE)
    kinds = used[:, :HABITS].reshape(3, len(KINDS), len(TERMS))[:, :, 0]
    assert [[KINDS[i] for i in np.flatnonzero(row)] for row in kinds] == [
        [f"{role}, {size} partner" for role in roles for size in ("small", "large")]
        for roles in (
            ["seller, first level"],
            ["buyer, middle level", "seller, middle level"],
            ["buyer, last level"],
        )
    ]
    unknown = [
        used[:, NAMES.index(f"seller, middle level, {size} partner/quantity_unknown")].any()
        for size in ("small", "large")
    ]
    assert unknown == [True, False], "a large partner is known"
    assert used[1, NAMES.index("buyer, middle level, small partner/accept_in_goal")]
    assert not used[:, NAMES.index("seller, middle level, small partner/accept_in_goal")].any(), "a seller has no goal"
    sides = {NAMES[j] for j in range(HABITS, SIZE) if not used[0, j]}
    assert sides == {f"goal/buy_{b}" for b in range(4)}


def test_a_level_is_a_part_of_the_largest_weight() -> None:
    levels = np.zeros(SIZE, int)
    levels[[0, 1, 2, 3, HABITS]] = [1, 2, 3, 4, 4]
    found = values(levels, 6.0)
    assert found[:5] == pytest.approx([-6.0, -2.0, 2.0, 6.0, 0.0])
    assert found[HABITS] == pytest.approx(0.6), "three pieces"


def test_layers_change_and_those_given_stay() -> None:
    layers = evolution().start_weights().layers()
    by = np.linspace(-3.0, 3.0, SIZE)
    new = changed(layers, by)
    assert new.l3.habits.ravel() == pytest.approx(by[:HABITS], rel=1e-6)  # type: ignore[attr-defined]
    moved = new.l2.mean.bias - layers.l2.mean.bias  # type: ignore[attr-defined]
    assert moved[::2] == pytest.approx(by[HABITS:], abs=1e-5)
    assert not moved[1::2].any(), "prices stay"
    assert not layers.l3.habits.any()  # type: ignore[attr-defined]
