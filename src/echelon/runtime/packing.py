"""Nested states as tensors and JSON, without pickle: optimisers, generators, whatever a run must not forget.

    tensors, structure = pack(optimiser.state_dict())
    optimiser.load_state_dict(unpack(tensors, structure))

Dicts (with string or integer keys), lists, tuples, tensors, arrays, numpy scalars, numbers (also NaN, and
integers of any size), strings, booleans and None come back as they were, with the same types.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

Tensor = Any
"""A numpy array or a torch tensor; torch is not imported for arrays."""

# JSON readers keep integers exactly only this far.
_EXACT = 2**53


def is_torch(value: object) -> bool:
    """True for a torch tensor, without importing torch."""
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def pack(tree: Any) -> tuple[dict[str, Tensor], Any]:
    """Take a nested state apart: its tensors by path, and the rest as JSON values."""
    tensors: dict[str, Tensor] = {}
    return tensors, _pack(tree, "root", tensors)


def unpack(tensors: Mapping[str, Tensor], structure: Any) -> Any:
    """Put together what `pack` took apart."""
    if isinstance(structure, list):
        return [unpack(tensors, item) for item in structure]
    if not isinstance(structure, dict):
        return structure
    if len(structure) == 1:
        (tag, content), *_ = structure.items()
        if tag == "$dict":
            return {key: unpack(tensors, item) for key, item in content}
        if tag == "$tuple":
            return tuple(unpack(tensors, item) for item in content)
        if tag == "$int":
            return int(content)
        if tag == "$float":
            return float(content)
        if tag in ("$tensor", "$scalar"):
            if content not in tensors:
                raise ValueError(f"the packed state needs tensor {content!r}, which is not among the {len(tensors)}")
            return tensors[content] if tag == "$tensor" else tensors[content][()]
    return {key: unpack(tensors, item) for key, item in structure.items()}


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.ndarray) or is_torch(value):
        tensors[path] = value
        return {"$tensor": path}
    if isinstance(value, np.generic):  # before int, float and str, which some of them also are
        tensors[path] = np.asarray(value)
        return {"$scalar": path}
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else {"$int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, tuple):
        return {"$tuple": [_pack(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]}
    if isinstance(value, list):
        return [_pack(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return _pack_mapping(value, path, tensors)
    raise ValueError(f"{path}: a {type(value).__name__} cannot be packed; use tensors, numbers, strings, lists, dicts")


def _pack_mapping(value: Mapping[Any, Any], path: str, tensors: dict[str, Tensor]) -> Any:
    # The position is in the path because 1 and "1" may both be keys.
    pairs = []
    for i, (key, item) in enumerate(value.items()):
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise ValueError(f"{path}: key {key!r} is neither a string nor an integer, and cannot be packed")
        pairs.append((key, _pack(item, f"{path}/{i}.{key}", tensors)))
    if all(isinstance(key, str) and not key.startswith("$") for key, _ in pairs):
        return dict(pairs)
    return {"$dict": [list(pair) for pair in pairs]}
