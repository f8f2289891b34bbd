"""What each phase minimises, and what it reports: losses of batches with sums in natural units."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.hrl_xf.learning.advantages import Advantages, Outcomes
from echelon.hrl_xf.learning.sources import L2Rows, L3Batch, L3Source, L4Rows
from echelon.hrl_xf.learning.task import Sums
from echelon.hrl_xf.networks.files import Layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO, goal_loss
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator, distill_loss
from echelon.hrl_xf.options.train import QTransform
from echelon.onpolicy.distributions import Gated, MaskedCategorical, Product

Loss = Callable[[Layer, Any], tuple[Tensor, Sums]]


def _sum(values: Tensor, where: Tensor) -> tuple[float, float]:
    return float(values.detach().masked_fill(~where, 0.0).sum()), float(where.sum())


def l2_loss(q_transform: QTransform = "none", q_weight: float = 1.0) -> Loss:
    """Behaviour cloning of goals: `goal_loss`, and the mean errors in pieces and currency."""

    def loss(layer: Layer, b: L2Rows) -> tuple[Tensor, Sums]:
        assert isinstance(layer, HorizonManagerPPO)
        goal = layer(b.x_static, b.X_temporal, b.x_role, b.spot).goal
        found = goal_loss(goal, b.goal, b.mask, q_transform, q_weight)
        error = (goal - b.goal).abs() * b.mask
        sums = [x.view(-1, 8, 2).sum((0, 1)) for x in (error, b.mask)]  # of quantities, of prices
        figures = torch.cat([torch.stack([found.total, found.quantity, found.price]), *sums]).detach()
        total, quantity, price, error_q, error_p, n_q, n_p = figures.cpu().tolist()  # one wait for all of them
        n = n_q + n_p
        return found.total, {
            "loss": (total * n, n),
            "loss_q": (quantity * n, n),
            "loss_p": (price * n, n),
            "mae_q": (error_q, n_q),
            "mae_p": (error_p, n_p),
        }

    return loss


def _inner(policy: Product, name: str, stored: dict[str, Tensor]) -> MaskedCategorical:
    """The distribution of a part, given the expert's earlier parts."""
    part = policy.parts[name]
    found = part(stored) if callable(part) else part
    inner = found.inner if isinstance(found, Gated) else found
    assert isinstance(inner, MaskedCategorical)
    return inner


def l3_loss(layer: Layer, b: L3Batch) -> tuple[Tensor, Sums]:
    """CE(op) + [REJECT](CE days + CE Δq + CE Δp), weighted where the batch has weights.

    An answer that L1 forbids is not a target, nor is an offer that L3's heads cannot express.
    """
    assert isinstance(layer, TemporalDecisionTransformer)
    r = b.rows
    policy = layer(b.tokens, b.mask, r.thread, r.history, r.inputs)
    stored = {"op": r.op, "day": r.day, "dq": r.dq, "dp": r.dp}
    sums: Sums = {}
    each = torch.zeros(len(r.op), device=r.op.device)
    for name in ("op", "day", "dq", "dp"):
        where = r.op_counts if name == "op" else r.op_counts & r.offer_counts
        part = _inner(policy, name, stored)
        label = stored[name].masked_fill(~where, 0) if name != "op" else stored[name]
        nll = -part.log_prob(label).masked_fill(~where, 0.0)
        each = each + nll
        chosen = part.mode()
        sums[f"nll_{name}"] = _sum(nll, where)
        sums[f"acc_{name}"] = _sum((chosen == label).float(), where)
        if name != "op":
            sums[f"mae_{name}"] = _sum((chosen - label).abs().float(), where)
    counts = r.op_counts
    weight = torch.ones_like(each) if b.weight is None else b.weight.float()
    weight = weight.masked_fill(~counts, 0.0)
    if b.weight is not None:
        sums["weight"] = _sum(weight, counts)
    loss = (weight * each).sum() / counts.sum().clamp(min=1)
    return loss, {"loss": (float((weight * each).detach().sum()), float(counts.sum())), **sums}


def weigh(source: L3Source, outcomes: Outcomes, advantages: Advantages) -> None:
    """Give the decisions of a source their AWR weights."""
    source.weight = torch.as_tensor(advantages.weights(outcomes))


def weight_distribution(source: L3Source) -> dict[str, float]:
    """How AWR's weights are spread: quantiles, how many are clipped, and the effective share of samples."""
    assert source.weight is not None
    w = source.weight.numpy()
    quantiles = {f"weight_q{int(100 * q):02d}": float(np.quantile(w, q)) for q in (0.05, 0.25, 0.5, 0.75, 0.95)}
    effective = float(w.sum() ** 2 / max(float((w**2).sum()), 1e-12) / max(len(w), 1))
    return {
        "weight_mean": float(w.mean()),
        **quantiles,
        "weight_max": float(w.max(initial=-math.inf)),
        "weight_effective_share": effective,
    }


def l4_loss(layer: Layer, b: L4Rows) -> tuple[Tensor, Sums]:
    """Cross-entropy with the teacher; `excess` is the part above the teacher's own entropy."""
    assert isinstance(layer, GlobalCoordinator)
    logits = layer.logits(b.thread_feat, b.global_feat, b.days, b.role, b.mask)
    each = distill_loss(logits, b.alpha, b.mask)
    entropy = -(b.alpha * b.alpha.clamp(min=1e-12).log()).sum(-1)
    everyone = torch.ones_like(each, dtype=torch.bool)
    top = logits.detach().masked_fill(~b.mask, -math.inf).argmax(-1) == b.alpha.argmax(-1)
    return each.mean(), {
        "loss": _sum(each, everyone),
        "excess": _sum(each - entropy, everyone),
        "acc_first": _sum(top.float(), everyone),
    }
