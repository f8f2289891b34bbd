"""The three layers as policies of the engine: each scores what it drew in a round.

Every decision stands alone (chunks of one slot): what came before it is among what it saw. Values are not theirs: the
critic is a network of its own (`critic`), so `evaluate` returns the stored ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l3_inputs import L3Inputs, Legal
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator
from echelon.hrl_xf.online.exploring import LOG_STD, unbounded
from echelon.onpolicy.chunks import Chunks
from echelon.onpolicy.distributions import soft_bounded
from echelon.onpolicy.loss import Evaluation

LENGTHS = (2, 6, 14, 30)
"""Histories are padded to the next of these, or to the longest: most are short."""
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _normal(z: Tensor, mean: Tensor, log_std: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """Log-density and entropy of diagonal normals, summed over the last axis where `where`."""
    scaled = (z - mean) * (-log_std).exp()
    log_prob = -0.5 * scaled * scaled - log_std - _HALF_LOG_2PI
    entropy = log_std + 0.5 + _HALF_LOG_2PI
    zero = log_prob.new_zeros(())
    return torch.where(where, log_prob, zero).sum(-1), torch.where(where, entropy, zero).sum(-1)


class L2Policy(nn.Module):
    """Normal around the goal in its inner space; the deviation is the layer's own head."""

    def __init__(self, layer: HorizonManagerPPO, deviation: float | None = None) -> None:
        """`deviation` restarts the head: this everywhere, until it learns."""
        super().__init__()
        self.layer = layer
        for parameter in layer.value.parameters():
            parameter.requires_grad_(False)
        if deviation is not None:
            with torch.no_grad():
                layer.log_std.weight.zero_()
                layer.log_std.bias.fill_(unbounded(math.log(deviation)))

    def typical_deviation(self) -> float:
        """The deviation that the head's bias alone gives, mean over the 16 numbers."""
        return float(soft_bounded(self.layer.log_std.bias.detach(), *LOG_STD).exp().mean())

    def evaluate(self, chunks: Chunks) -> Evaluation:
        seen, mask = chunks.observation, chunks.mask["goal"][0]
        mean, raw = self.layer.inner(seen["x_static"][0], seen["X_temporal"][0], seen["x_role"][0])
        log_prob, entropy = _normal(chunks.action["z"][0], mean, soft_bounded(raw, *LOG_STD), mask)
        return Evaluation(log_prob[None, :, None], entropy[None, :, None], chunks.value)


class L4Policy(nn.Module):
    """Normal around the scores of the threads, jointly; one deviation for all."""

    def __init__(self, layer: GlobalCoordinator, deviation: float) -> None:
        super().__init__()
        self.layer = layer
        self.raw = nn.Parameter(torch.tensor(unbounded(math.log(deviation))))

    @property
    def log_std(self) -> Tensor:
        return soft_bounded(self.raw, *LOG_STD)

    def evaluate(self, chunks: Chunks) -> Evaluation:
        seen, mask = chunks.observation, chunks.mask["threads"][0]
        mean = self.layer.logits(seen["thread_feat"][0], seen["global_feat"][0], seen["days"][0], seen["role"][0], mask)
        log_prob, entropy = _normal(chunks.action["z"][0], mean, self.log_std.expand_as(mean), mask)
        return Evaluation(log_prob[None, :, None], entropy[None, :, None], chunks.value)


class L3Policy(nn.Module):
    """Op, day, Δq, Δp as trained offline."""

    def __init__(self, layer: TemporalDecisionTransformer) -> None:
        super().__init__()
        self.layer = layer
        if layer.view != "all":
            for parameter in layer.trunk.parameters():
                parameter.requires_grad_(False)

    def evaluate(self, chunks: Chunks) -> Evaluation:
        seen = {name: tensor[0] for name, tensor in chunks.observation.items()}
        legal = Legal(*(seen[f"legal_{name}"] for name in LEGAL))
        x = L3Inputs(**{name: seen[name] for name in INPUTS}, legal=legal)
        stored = {name: tensor[0] for name, tensor in chunks.action.items()}
        product = self.layer.policy(self._states(seen["tokens"], seen["heard"]), x)
        log_prob, entropy = product.log_prob(stored), product.entropy(stored)
        return Evaluation(log_prob[None, :, None], entropy[None, :, None], chunks.value)

    def _states(self, tokens: Tensor, heard: Tensor) -> Tensor:
        """The history's state before each decision, histories of like length together.  # (M, L, 4), (M,) -> (M, w)"""
        layer, longest = self.layer, tokens.shape[1]
        parts, rows = [], []
        shortest = -1
        for length in sorted({0, *(n for n in LENGTHS if n < longest), longest}):
            at = ((heard > shortest) & (heard <= length)).nonzero().squeeze(-1)
            shortest = length
            if not len(at):
                continue
            said = tokens[at, :length]
            mask = torch.arange(length) < heard[at, None]
            thread = torch.arange(len(at))
            if length == 0:  # nothing said yet: one state serves all
                begin = layer.states(said[:1], mask[:1], thread[:1], heard[at[:1]])
                parts.append(begin.expand(len(at), -1))
            else:
                parts.append(layer.states(said, mask, thread, heard[at]))
            rows.append(at)
        joined = torch.cat(parts)
        return joined.new_zeros(joined.shape).index_copy(0, torch.cat(rows), joined)


LayerPolicy = L2Policy | L3Policy | L4Policy

INPUTS = (
    "context", "l1_op", "base", "seen", "own", "need", "share", "price_range", "alpha", "kind", "time", "asked",
    "better",
)  # fmt: skip
"""Columns of `L3Inputs` except its masks."""
LEGAL = ("accept", "day", "least", "most", "first_q", "first_p", "low_p", "high_p", "money")
"""Columns of `Legal`, in their order."""
