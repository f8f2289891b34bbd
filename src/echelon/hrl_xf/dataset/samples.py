"""What a sample is for L2, L3 and L4: one row for people, and many as arrays for training."""

from __future__ import annotations

from dataclasses import dataclass

from echelon.hrl_xf.dataset.tournament import Decisions, Threads
from echelon.hrl_xf.layers.play_arrays import Array
from echelon.runtime.arrays import Bools, Ints


@dataclass(frozen=True)
class MacroSample:
    """One dawn and the goal of its day (L2)."""

    day: int
    state_static: Array  # (12,)
    state_temporal: Array  # (H+1, 10)
    x_role: Array  # (2,)
    goal: Array  # (16,)


@dataclass(frozen=True)
class MicroSample:
    """One decision in one negotiation (L3); `residual` is against `legal_baseline`, the baseline as a legal offer."""

    negotiation_id: str
    history: Array  # (L, 4) quantity, price as ratio of the range, days ahead, 1 if mine
    baseline: Array  # (3,) quantity, days ahead, unit price
    residual: Array  # (2,) pieces, currency; zeros unless REJECT
    goal: Array  # (16,)
    time_label: int
    """days ahead of the offer sent; −1 unless REJECT"""
    time_mask: Bools  # (H+1,) days that L1 allows
    legal_baseline: Ints  # (3,) quantity, days ahead, unit price; quantity 0 where there is none
    op: int
    role: Array  # (2,) buyer, seller
    relative_time: float
    open_goal: Array  # (4, 2) bucket by bucket [buy, sell]


@dataclass(frozen=True)
class MacroBatch:
    """N days."""

    day: Ints  # (N,) current_step
    x_static: Array  # (N, 12)
    X_temporal: Array  # (N, H+1, 10)
    x_role: Array  # (N, 2)
    goal: Array  # (N, 16) v2 label
    goal_mask: Bools  # (N, 16) what of it means something
    spot: Array  # (N, 2) spot prices in and out


@dataclass(frozen=True)
class MicroBatch:
    """N decisions in B threads, with their goals. One causal pass over the threads' tokens serves all: decision i reads
    position history[i] − 1."""

    decisions: Decisions
    threads: Threads
    thread: Ints  # (N,) row of `threads`
    goal: Array  # (N, 16)
    open_goal: Array  # (N, 4, 2) pieces still open after the day's deals so far


@dataclass(frozen=True)
class L4DistillSample:
    """The threads of one call and how the teacher divides its attention (L4)."""

    thread_feat: Array  # (K, 24)
    global_feat: Array  # (30,)
    days: Ints  # (K,) d*
    role: Array  # (K, 2)
    alpha: Array  # (K,)


@dataclass(frozen=True)
class L4Batch:
    """S sets of up to K threads."""

    thread_feat: Array  # (S, K, 24)
    global_feat: Array  # (S, 30)
    days: Ints  # (S, K)
    role: Array  # (S, K, 2)
    mask: Bools  # (S, K) True where there is a thread
    alpha: Array  # (S, K) the teacher's; 0 where there is none
