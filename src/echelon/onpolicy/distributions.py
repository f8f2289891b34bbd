"""Distributions over actions: masked categorical, bounded continuous, and products of named parts.

All share one protocol. `sample` and `mode` return what is *stored* and later scored by `log_prob`; `action` turns that
into what the environment takes. They differ only for the bounded continuous distribution, which stores the sample
before it is squashed: scoring a stored action then needs no inverse of tanh, which has none at the bounds.

Sums run over the last axis of a continuous action; a categorical choice is one integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Parts = dict[str, Tensor]


class Distribution(Protocol):
    """A batch of distributions over one part of an action."""

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """One draw each, to be stored."""

    def mode(self) -> Tensor:
        """The greedy choice, in the form that is stored."""

    def log_prob(self, stored: Tensor) -> Tensor:
        """Log-probability (density) of the environment's action that `stored` represents."""

    def entropy(self) -> Tensor:
        """Entropy of the environment's action."""


class MaskedCategorical:
    """One of K choices, some of them forbidden.

    A forbidden choice has probability exactly 0 (log-probability -inf) and its logit no gradient. A row in which
    everything is forbidden has nothing to decide: by rule it chooses 0 with probability 1, so its log-probability and
    entropy are 0 and it gives no gradient. Padding therefore needs no special case.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:  # (..., K), (..., K) True where allowed
        if mask is not None:
            if mask.dtype != torch.bool:
                raise ValueError(f"mask has type {mask.dtype}; it must be bool, True where the choice is allowed")
            nothing = ~mask.any(-1, keepdim=True)
            only_first = torch.zeros_like(mask)
            only_first[..., 0] = True
            mask = mask | (nothing & only_first)
            logits = logits.masked_fill(~mask, -math.inf)
        self.mask = mask
        self.log_probs = functional.log_softmax(logits, -1)  # (..., K)

    @property
    def probs(self) -> Tensor:
        """Probabilities, (..., K)."""
        return self.log_probs.exp()

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """By the inverse of the cumulative distribution: one uniform number per row."""
        probs = self.probs.detach()
        source = probs.device if generator is None else generator.device  # one seed, one draw, on any device
        uniform = torch.rand(probs.shape[:-1], generator=generator, dtype=probs.dtype, device=source).to(probs.device)
        return invert(probs, uniform)

    def mode(self) -> Tensor:
        """The most probable choice."""
        return self.log_probs.argmax(-1)

    def log_prob(self, stored: Tensor) -> Tensor:
        """Log-probability of each stored choice, (...)."""
        return self.log_probs.gather(-1, stored.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """-sum p log p, where 0 log 0 is 0, (...)."""
        finite = self.log_probs if self.mask is None else self.log_probs.masked_fill(~self.mask, 0.0)
        return -(self.probs * finite).sum(-1)

    def action(self, stored: Tensor) -> Tensor:
        """The choice itself."""
        return stored


def invert(probs: Tensor, uniform: Tensor) -> Tensor:
    """The first choice whose cumulative probability exceeds `uniform` in [0, 1), (..., K) and (...) -> (...).

    A choice of probability 0 adds no height, so none can be the first to exceed: not even at 0 or just below 1.
    """
    cumulative = probs.cumsum(-1)
    return (cumulative <= uniform.unsqueeze(-1) * cumulative[..., -1:]).sum(-1)


def soft_bounded(raw: Tensor, low: float, high: float) -> Tensor:
    """`raw` inside (low, high), nearly unchanged in the middle; unlike a clamp it has a gradient everywhere."""
    middle, half = (low + high) / 2, (high - low) / 2
    return middle + half * torch.tanh((raw - middle) / half)


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def log_slope(u: Tensor) -> Tensor:
    """log(1 - tanh(u)^2), without the loss of digits at large u."""
    return 2 * (math.log(2) - u - functional.softplus(-2 * u))


def mean_log_slope(mean: Tensor, std: Tensor) -> Tensor:
    """E[log(1 - tanh(u)^2)] for u ~ Normal(mean, std), by quadrature."""
    u = mean.unsqueeze(-1) + std.unsqueeze(-1) * mean.new_tensor(_NODES)  # (..., 8)
    return log_slope(u) @ mean.new_tensor(_WEIGHTS)


class SquashedNormal:
    """A continuous action in [-1, 1]: tanh(u) with u ~ Normal(mean, std).

    `log_std` is bounded softly to (-5, 1). u is what is stored.

        log p(a) = log N(u; mean, std) - log(1 - tanh(u)^2)

    The entropy is that of the squashed action, not of u: H = H(u) + E[log(1 - tanh(u)^2)], by Gauss-Hermite
    quadrature with 8 nodes (error below .001 for std <= 1, below .08 at the widest). It is greatest near the uniform
    distribution, so an entropy bonus stops widening there; the entropy of u grows without end and would drive the
    noise to its clamp. This is also why a Beta distribution is not used: same bounded entropy, but sampling and
    gradients cost several times as much on a CPU.
    """

    LOG_STD = (-5.0, 1.0)

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:  # (..., D)
        self.mean = mean
        bounded = soft_bounded(log_std, *self.LOG_STD)
        self.log_std, self.std = bounded.expand_as(mean), bounded.exp().expand_as(mean)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """u, before squashing, (..., D)."""
        noise = torch.randn(self.mean.shape, generator=generator, dtype=self.mean.dtype, device=self.mean.device)
        return (self.mean + self.std * noise).detach()

    def mode(self) -> Tensor:
        """The mean of u: its image is the median of the action."""
        return self.mean.detach()

    def log_prob(self, stored: Tensor) -> Tensor:
        """Log-density of the squashed action, summed over its dimensions, (...)."""
        score = (stored - self.mean) / self.std
        normal = -0.5 * score * score - self.log_std - 0.5 * math.log(2 * math.pi)
        return (normal - log_slope(stored)).sum(-1)

    def entropy(self) -> Tensor:
        """Entropy of the squashed action, summed over its dimensions, (...)."""
        constant = 0.5 * math.log(2 * math.pi * math.e)
        slope = mean_log_slope(self.mean, self.std)
        return (self.log_std + slope).sum(-1) + constant * self.mean.shape[-1]

    def action(self, stored: Tensor) -> Tensor:
        """The squashed action."""
        return torch.tanh(stored)


@dataclass(frozen=True)
class Gated:
    """A part that matters only where `active`: elsewhere it is 0 with log-probability and entropy 0 and no gradient."""

    inner: Distribution
    active: Tensor  # (...) bool

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """The inner draw, or 0."""
        return self._zero(self.inner.sample(generator))

    def mode(self) -> Tensor:
        """The inner mode, or 0."""
        return self._zero(self.inner.mode())

    def log_prob(self, stored: Tensor) -> Tensor:
        """The inner log-probability, or 0."""
        return self.inner.log_prob(stored).masked_fill(~self.active, 0.0)

    def entropy(self) -> Tensor:
        """The inner entropy, or 0."""
        return self.inner.entropy().masked_fill(~self.active, 0.0)

    def _zero(self, stored: Tensor) -> Tensor:
        extra = stored.dim() - self.active.dim()
        return stored.masked_fill(~self.active.reshape(self.active.shape + (1,) * extra), 0)


Head = Callable[[Mapping[str, Tensor]], Distribution]
"""From the earlier parts, as stored, to the distribution of the next one."""


class Product:
    """A joint action of named parts: p(x_1) p(x_2 | x_1) ... in the order of the names.

    A part is a distribution (independent of the others) or a head: a function of the earlier parts. Log-probabilities
    are teacher-forced: each head sees the stored earlier parts.
    """

    def __init__(self, parts: Mapping[str, Distribution | Head]) -> None:
        if not parts:
            raise ValueError("a product needs at least one part")
        self.parts = dict(parts)

    def sample(self, generator: torch.Generator | None = None) -> Parts:
        """Draw the parts in order."""
        drawn: Parts = {}
        for name in self.parts:
            drawn[name] = self._given(name, drawn).sample(generator)
        return drawn

    def mode(self) -> Parts:
        """The greedy choice part by part (of a chain: greedy given the earlier ones, not the joint maximum)."""
        chosen: Parts = {}
        for name in self.parts:
            chosen[name] = self._given(name, chosen).mode()
        return chosen

    def log_prob_parts(self, stored: Mapping[str, Tensor]) -> Parts:
        """Log-probability of each part given the earlier ones."""
        return {name: self._given(name, stored).log_prob(stored[name]) for name in self.parts}

    def log_prob(self, stored: Mapping[str, Tensor]) -> Tensor:
        """Joint log-probability: the sum over parts, (...)."""
        return _total(list(self.log_prob_parts(stored).values()))

    def entropy_parts(self, stored: Mapping[str, Tensor] | None = None) -> Parts:
        """Entropy of each part; of a head, given the stored earlier parts (an unbiased estimate of its average)."""
        return {name: self._given(name, stored or {}).entropy() for name in self.parts}

    def entropy(self, stored: Mapping[str, Tensor] | None = None) -> Tensor:
        """Sum of the parts' entropies, (...); exact for independent parts, by the chain rule an estimate for heads."""
        return _total(list(self.entropy_parts(stored).values()))

    def _given(self, name: str, stored: Mapping[str, Tensor]) -> Distribution:
        part = self.parts[name]
        if not callable(part):
            return part
        names = list(self.parts)
        earlier = names[: names.index(name)]
        missing = [n for n in earlier if n not in stored]
        if missing:
            raise ValueError(f"part {name!r} depends on the earlier parts {missing}; give their stored values")
        return part({n: stored[n] for n in earlier})


def _total(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
