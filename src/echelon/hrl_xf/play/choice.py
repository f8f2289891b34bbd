"""Which layers an agent plays with: the bundled ones, heuristics, files, or objects.

Files are read once per process and played in numpy; a network of one's own is given as an object.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from echelon.hrl_xf.layers.l2_play import PlayManager
from echelon.hrl_xf.layers.l3_play import PlayExecutor
from echelon.hrl_xf.layers.l4_play import PlayCoordinator
from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.layers.protocols import Coordinator, Executor, GoalMaker
from echelon.hrl_xf.layers.rules import BaselineExecutor, HeuristicCoordinator, HeuristicExecutor, HeuristicManager
from echelon.hrl_xf.layers.weight_files import Player, layer_path, load_player
from echelon.hrl_xf.weights import BUNDLED, layer_in

L2Choice = Literal["bundled", "heuristic"] | str | Path | GoalMaker
L3Choice = Literal["bundled", "heuristic", "l1"] | str | Path | Executor
L4Choice = Literal["bundled", "heuristic"] | str | Path | Coordinator

P = TypeVar("P", bound=Player)


def choose_layers(
    l2: L2Choice, l3: L3Choice, l4: L4Choice, residual_modulation: float = 0.0, min_confidence: float = 0.0
) -> Layers:
    """The layers that are meant."""
    return Layers(_l2(l2), _l3(l3), _l4(l4), residual_modulation, min_confidence)


@cache
def rule_layers() -> Layers:
    """The rules: nothing learnt."""
    return Layers(HeuristicManager(), HeuristicExecutor(), HeuristicCoordinator())


@cache
def plain_layers() -> Layers:
    """L1's own answers."""
    return Layers(HeuristicManager(), BaselineExecutor(), HeuristicCoordinator())


def layer_name(layer: GoalMaker | Executor | Coordinator) -> str:
    """The class of a layer; of one that is played from its file, the network's."""
    if isinstance(layer, PlayManager | PlayExecutor | PlayCoordinator):
        return layer.network
    return type(layer).__name__


def _l2(choice: L2Choice) -> GoalMaker:
    if isinstance(choice, str | Path):
        return HeuristicManager() if choice == "heuristic" else _file(PlayManager, choice, "l2")
    return choice


def _l3(choice: L3Choice) -> Executor:
    if isinstance(choice, str | Path):
        if choice == "l1":
            return BaselineExecutor()
        return HeuristicExecutor() if choice == "heuristic" else _file(PlayExecutor, choice, "l3")
    return choice


def _l4(choice: L4Choice) -> Coordinator:
    if isinstance(choice, str | Path):
        return HeuristicCoordinator() if choice == "heuristic" else _file(PlayCoordinator, choice, "l4")
    return choice


def _file(kind: type[P], choice: str | Path, name: Literal["l2", "l3", "l4"]) -> P:
    path = layer_in(BUNDLED, name) if choice == "bundled" else Path(choice)
    if path.is_dir():
        path = layer_in(path, name)
    path = layer_path(path)
    if not path.exists():
        return load_player(kind, path)  # which says what is wrong
    stat = path.stat()
    key = (path.resolve(), stat.st_mtime_ns, stat.st_size)  # a new file of the same name is another one
    if key not in _read:
        _read[key] = load_player(kind, path)
    layer = _read[key]
    if not isinstance(layer, kind):
        return load_player(kind, path)
    return layer


_read: dict[tuple[Path, int, int], Player] = {}
"""Layers in use; playing changes none of them."""
