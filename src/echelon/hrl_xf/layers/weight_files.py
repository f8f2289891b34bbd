"""Reading a layer's file with numpy alone: safetensors whose header holds the class and its options.

A file of another class, another format or other features is refused with the reason; nothing in it is ever executed.
`networks.files` writes such files and rebuilds networks from them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from echelon.hrl_xf.layers.play_arrays import Weights, WeightsError
from echelon.hrl_xf.state.day_batch import FEATURE_VERSION
from echelon.runtime.arrays import Float32

FORMAT_VERSION = 1
SUFFIX = ".safetensors"
OLD_SUFFIXES = (".ckpt.pt", ".pt", ".pth")
_TYPES = {"F32": "<f4", "F64": "<f8"}


class LayerFileError(ValueError):
    """A file that does not hold the layer asked for, and why."""


class Player(Protocol):
    """A layer in numpy."""

    network: ClassVar[str]
    """name of the network's class, which the file holds"""

    def __init__(self, weights: Weights, **options: Any) -> None: ...


P = TypeVar("P", bound=Player)


def layer_path(path: str | Path) -> Path:
    """The file of the weights called `path`: names of other formats (`l2_bc.pt`) mean our file of the same stem."""
    where = Path(path)
    for suffix in OLD_SUFFIXES:
        if where.name.endswith(suffix):
            return where.with_name(where.name.removesuffix(suffix) + SUFFIX)
    return where if where.name.endswith(SUFFIX) else where.with_name(where.name + SUFFIX)


def load_player(kind: type[P], path: str | Path) -> P:
    """The layer in a file, in numpy, ready to play."""
    return _player(kind, *read_layer(path), str(layer_path(path)))


def player_of_bytes(kind: type[P], file: bytes) -> P:
    """The layer whose file has these bytes, in numpy, ready to play."""
    where = "the layer that was sent"
    return _player(kind, *_checked(file, where), where)


def _player(kind: type[P], header: dict[str, str], arrays: dict[str, Float32], where: str) -> P:
    name = kind.network
    if header["class"] != name:
        raise LayerFileError(f"{where} holds a {header['class']}, not a {name}")
    weights = Weights(arrays)
    try:
        layer = kind(weights, **json.loads(header["options"]))
    except WeightsError as error:
        raise LayerFileError(f"{where}: {error}") from error
    except (TypeError, ValueError) as error:
        raise LayerFileError(f"{where} has options {header['options']} that make no {name}: {error}") from error
    if weights.unused:
        raise LayerFileError(f"{where}: {', '.join(sorted(weights.unused)[:5])} are not part of a {name}")
    return layer


def read_layer(path: str | Path) -> tuple[dict[str, str], dict[str, Float32]]:
    """Header and weights of a layer's file."""
    where = layer_path(path)
    if not where.exists():
        raise FileNotFoundError(f"{where} does not exist; train the layer first, or correct the path")
    return _checked(where.read_bytes(), str(where))


def _checked(file: bytes, where: str) -> tuple[dict[str, str], dict[str, Float32]]:
    """Header and weights of a layer's file, if this Echelon can play with it."""
    try:
        header, arrays = _safetensors(file)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayerFileError(f"{where} is not a whole safetensors file: {error}") from error
    if header.get("format") != "echelon-layer":
        raise LayerFileError(f"{where} is not a layer's file: its header does not say which layer it is")
    if header.get("format_version") != str(FORMAT_VERSION):
        raise LayerFileError(
            f"{where} has format_version {header.get('format_version')}, this Echelon reads {FORMAT_VERSION}"
        )
    if header.get("feature_version") != str(FEATURE_VERSION):
        raise LayerFileError(
            f"{where} was trained on features of version {header.get('feature_version')}, this Echelon makes version "
            f"{FEATURE_VERSION}; train it again"
        )
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise LayerFileError(f"{where}: {name} holds values that are not finite")
    return header, arrays


def _safetensors(file: bytes) -> tuple[dict[str, str], dict[str, Float32]]:
    """Metadata and arrays: eight bytes of the header's length, the header as JSON, then all arrays without gaps."""
    size = int.from_bytes(file[:8], "little")
    if len(file) < 8 + size:
        raise ValueError(f"its header has {size} bytes, the file {len(file)}")
    header = json.loads(file[8 : 8 + size])
    metadata, data, end = header.pop("__metadata__", {}), memoryview(file)[8 + size :], 0
    arrays: dict[str, Float32] = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        (first, last), shape, kind = entry["data_offsets"], entry["shape"], _TYPES.get(entry["dtype"])
        if kind is None:
            raise ValueError(f"{name} holds numbers of type {entry['dtype']}; weights are {' or '.join(_TYPES)}")
        if first != end:
            raise ValueError(f"{name} begins at {first}, what is before it ends at {end}")
        arrays[name] = np.frombuffer(data[first:last], kind).reshape(shape).astype(np.float32)
        end = last
    if end != len(data):
        raise ValueError(f"its header lists {end} bytes of arrays, the file has {len(data)}")
    return metadata, arrays
