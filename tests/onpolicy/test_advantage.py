"""Advantages: by hand, by law, and beside another library where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from echelon.onpolicy.advantage import batch_gae, gae
from tests.laws import examples
from tests.onpolicy.batches import random_batch

pytestmark = pytest.mark.numeric

Array = NDArray[Any]
seeds = st.integers(0, 2**32 - 1)
units = st.floats(0.0, 1.0)


def _column(*numbers: float) -> Array:
    return np.array(numbers, np.float64)[:, None]


def test_by_hand_with_spans_a_truncation_and_an_open_end() -> None:
    """gamma = lambda = .5. Worked out on paper:

    t=3 open end:   g = .5      delta = 8 + .5*4 - 6 = 4                     A = 4
    t=2 continues:  g = .5      delta = 1 + .5*6 - 2 = 2                     A = 2 + .5*.5*4 = 3
    t=1 truncated:  g = .25     delta = 3 + .25*8 - 1 = 4                    A = 4 (the trace stops)
    t=0 span 2:     g = .25     delta = 2 + .25*1 - 4 = -1.75                A = -1.75 + .25*.5*4 = -1.25
    """
    advantage, target = gae(
        reward=_column(2, 3, 1, 8),
        value=_column(4, 1, 2, 6),
        next_value=_column(1, 8, 6, 4),
        terminated=np.zeros((4, 1), bool),
        done=np.array([[False], [True], [False], [False]]),
        span=np.array([[2], [2], [1], [1]]),
        gamma=0.5,
        lam=0.5,
    )
    assert advantage[:, 0].tolist() == [-1.25, 4.0, 3.0, 4.0]
    assert target[:, 0].tolist() == [2.75, 5.0, 5.0, 10.0]


def test_by_hand_termination_does_not_bootstrap() -> None:
    """The same truncated row, terminated: delta = 3 - 1 = 2; the row before: -1.75 + .125*2 = -1.5."""
    ended = np.array([[False], [True]])
    advantage, _ = gae(
        _column(2, 3), _column(4, 1), _column(1, np.nan), ended, ended, np.array([[2], [2]]), gamma=0.5, lam=0.5
    )
    assert advantage[:, 0].tolist() == [-1.5, 2.0]


def _random(seed: int, shape: tuple[int, ...]) -> dict[str, Array]:
    """A round in which next_value is the value of the next decision wherever the chain continues."""
    rng = np.random.default_rng(seed)
    done = rng.random(shape[:2]) < 0.3
    value, next_value = rng.normal(size=shape), rng.normal(size=shape)
    next_value[:-1] = np.where(done[:-1, :, None], next_value[:-1], value[1:])
    return {
        "reward": rng.normal(size=shape),
        "value": value,
        "next_value": next_value,
        "terminated": done & (rng.random(shape[:2]) < 0.5),
        "done": done,
        "span": rng.integers(0, 6, shape[:2]),
    }


def _return(x: dict[str, Array], t: int, b: int, gamma: float) -> Array:
    """Discounted sum of rewards from slot t to the end of the chain, plus the bootstrap unless terminated."""
    total: Array = np.zeros(x["reward"].shape[2])
    discount = 1.0
    while True:
        total = total + discount * x["reward"][t, b]
        discount *= gamma ** int(x["span"][t, b])
        if x["terminated"][t, b]:
            return total
        if x["done"][t, b] or t == len(x["reward"]) - 1:
            total = total + discount * x["next_value"][t, b]
            return total
        t += 1


@examples(50)
@given(seeds, units)
def test_lambda_one_is_monte_carlo(seed: int, gamma: float) -> None:
    x = _random(seed, (7, 3, 2))
    _, target = gae(**x, gamma=gamma, lam=1.0)
    expected = [[_return(x, t, b, gamma) for b in range(3)] for t in range(7)]
    np.testing.assert_allclose(target, expected, atol=1e-9)


@examples(50)
@given(seeds, units)
def test_lambda_zero_is_the_one_step_error(seed: int, gamma: float) -> None:
    x = _random(seed, (5, 2, 2))
    _, target = gae(**x, gamma=gamma, lam=0.0)
    follow = np.where(x["terminated"], 0.0, gamma ** x["span"])[:, :, None] * x["next_value"]
    np.testing.assert_allclose(target, x["reward"] + follow, atol=1e-9)


@examples(50)
@given(seeds, units, st.integers(0, 6), st.booleans())
def test_a_cut_with_the_exact_next_value_is_invisible(seed: int, gamma: float, cut: int, truncated: bool) -> None:
    """With lambda = 1 and any critic: where the bootstrap is the true remaining return, targets before it stay."""
    x = _random(seed, (7, 3, 2))
    _, whole = gae(**x, gamma=gamma, lam=1.0)
    y = {name: array[: cut + 1].copy() for name, array in x.items()}
    goes_on = ~x["done"][cut]
    if cut < 6:
        y["next_value"][cut] = np.where(goes_on[:, None], whole[cut + 1], y["next_value"][cut])
    y["done"][cut] |= truncated
    _, part = gae(**y, gamma=gamma, lam=1.0)
    np.testing.assert_allclose(part, whole[: cut + 1], atol=1e-9)


@examples(50)
@given(seeds, units, units)
def test_an_exact_critic_has_no_advantage_whatever_lambda(seed: int, gamma: float, lam: float) -> None:
    x = _random(seed, (7, 3, 2))
    for t in range(6, -1, -1):
        x["value"][t] = [_return(x, t, b, gamma) for b in range(3)]
    x["next_value"][:-1] = np.where(x["done"][:-1, :, None], x["next_value"][:-1], x["value"][1:])
    advantage, _ = gae(**x, gamma=gamma, lam=lam)
    np.testing.assert_allclose(advantage, 0.0, atol=1e-9)


def _textbook(reward: Array, value: Array, last: float, done: Array, gamma: float, lam: float) -> Array:
    """Ordinary GAE of one column, in the usual form: terminations only, one step a decision."""
    out, running, following = np.zeros(len(reward)), 0.0, last
    for t in reversed(range(len(reward))):
        mask = 1.0 - done[t]
        running = reward[t] + gamma * following * mask - value[t] + gamma * lam * mask * running
        out[t], following = running, value[t]
    return out


@examples(50)
@given(seeds, units, units)
def test_span_one_is_ordinary_gae(seed: int, gamma: float, lam: float) -> None:
    x = _random(seed, (9, 2, 1))
    x["terminated"], x["span"] = x["done"], np.ones((9, 2), np.int64)
    advantage, _ = gae(**x, gamma=gamma, lam=lam)
    for b in range(2):
        reward, value, done = x["reward"][:, b, 0], x["value"][:, b, 0], x["done"][:, b].astype(float)
        expected = _textbook(reward, value, float(x["next_value"][-1, b, 0]), done, gamma, lam)
        np.testing.assert_allclose(advantage[:, b, 0], expected, atol=1e-9)


@examples(30)
@given(seeds)
def test_what_does_not_act_reaches_nobody(seed: int) -> None:
    """Garbage in dead units and padding changes no result elsewhere, and is 0 itself."""
    rng = np.random.default_rng(seed)
    valid = np.arange(6)[:, None] < rng.integers(1, 7, 4)[None]
    alive = rng.random((6, 4, 3)) < 0.7
    clean = random_batch(6, 4, 3, seed % 1000, valid=valid, alive=alive)
    garbage = {
        name: np.where(clean.acts, getattr(clean, name), np.float32(np.nan)).astype(np.float32)
        for name in ("reward", "value", "next_value")
    }
    flags = {"terminated": clean.terminated & clean.acts, "done": clean.done & clean.acts}
    dirty = random_batch(6, 4, 3, seed % 1000, valid=valid, alive=alive, **garbage, **flags)
    for a, b in zip(batch_gae(clean, 0.9, 0.8, 3.0, 2.0), batch_gae(dirty, 0.9, 0.8, 3.0, 2.0), strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a[~clean.acts] == 0.0).all()


def test_a_critic_in_normalised_units_gives_results_in_units_of_reward() -> None:
    """value 1 and next_value 2 mean 3 + 2*1 = 5 and 7: delta = 10 + .5*7 - 5 = 8.5."""
    one = np.ones((1, 1, 1))
    never = np.zeros((1, 1, 1), bool)
    batch = random_batch(
        1, 1, 1, reward=10 * one, value=one, next_value=2 * one, terminated=never, done=never, span=np.ones((1, 1))
    )
    advantage, target = batch_gae(batch, gamma=0.5, lam=0.9, mean=3.0, std=2.0)
    assert advantage.item() == 8.5
    assert target.item() == 13.5


def test_a_decision_of_any_length_can_be_discounted_once() -> None:
    """gamma = lambda = .5, spans 3 and 2. Each step: .125 and .25; each decision: .5 both.

    t=1: 4 + .25*8 - 2 = 4, or 4 + .5*8 - 2 = 6
    t=0: 1 + .125*2 - 1 + .125*.5*4 = .5, or 1 + .5*2 - 1 + .5*.5*6 = 2.5
    """
    never = np.zeros((2, 1, 1), bool)
    batch = random_batch(
        2, 1, 1, reward=_column(1, 4)[:, None], value=_column(1, 2)[:, None], next_value=_column(2, 8)[:, None],
        terminated=never, done=never, span=np.array([[3], [2]]),
    )  # fmt: skip
    assert batch_gae(batch, 0.5, 0.5)[0].ravel().tolist() == [0.5, 4.0]
    assert batch_gae(batch, 0.5, 0.5, discount="per_decision")[0].ravel().tolist() == [2.5, 6.0]


def test_wrong_input_is_refused() -> None:
    x = _random(0, (3, 2, 1))
    with pytest.raises(ValueError, match="must have one shape"):
        gae(**{**x, "value": x["value"][:2]}, gamma=0.9, lam=0.9)
    with pytest.raises(ValueError, match="terminated without done"):
        gae(**{**x, "terminated": ~x["done"]}, gamma=0.9, lam=0.9)
    with pytest.raises(ValueError, match="span"):
        gae(**{**x, "span": x["span"][:, :1]}, gamma=0.9, lam=0.9)
    with pytest.raises(ValueError, match=r"gamma=1\.5"):
        gae(**x, gamma=1.5, lam=0.9)


def test_equal_to_torchrl_where_it_is_installed() -> None:
    functional = pytest.importorskip("torchrl.objectives.value.functional")
    import torch

    x = _random(3, (8, 4, 1))
    x["span"] = np.ones((8, 4), np.int64)
    t = {name: torch.from_numpy(np.moveaxis(array, 0, 1).copy()) for name, array in x.items()}  # (B, T, ...)
    theirs, _ = functional.generalized_advantage_estimate(
        0.97,
        0.9,
        state_value=t["value"],
        next_state_value=t["next_value"],
        reward=t["reward"],
        done=t["done"].unsqueeze(-1),
        terminated=t["terminated"].unsqueeze(-1),
    )
    ours, _ = gae(**x, gamma=0.97, lam=0.9)
    np.testing.assert_allclose(ours, np.moveaxis(theirs.numpy(), 0, 1), atol=1e-6)
