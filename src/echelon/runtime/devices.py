"""Devices of tensors. Batches are moved to the device of their layer; files and the game get CPU tensors."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


def device_of(name: str, option: str = "--device") -> torch.device:
    """The device of this name; raises with the reason if it does not exist or computes wrong results."""
    try:
        device = torch.device(name)
        found = float((torch.zeros(2, device=device) + 1).sum())  # torch.device() accepts absent ones
    except (RuntimeError, AssertionError, ImportError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].partition(". ")[0][:100]
        usable = " or ".join(available_devices())
        raise ValueError(
            f"{option} {name!r} is not a device that torch can use here ({reason}); use {usable}"
        ) from error
    if found != 2:
        usable = " or ".join(available_devices())
        raise ValueError(f"{option} {name!r} computes 1 + 1 = {found:g}, which is wrong; use {usable}")
    return device


def available_devices() -> list[str]:
    """Names of the devices of this machine."""
    kind = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    count = torch.accelerator.device_count() if kind is not None else 0
    return ["cpu", *(f"{kind}" if count == 1 else f"{kind}:{i}" for i in range(count))]


def device_of_layer(layer: nn.Module) -> torch.device:
    """Where a layer's weights are."""
    return next(layer.parameters()).device


def on_device(value: T, device: torch.device) -> T:
    """What was made on the CPU (a tensor, a tuple or a dataclass of them) on a device; for the CPU, the same object."""
    if device.type == "cpu":
        return value
    if isinstance(value, Tensor):
        single = value.dtype == torch.float64 and device.type == "mps"  # which has no double precision
        return value.to(device, torch.float32 if single else value.dtype)  # type: ignore[return-value]
    if isinstance(value, tuple):
        return type(value)(on_device(v, device) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(*(on_device(getattr(value, f.name), device) for f in fields(value)))
    return value
