"""Cutting a batch into chunks keeps every decision with its state, and leaves padding out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from echelon.onpolicy.chunks import to_chunks
from tests.onpolicy.batches import random_batch

pytestmark = pytest.mark.numeric


def test_chunks_by_hand() -> None:
    """Five slots of two columns in chunks of 2; slot t of column b holds 10 t + b."""
    marks = (10 * np.arange(5)[:, None] + np.arange(2))[:, :, None].astype(np.float32)  # (5, 2, 1)
    state = np.arange(6, dtype=np.float32).reshape(3, 2, 1)
    batch = random_batch(5, 2, 1, chunk=2, state={"h": state}, observation={"x": marks}, value=marks)
    chunks = to_chunks(batch, 2 * marks, 3 * marks)
    assert chunks.observation["x"][:, :, 0].tolist() == [[0, 1, 20, 21, 40, 41], [10, 11, 30, 31, 0, 0]]
    assert chunks.state["h"][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert chunks.acts[:, :, 0].tolist() == [[True] * 6, [True] * 4 + [False] * 2]
    assert chunks.advantage.dtype == torch.float32
    assert chunks.target[1, 2].item() == 90.0
    some = chunks.select(torch.tensor([3, 0]))
    assert some.observation["x"][:, :, 0].tolist() == [[21, 0], [31, 10]]
    assert some.state["h"][:, 0].tolist() == [3, 0]


def test_chunks_in_which_nobody_acts_are_left_out() -> None:
    valid = np.array([[True, True], [True, False], [True, False], [True, False]])
    batch = random_batch(4, 2, 1, valid=valid, chunk=2, state={"h": np.arange(4.0).reshape(2, 2, 1)})
    zeros = np.zeros((4, 2, 1))
    assert to_chunks(batch, zeros, zeros).state["h"][:, 0].tolist() == [0.0, 1.0, 2.0]
    flat = random_batch(4, 2, 1, valid=valid)
    chunks = to_chunks(flat, zeros, zeros)
    assert len(chunks) == 5
    torch.testing.assert_close(chunks.log_prob.flatten(), torch.from_numpy(flat.log_prob[valid].flatten()))


def test_a_chunk_longer_than_the_round_is_the_round() -> None:
    batch = random_batch(3, 2, 1, chunk=10, state={"h": np.zeros((1, 2, 4), np.float32)})
    chunks = to_chunks(batch, np.zeros((3, 2, 1)), np.zeros((3, 2, 1)))
    assert chunks.reset.shape == (3, 2)
