"""How far two float32 computations of the same numbers may lie apart, on any processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

EPS = 2.0**-23
ROUNDINGS = 64


def rounding(*sizes: Any) -> float:
    """The largest difference that rounding may make between two ways to compute the outputs of a network.

    A float32 sum of n products has an error of about √n·ε times the size of its terms, ε = 2⁻²³, and other shapes,
    other libraries and other processors add in another order. Our layers have n ≤ 256, so each adds at most 16 ε of the
    size of its outputs, and no network has more than four wide layers in a row: 64 ε. `sizes` are arrays or numbers
    whose largest finite magnitude is that size: what is compared, and what it is a difference of (a log-probability
    near 0 is one of large logits). Nothing is smaller than 1, the size of inputs and of normalised layers.
    """
    found = [np.abs(_array(size)) for size in sizes]
    return ROUNDINGS * EPS * max([1.0, *(float(a[np.isfinite(a)].max(initial=0.0)) for a in found)])


def assert_equal_but_for_rounding(found: Any, wanted: Any, *sizes: Any, message: str = "") -> None:
    """`found` and `wanted` differ by what rounding may make of numbers as large as they, or as `sizes`."""
    limit = rounding(found, wanted, *sizes)
    np.testing.assert_allclose(_array(found), _array(wanted), rtol=0.0, atol=limit, err_msg=message)


def _array(values: Any) -> NDArray[np.float64]:
    return np.asarray(values.detach() if isinstance(values, torch.Tensor) else values, np.float64)
