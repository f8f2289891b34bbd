"""A GRU over a chunk of decisions in which episodes may start anywhere."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def run_gru(gru: nn.GRU, inputs: Tensor, state: Tensor, reset: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (L, M, H) and the state (M, H) after the last step, for inputs (L, M, F) from state (M, H).

    Where `reset` (L, M) is set the state is zeroed before that step. The chunk is run in as few pieces as the resets
    allow: a piece starts at each step where any of the M sequences is reset.
    """
    if gru.num_layers != 1 or gru.bidirectional or gru.batch_first:
        raise ValueError("run_gru takes a GRU of one layer, one direction, time first; stack several calls for more")
    if reset.shape != inputs.shape[:2] or state.shape != (inputs.shape[1], gru.hidden_size):
        raise ValueError(
            f"inputs {tuple(inputs.shape)}, state {tuple(state.shape)} and reset {tuple(reset.shape)} must agree"
        )
    starts = sorted({0, *torch.nonzero(reset.any(1)).flatten().tolist()})
    outputs = []
    for begin, end in zip(starts, [*starts[1:], len(inputs)], strict=True):
        state = state.masked_fill(reset[begin].unsqueeze(1), 0.0)
        output, last = gru(inputs[begin:end], state.unsqueeze(0))
        outputs.append(output)
        state = last[0]
    return torch.cat(outputs), state
