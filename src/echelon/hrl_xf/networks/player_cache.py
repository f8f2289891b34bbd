"""A network's numpy player: made of the network's own memory, so that what is learnt in place shows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from echelon.hrl_xf.layers.play_arrays import Weights

L = TypeVar("L", bound=nn.Module)
T = TypeVar("T")


def weights_of(layer: nn.Module) -> Weights:
    """A layer's weights: on the CPU their memory, of another device copies."""
    return Weights({name: weight.detach().cpu().numpy() for name, weight in layer.state_dict().items()})


class PlayerCache(Generic[L, T]):
    """The numpy player of each network, kept for its next calls.

    It is made again when the weights' memory is another one, as after a copy or a move, and at each call where they are
    on another device than the CPU.
    """

    def __init__(self, make: Callable[[L], T]) -> None:
        self._make = make
        self._players: WeakKeyDictionary[Any, tuple[int, T]] = WeakKeyDictionary()

    def of(self, layer: L, weight: Tensor) -> T:
        """`weight` is any one of the layer's."""
        if weight.device.type != "cpu":
            return self._make(layer)
        where = weight.data_ptr()
        found = self._players.get(layer)
        if found is None or found[0] != where:
            found = self._players[layer] = (where, self._make(layer))
        return found[1]
