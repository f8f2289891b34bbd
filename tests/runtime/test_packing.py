"""Nested states survive as tensors and JSON."""

from __future__ import annotations

import copy
import json
import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from echelon.runtime.packing import pack, unpack
from tests.laws import examples

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from(["$dict", "$tensor", "$int"]), inner, max_size=3)
        | st.dictionaries(st.integers() | st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)


def around(tree: Any) -> Any:
    """Through copies and JSON text, as a checkpoint does it."""
    tensors, structure = pack(tree)
    copies = {name: copy.deepcopy(tensor) for name, tensor in tensors.items()}
    return unpack(copies, json.loads(json.dumps(structure, allow_nan=False)))


@given(TREES)
@examples(60)
def test_plain_values_come_back_with_their_types(tree: Any) -> None:
    back = around(tree)
    assert back == tree
    assert repr(back) == repr(tree)  # 1, 1.0 and True are equal, but not the same


def test_the_odd_floats() -> None:
    back = around([math.nan, math.inf, -math.inf, -0.0])
    assert math.isnan(back[0])
    assert back[1:3] == [math.inf, -math.inf]
    assert math.copysign(1, back[3]) == -1


def test_numpy_scalars_and_arrays() -> None:
    tree: dict[str, Any] = {
        "a": np.float32(0.1),
        "b": np.arange(3),
        "c": [np.bool_(True), np.int64(2**62)],
        "d": np.float64("nan"),
    }
    back = around(tree)
    assert (type(back["a"]), back["a"]) == (np.float32, np.float32(0.1))
    assert np.array_equal(back["b"], tree["b"])
    assert [type(v) for v in back["c"]] == [np.bool_, np.int64]
    assert np.isnan(back["d"])


def test_an_optimiser_goes_on_as_if_nothing_had_happened() -> None:
    def step(optimiser: torch.optim.Optimizer, weight: torch.Tensor) -> None:
        optimiser.zero_grad()
        (weight**2).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    weight = torch.nn.Parameter(torch.arange(4.0))
    optimiser = torch.optim.AdamW([weight], lr=0.1)
    step(optimiser, weight)
    other = torch.nn.Parameter(weight.detach().clone())
    resumed = torch.optim.AdamW([other], lr=0.5)
    resumed.load_state_dict(around(optimiser.state_dict()))
    for _ in range(3):
        step(optimiser, weight)
        step(resumed, other)
    assert torch.equal(weight, other)


def test_generators_go_on_as_if_nothing_had_happened() -> None:
    generator, torch_generator, own = np.random.default_rng(1), torch.Generator().manual_seed(1), random.Random(1)
    legacy = np.random.RandomState(1)
    own.gauss(0, 1)
    states = around(
        [generator.bit_generator.state, torch_generator.get_state(), own.getstate(), legacy.get_state(legacy=True)]
    )
    expected = (generator.random(), torch.rand(1, generator=torch_generator), own.gauss(0, 1), legacy.rand())
    again = np.random.default_rng(2)
    again.bit_generator.state = states[0]
    torch_again, own_again, legacy_again = torch.Generator(), random.Random(2), np.random.RandomState(2)
    torch_again.set_state(states[1])
    own_again.setstate(states[2])
    legacy_again.set_state(states[3])
    assert expected == (
        again.random(),
        torch.rand(1, generator=torch_again),
        own_again.gauss(0, 1),
        legacy_again.rand(),
    )


def test_what_cannot_be_packed_is_named() -> None:
    with pytest.raises(ValueError, match=r"root/0\.opt/1: a object cannot be packed"):
        pack({"opt": [1, object()]})
    with pytest.raises(ValueError, match=r"key 1\.5"):
        pack({1.5: 2})
    tensors, structure = pack([np.zeros(2)])
    with pytest.raises(ValueError, match="needs tensor 'root/0'"):
        unpack({}, structure)
    assert tensors
