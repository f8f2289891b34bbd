"""A GRU over a chunk of decisions in which episodes may start anywhere, with its gradient written out.

The gradient by hand costs about two thirds of the derived one: everything that does not depend on later steps is
computed for the whole chunk at once, and so are the gradients of the weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from echelon.onpolicy.written.chain import Back
from echelon.onpolicy.written.gradients import Gradients


def run_gru(gru: nn.GRU, inputs: Tensor, state: Tensor, reset: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (L, M, H) and the state (M, H) after the last step, for inputs (L, M, F) from state (M, H).

    Where `reset` (L, M) is set the state is zeroed before that step. `state` is data: it gets no gradient. Acting is
    the case L = 1.
    """
    _check(gru, inputs, state, reset)
    outputs: Tensor = _GRU.apply(inputs, state, reset, *gru.parameters())  # type: ignore[no-untyped-call]
    return outputs, outputs[-1]


def gru_with_back(gru: nn.GRU, inputs: Tensor, state: Tensor, reset: Tensor) -> tuple[Tensor, Back]:
    """The outputs of `run_gru` without autograd, and their `back` (see `gradients`)."""
    _check(gru, inputs, state, reset)
    w, v, b, d = gru.parameters()
    saved = _forward(inputs, state, reset, w, v, b, d)

    def back(into: Gradients, g: Tensor) -> Tensor:
        dx, *found = _backward(saved, g, True)
        for parameter, gradient in zip((w, v, b, d), found, strict=True):
            into.add(parameter, gradient)
        return dx

    return saved[-1], back


def _check(gru: nn.GRU, inputs: Tensor, state: Tensor, reset: Tensor) -> None:
    if gru.num_layers != 1 or gru.bidirectional or gru.batch_first or not gru.bias:
        raise ValueError(
            "run_gru takes a GRU of one layer, one direction, time first, with biases; stack several calls for more "
            "layers"
        )
    if reset.shape != inputs.shape[:2] or state.shape != (inputs.shape[1], gru.hidden_size):
        raise ValueError(
            f"inputs {tuple(inputs.shape)}, state {tuple(state.shape)} and reset {tuple(reset.shape)} must agree"
        )


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        saved = _forward(*inputs)
        ctx.save_for_backward(*saved)
        return saved[-1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dx, *found = _backward(ctx.saved_tensors, gradients[0], ctx.needs_input_grad[0])
        return dx if ctx.needs_input_grad[0] else None, None, None, *found


def _forward(x: Tensor, state: Tensor, reset: Tensor, w: Tensor, v: Tensor, b: Tensor, d: Tensor) -> tuple[Tensor, ...]:
    """What the gradient needs, the outputs last. With h the state before a step, zero where an episode starts, and
    gates in the order r, z, n:

    a = W x + b,  c = V h + d
    r = sigmoid(a_r + c_r),  z = sigmoid(a_z + c_z),  n = tanh(a_n + r c_n),  h' = n + z (h - n)
    """
    width = v.shape[1]
    d_r, d_z, d_n = d.chunk(3)
    b_r, b_z, b_n = (b + torch.cat([d_r, d_z, torch.zeros_like(d_n)])).chunk(3)  # d_n stands inside r c_n
    (w_r, w_z, w_n), (v_r, v_z, v_n) = w.T.chunk(3, 1), v.T.chunk(3, 1)
    r, z, n, inner, out = (x.new_empty(*x.shape[:2], width) for _ in range(5))
    starts, h = reset.any(1).tolist(), state
    for t, seen in enumerate(x):
        h = h.masked_fill(reset[t].unsqueeze(1), 0.0) if starts[t] else h
        torch.addmm(b_r, seen, w_r, out=r[t]).addmm_(h, v_r).sigmoid_()
        torch.addmm(b_z, seen, w_z, out=z[t]).addmm_(h, v_z).sigmoid_()
        torch.addmm(d_n, h, v_n, out=inner[t])
        torch.addmm(b_n, seen, w_n, out=n[t]).addcmul_(r[t], inner[t]).tanh_()
        h = torch.lerp(n[t], h, z[t], out=out[t])
    return x, reset, w, v, r, z, n, inner, state, out


def _backward(saved: tuple[Tensor, ...], gradient: Tensor, input_gradient: bool) -> tuple[Tensor, ...]:
    """Gradients of x (empty, if not asked for), W, V, b, d."""
    x, reset, w, v, r, z, n, inner, state, out = saved
    length, rows, width = n.shape
    starts = reset.any(1).tolist()
    dx = torch.empty_like(x) if input_gradient else x.new_empty(0)
    dw, dv = torch.zeros_like(w), torch.zeros_like(v)
    db, dd = w.new_zeros(3 * width), w.new_zeros(3 * width)
    joint = x.new_empty(rows, 3 * width)  # of (a_r, a_z, a_n), then of (c_r, c_z, c_n)
    at_r, at_z, at_n = joint.chunk(3, 1)
    dh = gradient[-1]
    for t in range(length - 1, -1, -1):
        h = out[t - 1] if t else state
        h = h.masked_fill(reset[t].unsqueeze(1), 0.0) if starts[t] else h
        kept = dh * z[t]
        torch.mul(kept, h - n[t], out=at_z).addcmul_(at_z, z[t], value=-1)
        dn = torch.mul(dh - kept, 1 - n[t] * n[t], out=at_n)
        torch.mul(dn, inner[t], out=at_r).mul_(r[t]).addcmul_(at_r, r[t], value=-1)
        dw.addmm_(joint.T, x[t])
        db += joint.sum(0)
        if input_gradient:
            torch.mm(joint, w, out=dx[t])
        dn *= r[t]
        dv.addmm_(joint.T, h)
        dd[2 * width :] += dn.sum(0)
        if t:
            dh = kept.addmm_(joint, v)
            if starts[t]:
                dh.masked_fill_(reset[t].unsqueeze(1), 0.0)
            dh += gradient[t - 1]
    dd[: 2 * width] = db[: 2 * width]
    return dx, dw, dv, db, dd
