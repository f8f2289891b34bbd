"""Operands of matrix products at addresses that are multiples of 64 bytes.

A matrix product of the same numbers in the same shapes may round differently when an operand starts at another
address: the library computes the elements before the first aligned one in another way. Intel's MKL promises equal
results of equal calls only for operands aligned to 64 bytes, and on some processors differs even between offsets of 4
bytes. torch allocates at multiples of 64; numpy does not, and neither do views into a larger array. What must be equal
to the bit wherever it is computed goes through here.
"""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.runtime.arrays import Array

ALIGNMENT = 64
"""bytes"""


def as_tensor(array: Array) -> Tensor:
    """The array as a tensor that starts at an aligned address: without a copy if it does already."""
    tensor = torch.from_numpy(array)
    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()


def aligned_size(size: int, dtype: torch.dtype) -> int:
    """Elements from one aligned start to the next that leave room for `size` of them."""
    step = ALIGNMENT // dtype.itemsize
    return -(-size // step) * step
