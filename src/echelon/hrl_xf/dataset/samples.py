"""What a sample is for L2, L3 and L4: one row for people, and many as arrays for training."""

from __future__ import annotations

from dataclasses import dataclass

from echelon.hrl_xf.dataset.tournament import Decisions, Threads
from echelon.runtime.arrays import Bools, Float32, Ints


@dataclass(frozen=True)
class MacroSample:
    """One dawn and the goal of its day (L2)."""

    day: int
    state_static: Float32  # (12,)
    state_temporal: Float32  # (H+1, 10)
    x_role: Float32  # (2,)
    goal: Float32  # (16,)


@dataclass(frozen=True)
class MicroSample:
    """One decision in one negotiation (L3); `residual` is against `legal_baseline`, the baseline as a legal offer."""

    negotiation_id: str
    history: Float32  # (L, 4) quantity, price as ratio of the range, days ahead, 1 if mine
    baseline: Float32  # (3,) quantity, days ahead, unit price
    residual: Float32  # (2,) pieces, currency; zeros unless REJECT
    goal: Float32  # (16,)
    time_label: int
    """days ahead of the offer sent; −1 unless REJECT"""
    time_mask: Bools  # (H+1,) days that L1 allows
    legal_baseline: Ints  # (3,) quantity, days ahead, unit price; quantity 0 where there is none
    op: int
    role: Float32  # (2,) buyer, seller
    relative_time: float
    open_goal: Float32  # (4, 2) bucket by bucket [buy, sell]


@dataclass(frozen=True)
class MacroBatch:
    """N days."""

    day: Ints  # (N,) current_step
    x_static: Float32  # (N, 12)
    X_temporal: Float32  # (N, H+1, 10)
    x_role: Float32  # (N, 2)
    goal: Float32  # (N, 16) v2 label
    goal_mask: Bools  # (N, 16) what of it means something
    spot: Float32  # (N, 2) spot prices in and out


@dataclass(frozen=True)
class MicroBatch:
    """N decisions in B threads, with their goals. One causal pass over the threads' tokens serves all: decision i reads
    position history[i] − 1."""

    decisions: Decisions
    threads: Threads
    thread: Ints  # (N,) row of `threads`
    goal: Float32  # (N, 16)
    open_goal: Float32  # (N, 4, 2) pieces still open after the day's deals so far


@dataclass(frozen=True)
class L4DistillSample:
    """The threads of one call and how the teacher divides its attention (L4)."""

    thread_feat: Float32  # (K, 24)
    global_feat: Float32  # (30,)
    days: Ints  # (K,) d*
    role: Float32  # (K, 2)
    alpha: Float32  # (K,)


@dataclass(frozen=True)
class L4Batch:
    """S sets of up to K threads."""

    thread_feat: Float32  # (S, K, 24)
    global_feat: Float32  # (S, 30)
    days: Ints  # (S, K)
    role: Float32  # (S, K, 2)
    mask: Bools  # (S, K) True where there is a thread
    alpha: Float32  # (S, K) the teacher's; 0 where there is none
