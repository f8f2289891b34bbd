"""L3's choices in numpy against its policy in torch, on the decisions of recorded worlds."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from echelon.hrl_xf.layers.l3_play import View
from echelon.hrl_xf.layers.l3_situation import Mode, Situation
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer, load_l3
from echelon.hrl_xf.networks.l3_inputs import L3Inputs
from echelon.hrl_xf.state.day_state import REJECT
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.weights import BUNDLED, CLONED, layer_in
from echelon.onpolicy.distributions import Product
from tests.hrl_xf.layers.examples import played, wild
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, RANDOM
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric


def decisions() -> Situation:
    """Thousands of decisions: those of recorded worlds, with what their logs do not tell made up several times."""
    rng, found = np.random.default_rng(0), []
    for path in (PENGUIN_FIRST, PENGUIN_MIDDLE, RANDOM) * 4:
        s = played(path, L1SafetyLayer()).situation
        n = len(s)
        low, high = s.issues[:, 4], s.issues[:, 5]
        own = np.stack([rng.integers(1, 20, n), rng.integers(low, high + 1), rng.integers(0, 6, n)], axis=-1)
        spoken = rng.random(n) < 0.6
        made_up = {
            "own": np.where(spoken[:, None], own, 0), "last_mine": spoken & (rng.random(n) < 0.5),
            "others": rng.integers(0, 9, (n, 3)), "asked": rng.integers(0, 9, n),
            "alpha": rng.random(n).astype(np.float32),
            "open_goal": (20 * rng.random((n, 4, 2))).astype(np.float32),
        }  # fmt: skip
        found.append({f.name: getattr(s, f.name) for f in fields(s)} | made_up)
    return Situation(**{name: np.concatenate([columns[name] for columns in found]) for name in found[0]})


DECISIONS = decisions()


def layer_of(name: str, mode: Mode = "residual", view: View = "all") -> TemporalDecisionTransformer:
    if name == "bundled":
        return load_l3(layer_in(BUNDLED, "l3"))
    if name == "habits":
        layer = load_l3(layer_in(CLONED, "l3")).with_habits()
        assert layer.habits is not None
        torch.nn.init.normal_(layer.habits, std=2.0, generator=torch.Generator().manual_seed(3))
        return layer
    return wild(TemporalDecisionTransformer(mode=mode, view=view, width=16, heads=2), 12, 0.1)


LAYERS = [("bundled", "residual", "all"), ("habits", "residual", "all"), ("wild", "residual", "all"),
          ("wild", "direct", "all"), ("wild", "residual", "last_token"), ("wild", "direct", "context")]  # fmt: skip


def states(layer: TemporalDecisionTransformer, n: int) -> torch.Tensor:
    return torch.randn(n, layer.trunk.width, generator=torch.Generator().manual_seed(2))


class TorchDraws:
    """A numpy generator's face over torch's random numbers, so that both ways can draw the same."""

    def __init__(self, seed: int) -> None:
        self.torch = torch.Generator().manual_seed(seed)

    def random(self, n: int, dtype: Any) -> Any:
        assert dtype is np.float32
        return torch.rand(n, generator=self.torch).numpy()


def parts_of(actions: L3Actions) -> dict[str, Tensor]:
    return {name: torch.as_tensor(choice) for name, choice in actions.parts.items()}


def policy_of(layer: TemporalDecisionTransformer, s: Situation) -> Product:
    with torch.inference_mode():
        return layer.policy(states(layer, len(s)), L3Inputs.of(s, layer.mode))


def same_probabilities(actions: L3Actions, policy: Product) -> None:
    """What was chosen is scored as `policy` scores it."""
    ops = policy.parts["op"].log_probs  # type: ignore[union-attr]
    assert actions.op_log_probs is not None
    assert_equal_but_for_rounding(actions.op_log_probs, ops)
    with torch.inference_mode():
        assert_equal_but_for_rounding(actions.log_prob, policy.log_prob(parts_of(actions)), ops)


def same_choices(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], policy: Product) -> None:
    """The same choices; where two of them are as probable as each other but for rounding, either."""
    with torch.inference_mode():
        ours, theirs = policy.log_prob(dict(found)), policy.log_prob(dict(wanted))
    differ = torch.stack([(found[part] != choice) for part, choice in wanted.items()]).any(0)
    assert differ.double().mean() <= 0.002, "ties are rare"
    assert_equal_but_for_rounding(ours[differ], theirs[differ], theirs)


@pytest.mark.parametrize(("name", "mode", "view"), LAYERS)
def test_the_greedy_choice_is_the_mode_of_the_policy(name: str, mode: Mode, view: View) -> None:
    layer, s = layer_of(name, mode, view), DECISIONS
    policy, actions = policy_of(layer, s), layer.act(states(layer, len(s)), s)
    with torch.inference_mode():
        wanted = policy.mode()
        same_choices(parts_of(actions), wanted, policy)
        assert np.array_equal(actions.offer, layer.offers(parts_of(actions), L3Inputs.of(s, mode)))
    same_probabilities(actions, policy)
    assert len(s) > 2000
    assert np.bincount(actions.op, minlength=3).min() > 20, "all kinds of answers"
    assert len(np.unique(actions.offer, axis=0)) > 20


@pytest.mark.parametrize(("name", "mode", "view"), LAYERS)
def test_a_seed_draws_what_the_policy_draws(name: str, mode: Mode, view: View) -> None:
    layer, s = layer_of(name, mode, view), DECISIONS
    policy = policy_of(layer, s)
    ours: Any = TorchDraws(5)
    theirs = torch.Generator().manual_seed(5)
    seen = []
    for _ in range(3):  # later draws are the same
        actions = layer.act(states(layer, len(s)), s, greedy=False, generator=ours)
        with torch.inference_mode():
            wanted = policy.sample(theirs)
        for part, choice in wanted.items():
            differs = (actions.parts[part] != choice.numpy()).mean()
            assert differs <= 0.002, f"{part}: rounding moves a boundary between two choices, and no more"
        same_probabilities(actions, policy)
        seen.append(actions.offer)
    assert not np.array_equal(seen[0], seen[1])


def test_draws_stay_in_step_where_no_thread_makes_an_offer() -> None:
    layer, s = layer_of("wild"), DECISIONS
    closed = replace(s, open=np.zeros_like(s.open))
    ours: Any = TorchDraws(5)
    theirs = torch.Generator().manual_seed(5)
    assert (layer.act(states(layer, len(s)), closed, greedy=False, generator=ours).op != REJECT).all()
    with torch.inference_mode():
        policy_of(layer, closed).sample(theirs)
    assert torch.equal(ours.torch.get_state(), theirs.get_state())


def test_what_is_learnt_moved_or_copied_shows_at_once() -> None:
    layer, s = layer_of("wild"), DECISIONS
    before = layer.act(states(layer, len(s)), s)
    twin = copy.deepcopy(layer)
    for changed in (twin, layer):
        with torch.no_grad():
            changed.op.bias[2] += 50.0
        assert (changed.act(states(layer, len(s)), s).op == 2).all()
        assert (before.op != 2).any()
        same_probabilities(changed.act(states(layer, len(s)), s), policy_of(changed, s))
    layer.load_state_dict({name: weight.double() for name, weight in layer_of("wild").state_dict().items()})
    same_choices(parts_of(layer.act(states(layer, len(s)), s)), parts_of(before), policy_of(layer, s))
    layer.load_state_dict(twin.state_dict(), assign=True)
    assert (layer.act(states(layer, len(s)), s).op == 2).all()


def test_one_thread_alone_is_answered_as_among_others() -> None:
    layer, s = layer_of("bundled"), DECISIONS
    state = states(layer, len(s))
    together = layer.act(state, s)
    for i in range(0, len(s), 17):
        this = Situation(*(getattr(s, f.name)[i : i + 1] for f in fields(s)))
        alone = layer.act(state[i : i + 1], this)
        with torch.inference_mode():
            policy = layer.policy(state[i : i + 1], L3Inputs.of(this, layer.mode))
            ours, theirs = (
                policy.log_prob({n: torch.as_tensor(a[-1:]) for n, a in parts.items()})
                for parts in (alone.parts, {n: a[i : i + 1] for n, a in together.parts.items()})
            )
        assert_equal_but_for_rounding(ours, theirs, policy.parts["op"].log_probs)  # type: ignore[union-attr]
