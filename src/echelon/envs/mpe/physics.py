"""How particles move in `mpe2`: what both of its worlds here share.

In each step of DT seconds a particle first goes where its velocity takes it, then the velocity is damped and the force
of the step is added. Of the five actions one does nothing and four push along an axis.
"""

from __future__ import annotations

import numpy as np

from echelon.runtime.arrays import Array

DT = 0.1
DAMPING = 0.25
PUSH = 5.0
CONTACT_FORCE, CONTACT_MARGIN = 100.0, 0.001

ACTION_NAMES = ("stay", "left", "right", "down", "up")
PUSHES = PUSH * np.array([[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
"""The force of each action."""


def move(position: Array, velocity: Array, force: Array) -> None:
    """One step of particles of mass 1, in place; all of one shape (..., 2)."""
    position += velocity * DT
    velocity *= 1.0 - DAMPING
    velocity += force * DT


def add_contact_forces(force: Array, position: Array, least_distance: float) -> None:
    """Push apart particles (B, n, 2) that are nearer than `least_distance`, softly within the margin.

    penetration = margin · log(1 + exp((least − distance) / margin)). Pairs are added in the order of `mpe2`, so that
    the sums round alike.
    """
    agents = position.shape[1]
    for a in range(agents):
        for b in range(a + 1, agents):
            apart = position[:, a] - position[:, b]  # (B, 2)
            distance = length(apart)[:, None]
            penetration = np.logaddexp(0.0, -(distance - least_distance) / CONTACT_MARGIN) * CONTACT_MARGIN
            pushed = CONTACT_FORCE * apart / distance * penetration
            force[:, a] += pushed
            force[:, b] -= pushed


def length(vector: Array) -> Array:
    """(..., 2) -> (...)"""
    squares = np.square(vector)
    root: Array = np.sqrt(squares[..., 0] + squares[..., 1])
    return root
