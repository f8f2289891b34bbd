"""A network's numpy player shares its memory, and is made again only where the weights have moved."""

from __future__ import annotations

import copy
import gc

import torch
from torch import nn

from echelon.hrl_xf.networks.player_cache import PlayerCache, weights_of


def test_an_array_is_its_weights_memory() -> None:
    layer = nn.Linear(3, 2)
    array = weights_of(layer).take("weight", 2, 3)
    with torch.no_grad():
        layer.weight.fill_(2.5)
    assert (array == 2.5).all()


def test_a_player_is_made_once_and_again_where_the_weights_have_moved() -> None:
    made: list[nn.Linear] = []
    cache: PlayerCache[nn.Linear, int] = PlayerCache(lambda layer: made.append(layer) or len(made))  # type: ignore[func-returns-value]
    layer = nn.Linear(3, 2)
    assert [cache.of(layer, layer.weight) for _ in range(3)] == [1, 1, 1]
    twin = copy.deepcopy(layer)
    assert cache.of(twin, twin.weight) == 2
    assert cache.of(layer, layer.weight) == 1
    layer.double().float()
    assert cache.of(layer, layer.weight) == 3
    made.clear()
    del twin
    gc.collect()
    assert len(cache._players) == 1, "a layer that no longer exists is not kept"
