"""Options of PPO, apart from the code that uses them: a command line can read this file without torch or numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Discount = Literal["per_step", "per_decision"]


@dataclass(frozen=True)
class PPOOptions:
    """What one PPO learner does with one batch. Defaults are those of HMASD's paper and its base code."""

    gamma: float = 0.99
    """Discount of one environment step; a decision that lasts `span` steps is discounted by gamma ** span."""
    discount: Discount = "per_step"
    """`per_decision`: every decision is discounted by gamma once, however long it lasts."""
    gae_lambda: float = 0.95
    """Trace decay of one decision: 1 is Monte Carlo, 0 is one-step bootstrapping."""
    epochs: int = 15
    """Passes over the batch in one update."""
    minibatches: int = 1
    """Optimiser steps in one epoch; each takes a random share of the chunks."""
    accumulate: int = 1
    """Parts a mini-batch is evaluated in, to save memory; the gradient is that of the whole."""
    clip: float = 0.2
    """Bound of the ratio: no gain from leaving [1 - clip, 1 + clip]."""
    value_clip: float | None = 0.2
    """Bound of the value's change in one update, in units of the critic's output; None: not clipped."""
    value_coef: float = 1.0
    """Weight of the value loss."""
    entropy_coef: float = 0.01
    """Weight of the entropy bonus."""
    huber_delta: float | None = 10.0
    """Where the value loss turns from square to linear; None: square throughout."""
    max_grad_norm: float | None = 10.0
    """Gradients longer than this are shortened to it; None: left alone."""
    kl_stop: float | None = None
    """No further epoch once an epoch's mean approximate KL divergence exceeds this; None: all epochs."""
    normalize_advantage: bool = True
    """Advantages with mean 0 and deviation 1 over the acting units of the batch."""
    advantage_std_floor: float = 1e-5
    """The deviation that advantages are divided by is at least this; .1 keeps rounds without reward quiet."""
    normalize_value: bool = True
    """The critic predicts returns normalised by their running mean and deviation."""
    unit_reduction: Literal["mean", "sum"] = "mean"
    """How the units of a decision (agents, parts, threads) add up: `sum` over units or `mean` over acting units."""
    ratio_tolerance: float | None = 1e-3
    """Before the first step every ratio in it must be 1 within this, or the batch is refused; None: no check."""

    def __post_init__(self) -> None:
        """Raise for values that make an update meaningless."""
        for name in ("gamma", "gae_lambda"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name}={getattr(self, name)} must be in [0, 1]")
        for name in ("epochs", "minibatches", "accumulate"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("clip", "value_clip", "huber_delta", "max_grad_norm", "kl_stop", "ratio_tolerance"):
            value = getattr(self, name)
            if value is not None and value <= 0.0:
                cure = "use a positive number" if name == "clip" else "use a positive number, or None to turn it off"
                raise ValueError(f"{name}={value} must be positive; {cure}")
        for name in ("value_coef", "entropy_coef"):
            if getattr(self, name) < 0.0:
                raise ValueError(f"{name}={getattr(self, name)} must not be negative")
        if self.advantage_std_floor <= 0.0:
            raise ValueError(
                f"advantage_std_floor={self.advantage_std_floor} must be positive: advantages are divided by it"
            )
        if self.discount not in ("per_step", "per_decision"):
            raise ValueError(f"discount={self.discount!r} must be 'per_step' or 'per_decision'")
        if self.unit_reduction not in ("mean", "sum"):
            raise ValueError(f"unit_reduction={self.unit_reduction!r} must be 'mean' or 'sum'")
