"""A layer that fails is replaced by the rules, and these by L1, in real worlds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from echelon.hrl_xf.agent import LitaAgentRules
from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.layers.rules import HeuristicCoordinator, HeuristicExecutor, HeuristicManager
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from tests.hrl_xf.conftest import contracts_of
from tests.hrl_xf.play.agent_cases import (
    L1_ALONE,
    actions,
    assert_sound,
    ours,
    play,
    signed_by_ours,
    variant,
)

L1_AGENT = variant(**L1_ALONE)


class Broken:
    """A layer whose answer is another one than it should be."""

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self.answer = answer

    def goals_of_days(self, days: Any) -> Any:
        return self.answer(len(days))

    def act(self, state: Any, situation: Any, *, generator: Any = None, greedy: bool = True) -> Any:
        return self.answer(len(situation))

    def alpha(self, thread_feat: Any, *_: Any) -> Any:
        return self.answer(thread_feat.shape[1])


def raising(_: int) -> Any:
    raise ZeroDivisionError("the layer is broken")


def no_numbers() -> TemporalDecisionTransformer:
    layer = TemporalDecisionTransformer()
    with torch.no_grad():
        layer.op.bias.fill_(float("nan"))
    return layer


NAN = float("nan")
BAD_LAYERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "goals that are not numbers": ("l2", lambda: Broken(lambda n: np.full((n, 16), NAN, np.float32))),
    "goals of another shape": ("l2", lambda: Broken(lambda n: np.zeros((n, 8), np.float32))),
    "an L2 that raises": ("l2", lambda: Broken(raising)),
    "logits that are not numbers": ("l3", no_numbers),
    "negative quantities": ("l3", lambda: Broken(lambda n: actions([1] * n, [[-3, 20, 1]] * n))),
    "half pieces": ("l3", lambda: Broken(lambda n: actions([1] * n, [[2.5, 20.0, 1.0]] * n))),
    "an answer that does not exist": ("l3", lambda: Broken(lambda n: actions([7] * n, [[1, 20, 1]] * n))),
    "too few answers": ("l3", lambda: Broken(lambda n: actions([1] * (n - 1), [[1, 20, 1]] * (n - 1)))),
    "no answers": ("l3", lambda: Broken(lambda n: None)),
    "an L3 that raises": ("l3", lambda: Broken(raising)),
    "alpha that is not a number": ("l4", lambda: Broken(lambda n: np.full((1, n), NAN))),
    "alpha of another shape": ("l4", lambda: Broken(lambda n: np.ones((1, n + 1)))),
    "an L4 that raises": ("l4", lambda: Broken(raising)),
}


@pytest.fixture(scope="module")
def rules_world() -> Any:
    return play([variant(LitaAgentRules), "PenguinAgent", "RandomStdAgent"], n_steps=5, levels=2)


@pytest.mark.parametrize("fault", BAD_LAYERS)
def test_a_layer_that_misbehaves_is_replaced_by_the_rules_for_the_day(
    fault: str, rules_world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails at the first question of each day, so the whole world is that of the rules."""
    which, make = BAD_LAYERS[fault]
    agent = variant(**{which: make()})
    with caplog.at_level(logging.WARNING, "echelon"):
        world = play([agent, "PenguinAgent", "RandomStdAgent"], n_steps=5, levels=2)
    assert_sound(world, fallbacks=True)
    assert contracts_of(world) == contracts_of(rules_world)
    assert signed_by_ours(world)
    assert [a.fallbacks for a in ours(world)] == [5] * len(ours(world)), "once per day, not once per call"
    said = [record for record in caplog.records if "a layer failed" in record.message]
    assert len(said) == len(ours(world)), "logged once by each agent"


class FailingLater(HeuristicExecutor):
    """The rules' answers, until it breaks down for good."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def act(self, *args: Any, **kwargs: Any) -> L3Actions:
        self.left -= 1
        if self.left < 0:
            raise ZeroDivisionError("worn out")
        return super().act(*args, **kwargs)


def test_a_layer_may_fail_in_the_middle_of_a_day(rules_world: Any) -> None:
    agent = variant(l2="heuristic", l3=FailingLater(3), l4="heuristic")
    world = play([agent, "PenguinAgent", "RandomStdAgent"], n_steps=5, levels=2)
    assert_sound(world, fallbacks=True)
    assert all(a.fallbacks for a in ours(world))
    assert contracts_of(world) == contracts_of(rules_world)


def test_should_the_rules_fail_too_l1_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    field = ["PenguinAgent", "RandomStdAgent"]
    l1_world = play([L1_AGENT, *field], n_steps=5, levels=2)
    broken = Layers(HeuristicManager(), Broken(raising), HeuristicCoordinator())
    monkeypatch.setattr("echelon.hrl_xf.agent.rule_layers", lambda: broken)
    world = play([variant(l3=Broken(raising)), *field], n_steps=5, levels=2)
    assert_sound(world, fallbacks=True)
    assert contracts_of(world) == contracts_of(l1_world)
