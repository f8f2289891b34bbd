"""A second device for machines that have none: it counts on the CPU, and refuses tensors of two devices in one
operation as a GPU does.

Within `OtherDevice()`, torch's device "meta" holds numbers. A tensor there is `There`: it says it is on "meta" and has
its numbers in `here`. Every operation below autograd passes through the mode; one that would mix devices is an error,
also where CUDA would forgive it (an index on the CPU).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

NAME = "meta"


class There(Tensor):
    """A tensor on the other device."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> There:
        made: There = Tensor._make_wrapper_subclass(
            cls, here.shape, strides=here.stride(), storage_offset=here.storage_offset(), dtype=here.dtype,
            device=torch.device(NAME),
        )  # fmt: skip
        made.here = here
        return made

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        """As on any device, the tensor then shares its numbers with the one it was given."""
        assert isinstance(value, There)
        self.here = value.here

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise RuntimeError(f"{func} on the other device outside of OtherDevice()")


class OtherDevice(TorchDispatchMode):
    """Makes the device "meta" one that counts."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0
        """how many ran there"""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        with self:  # operations made of others come whole in inference mode; only the others name their device
            if (made := func.decompose(*args, **kwargs)) is not NotImplemented:
                return made
        given: list[Tensor] = []
        tree_map(lambda x: given.append(x) if isinstance(x, Tensor) else None, (args, kwargs))
        there = any(isinstance(x, There) for x in given)
        asked = kwargs.get("device")
        moves = func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        if there and not moves and (mixed := [tuple(x.shape) for x in given if not isinstance(x, There) and x.dim()]):
            raise RuntimeError(f"{func}: tensors on two devices; on the CPU are those of shapes {mixed}")
        if asked is not None:
            kwargs["device"] = torch.device("cpu")
            there = torch.device(asked).type == NAME
        elif func is torch.ops.aten.copy_.default:
            there = isinstance(args[0], There)
        if func is torch.ops.aten._fused_sdp_choice.default and there:
            return 0  # plain arithmetic: the fused kernels are chosen by the kind of device
        self.operations += there
        found = func(*tree_map(_unwrapped, args), **tree_map(_unwrapped, kwargs))
        with torch.inference_mode(False):  # a view of a weight has to be of the weight's kind
            return _same_or_wrapped(found, given) if there else found


def _unwrapped(x: Any) -> Any:
    return x.here if isinstance(x, There) else x


def _same_or_wrapped(found: Any, given: list[Tensor]) -> Any:
    """What an operation in place returns is the tensor it was given."""
    known = {id(x.here): x for x in given if isinstance(x, There)}
    wrap: Callable[[Any], Any] = lambda x: known.get(id(x), There(x) if isinstance(x, Tensor) else x)  # noqa: E731
    return tree_map(lambda x: wrap(x) if isinstance(x, Tensor) else x, found)
