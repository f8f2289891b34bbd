"""Weights of a layer in one file that says itself what it is: safetensors whose header holds the class and its options.

A network is rebuilt from its file alone; `weight_files` reads the same file for play, without torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from echelon.hrl_xf.layers.weight_files import FORMAT_VERSION, OLD_SUFFIXES, LayerFileError, layer_path, read_layer
from echelon.hrl_xf.state.day_batch import FEATURE_VERSION
from echelon.runtime.devices import device_of
from echelon.runtime.files import write_atomic


class Layer(nn.Module):
    """A network that knows the options it was made with, so that a file can rebuild it."""

    options: dict[str, Any]
    """constructor arguments, JSON values"""
    unnamed: ClassVar[Mapping[str, Any]] = {}
    """arguments that are younger than some files, and what those files mean by not naming them"""


L = TypeVar("L", bound=Layer)


def layer_bytes(layer: Layer, note: Mapping[str, Any] | None = None) -> bytes:
    """A layer as the bytes of its file; `note` (JSON values) says where the weights come from."""
    metadata = {
        "format": "echelon-layer",
        "format_version": str(FORMAT_VERSION),
        "class": type(layer).__name__,
        "options": json.dumps(layer.options),
        "feature_version": str(FEATURE_VERSION),
        "note": json.dumps(dict(note or {})),
    }
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in layer.state_dict().items()}
    return _in_order(to_bytes(tensors, metadata))


def save_layer(layer: Layer, path: str | Path, note: Mapping[str, Any] | None = None) -> Path:
    """Write a layer. Returns the file's path."""
    where = layer_path(path)
    where.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(where, layer_bytes(layer, note))
    asked = Path(path)
    if asked != where and asked.suffix in OLD_SUFFIXES:
        asked.unlink(missing_ok=True)
        asked.symlink_to(where.name)  # scripts that look for the name they gave find it
    return where


def _in_order(file: bytes) -> bytes:
    """The same safetensors file with the header's names in order: equal weights are equal bytes, and one digest."""
    size = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + size])
    text = json.dumps({name: dict(sorted(value.items())) for name, value in sorted(header.items())}).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
    return len(text).to_bytes(8, "little") + text + file[8 + size :]


def load_layer(kind: type[L], path: str | Path, device: torch.device | str = "cpu") -> L:
    """The layer in a file, ready for use (`eval`) on a device."""
    place = device_of(str(device), "device")
    metadata, arrays = read_layer(path)
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    where = layer_path(path)
    if metadata["class"] != kind.__name__:
        raise LayerFileError(f"{where} holds a {metadata['class']}, not a {kind.__name__}")
    try:
        layer = kind(**{**kind.unnamed, **json.loads(metadata["options"])})
    except (TypeError, ValueError) as error:
        raise LayerFileError(
            f"{where} has options {metadata['options']} that make no {kind.__name__}: {error}"
        ) from error
    fit_weights(layer, tensors, where)
    return layer.to(place).eval()


def fit_weights(layer: nn.Module, tensors: Mapping[str, Tensor], where: str | Path) -> None:
    """Load weights into a layer; names, shapes and finite values are checked first."""
    expected = layer.state_dict()
    wrong = sorted(set(expected) ^ set(tensors))
    if wrong:
        raise LayerFileError(
            f"{where} does not fit this {type(layer).__name__}: {', '.join(wrong[:5])} on one side only"
        )
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise LayerFileError(
                f"{where}: {name} has shape {tuple(tensor.shape)}, this {type(layer).__name__} needs "
                f"{tuple(expected[name].shape)}; build it with the options it was trained with"
            )
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise LayerFileError(f"{where}: {name} holds values that are not finite")
    layer.load_state_dict(dict(tensors))
