"""A GRU over a chunk of decisions in which episodes may start anywhere."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn


def run_gru(gru: nn.GRU, inputs: Tensor, state: Tensor, reset: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (L, M, H) and the state (M, H) after the last step, for inputs (L, M, F) from state (M, H).

    Where `reset` (L, M) is set the state is zeroed before that step. Steps between resets go through one fused call: a
    chunk without an episode start costs the same as a plain GRU. Acting is the case L = 1.
    """
    if gru.num_layers != 1 or gru.bidirectional or gru.batch_first:
        raise ValueError(
            "run_gru takes a GRU of one layer, one direction, time first; stack several calls for more layers"
        )
    if reset.shape != inputs.shape[:2] or state.shape != (inputs.shape[1], gru.hidden_size):
        raise ValueError(
            f"inputs {tuple(inputs.shape)}, state {tuple(state.shape)} and reset {tuple(reset.shape)} must agree"
        )
    length = inputs.shape[0]
    starts = [t for t, any_reset in enumerate(reset.any(1).tolist()) if any_reset]
    bounds = sorted({0, length, *starts})
    outputs = []
    for begin, end in itertools.pairwise(bounds):
        if begin in starts:
            state = state.masked_fill(reset[begin].unsqueeze(-1), 0.0)
        piece, last = gru(inputs[begin:end], state.unsqueeze(0))
        state = last.squeeze(0)
        outputs.append(piece)
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs)), state
