"""Optimisers: made fast, checked to hold every parameter once, saved as plain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer


def adam(parameters: Iterable[nn.Parameter], lr: float, eps: float = 1e-5) -> Adam:
    """Adam in one fused kernel: with many small layers the unfused one costs more than the gradient."""
    return Adam(parameters, lr=lr, eps=eps, fused=True)


def check_optimizers(parameters: Mapping[str, nn.Parameter], optimizers: Sequence[Optimizer]) -> None:
    """Every trainable parameter must be in exactly one optimiser, and the optimisers must hold nothing else.

    A layer made after its optimiser, or two optimisers over one layer, would train silently wrong. Call it with the
    parameters of all levels and all optimisers to check across levels.
    """
    held: dict[int, int] = {}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                held[id(parameter)] = held.get(id(parameter), 0) + 1
    missing = [name for name, p in parameters.items() if p.requires_grad and id(p) not in held]
    if missing:
        raise ValueError(
            f"parameters {missing} are in no optimiser; make the optimiser after the layers, or freeze them"
        )
    twice = [name for name, p in parameters.items() if held.get(id(p), 0) > 1]
    if twice:
        raise ValueError(f"parameters {twice} are in more than one optimiser; each must be in exactly one")
    foreign = len(held.keys() - {id(p) for p in parameters.values()})
    if foreign:
        raise ValueError(
            f"the optimisers hold {foreign} parameters that the policy does not; give each policy its own optimiser"
        )


def optimizer_state(optimizer: Optimizer) -> dict[str, Tensor]:
    """Moments, step counts and learning rates, flat, as copies."""
    saved = optimizer.state_dict()
    rates = torch.tensor([group["lr"] for group in saved["param_groups"]], dtype=torch.float64)
    state = {"lr": rates}
    for index, entries in saved["state"].items():
        for name, content in entries.items():
            if not isinstance(content, Tensor):
                raise TypeError(
                    f"optimiser state {name} is a {type(content).__name__}; only tensors can be saved, use adam()"
                )
            state[f"{index}.{name}"] = content.detach().clone()
    return state


def load_optimizer_state(optimizer: Optimizer, state: Mapping[str, Tensor]) -> None:
    """Continue from `optimizer_state`; all other settings stay those of `optimizer`."""
    target = optimizer.state_dict()
    rates = state["lr"].tolist()
    if len(rates) != len(target["param_groups"]):
        raise ValueError(f"the saved optimiser had {len(rates)} groups, this one has {len(target['param_groups'])}")
    for group, rate in zip(target["param_groups"], rates, strict=True):
        group["lr"] = rate
    sizes = [p.shape for group in optimizer.param_groups for p in group["params"]]
    entries: dict[int, dict[str, Tensor]] = {}
    for key, tensor in state.items():
        if key == "lr":
            continue
        number, name = key.split(".", 1)
        index = int(number)
        if index >= len(sizes) or (tensor.dim() and tensor.shape != sizes[index]):
            raise ValueError(f"saved optimiser state {key} {tuple(tensor.shape)} fits no parameter of this policy")
        entries.setdefault(index, {})[name] = tensor.detach().clone()
    optimizer.load_state_dict({"state": entries, "param_groups": target["param_groups"]})
