"""L3: untrained it is L1; masks hold for any weights; history is causal, free of padding, and can be extended."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from echelon.hrl_xf.layers.l3_situation import CONTEXT, Mode, Situation, context_of
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.layers.rules import HeuristicExecutor
from echelon.hrl_xf.networks.files import save_layer
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer, against_share, load_l3
from echelon.hrl_xf.networks.l3_inputs import L3Inputs
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from tests.hrl_xf.layers.examples import Played, played, tokens, wild
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, RANDOM

pytestmark = pytest.mark.numeric

LAYER = L1SafetyLayer()


@pytest.fixture(scope="module", params=[PENGUIN_FIRST, PENGUIN_MIDDLE, RANDOM], ids=["first", "middle", "random"])
def world(request: pytest.FixtureRequest) -> Played:
    path: Path = request.param
    return played(path, LAYER)


@pytest.fixture(scope="module")
def middle() -> Played:
    return played(PENGUIN_MIDDLE, LAYER)


def states(layer: TemporalDecisionTransformer, n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, layer.trunk.width, generator=torch.Generator().manual_seed(seed))


def rows(s: Situation, chosen: Any) -> Situation:
    return Situation(**{f.name: getattr(s, f.name)[chosen] for f in fields(s)})


def check_legal(world: Played, actions: L3Actions) -> None:
    """Nothing here is read from L3's own masks."""
    op, offer = actions.op, actions.offer
    out = world.out
    rejects = op == REJECT
    clipped = LAYER.clip(out, offer.astype(np.float64))
    assert clipped.legal[rejects].all()
    assert np.array_equal(clipped.offer[rejects], offer[rejects]), "clip must change nothing"
    low, high = out.issues[:, ::2], out.issues[:, 1::2]
    assert ((offer >= low) & (offer <= high))[rejects].all()
    accepts = np.flatnonzero(op == ACCEPT)
    assert world.on_table[accepts].all()
    q, ahead, p = world.offers[accepts].T
    assert (q <= out.safe[accepts, ahead]).all()
    assert (out.seller[accepts] | (q * p <= out.B_free[accepts])).all()
    assert (op[~out.open.any(axis=1)] == END).all()


def test_untrained_it_answers_as_L1_in_every_decision_of_a_recorded_world(world: Played) -> None:
    torch.manual_seed(5)
    layer = TemporalDecisionTransformer()
    actions = layer.act(states(layer, len(world.situation)), world.situation)
    assert np.array_equal(actions.op, world.l1.op)
    rejects = world.l1.op == REJECT
    assert np.array_equal(actions.offer[rejects], world.l1.counter.offer[rejects])
    assert len(set(world.l1.op.tolist())) >= 2  # the world asked for more than one kind of answer


@pytest.mark.parametrize("mode", ["residual", "direct"])
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_any_weights_play_legally_and_clip_changes_nothing(world: Played, mode: Mode, scale: float) -> None:
    layer = wild(TemporalDecisionTransformer(mode=mode), 7, scale)
    generator = np.random.default_rng(1)
    for greedy in (True, False):
        state = states(layer, len(world.situation))
        check_legal(world, layer.act(state, world.situation, generator=generator, greedy=greedy))


def test_the_heuristic_plays_legally_and_does_more_than_end(world: Played) -> None:
    actions = HeuristicExecutor().act(None, world.situation)
    check_legal(world, actions)
    assert (actions.op[world.out.open.any(axis=1)] == REJECT).any()


@pytest.mark.parametrize("mode", ["residual", "direct"])
def test_masked_actions_have_probability_zero_and_the_rest_sums_to_one(middle: Played, mode: Mode) -> None:
    s = middle.situation
    layer = wild(TemporalDecisionTransformer(mode=mode), 2)
    x = L3Inputs.of(s, mode)
    policy = layer.policy(states(layer, len(s)), x)
    parts = policy.sample(torch.Generator().manual_seed(3))
    assert torch.isfinite(policy.log_prob(parts)).all()
    n = len(s)
    one = {"op": torch.full((n,), REJECT), "day": parts["day"], "dq": parts["dq"]}
    for name, mask in (("op", x.legal.ops()), ("day", x.legal.day)):
        dist: Any = policy._given(name, one)
        probs = (dist.inner if name == "day" else dist).probs.detach()
        some = mask.any(-1)
        assert (probs[some][~mask[some]] == 0).all()
        torch.testing.assert_close(probs.sum(-1), torch.ones(n))
    accept = policy.log_prob(
        {"op": torch.full((n,), ACCEPT), **{k: torch.zeros(n).long() for k in ("day", "dq", "dp")}}
    )
    assert (accept[~torch.as_tensor(s.acceptable)] == -torch.inf).all()


def test_a_side_with_nothing_open_ends_without_nan(middle: Played) -> None:
    s = middle.situation
    closed = replace(
        s, open=np.zeros_like(s.open), legal_baseline=np.zeros_like(s.legal_baseline), l1_op=np.full(len(s), END)
    )
    for mode in ("residual", "direct"):
        layer = wild(TemporalDecisionTransformer(mode=mode), 4)
        x = L3Inputs.of(closed, mode)
        policy = layer.policy(states(layer, len(s)), x)
        parts = policy.sample(torch.Generator().manual_seed(0))
        assert (parts["op"] == END).all()
        assert (policy.log_prob(parts) == 0).all()
        loss = -policy.log_prob(parts).sum() - policy.entropy(parts).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        for name, parameter in layer.named_parameters():
            assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name


def test_the_log_probability_is_that_of_the_action_played(middle: Played) -> None:
    """Frequencies of draws against exp(log_prob) for one decision with choices."""
    choices = L3Inputs.of(middle.situation, "residual").legal
    row = int((choices.day.sum(-1) * choices.accept).argmax())
    s = rows(middle.situation, np.full(4000, row))
    layer = wild(TemporalDecisionTransformer(), 9, 0.15)
    actions = layer.act(states(layer, 1).expand(4000, -1), s, greedy=False, generator=np.random.default_rng(0))
    drawn, first, counts = np.unique(
        np.column_stack([actions.op, actions.offer]), axis=0, return_index=True, return_counts=True
    )
    expected = np.exp(actions.log_prob)[first]
    assert len(drawn) > 5
    often = counts > 100
    assert often.any()
    np.testing.assert_allclose(counts[often] / 4000, expected[often], atol=4 * np.sqrt(0.25 / 4000))


def test_an_answer_does_not_depend_on_the_other_threads(middle: Played) -> None:
    s, layer = middle.situation, wild(TemporalDecisionTransformer(), 3)
    state = states(layer, len(s))
    together = layer.act(state, s)
    order = np.random.default_rng(0).permutation(len(s))
    permuted = layer.act(state[order], rows(s, order))
    assert np.array_equal(permuted.op, together.op[order])
    assert np.array_equal(permuted.offer, together.offer[order])


def test_the_context_has_the_expected_values(middle: Played) -> None:
    s = middle.situation
    context = context_of(s)
    assert context.shape == (len(s), CONTEXT)
    assert np.isfinite(context).all()
    assert np.abs(context).max() <= 4
    for name in ("open_goal", "alpha", "relative_time", "others", "B_free"):
        changed = replace(s, **{name: getattr(s, name) + 1})
        assert (context_of(changed) != context).any(), name


def test_the_controls_see_only_what_they_may(middle: Played) -> None:
    s = middle.situation
    layer = wild(TemporalDecisionTransformer(view="last_token"), 5, 0.3)
    told = tokens(np.random.default_rng(0), 1, 3)
    args = (torch.ones(1, 3, dtype=torch.bool), torch.zeros(len(s)).long(), torch.full((len(s),), 3))
    assert (layer.states(told, *args) == 0).all()
    state = layer.states(told, *args)

    def ops(situation: Situation) -> torch.Tensor:
        part: Any = layer.policy(state, L3Inputs.of(situation, "residual")).parts["op"]
        found: torch.Tensor = part.log_probs
        return found

    other = replace(
        s,
        alpha=s.alpha * np.float32(0.5),
        goal=s.goal + 3,
        open_goal=s.open_goal + 1,
        relative_time=s.relative_time * np.float32(0.5),
    )
    assert torch.equal(ops(s), ops(other))
    assert torch.equal(quantities(layer, state, s), quantities(layer, state, replace(s, alpha=other.alpha)))
    louder = replace(s, seen=s.seen + np.array([1, 0, 0]) * s.on_table[:, None])
    assert not torch.equal(ops(s), ops(louder))


def quantities(layer: TemporalDecisionTransformer, state: torch.Tensor, s: Situation) -> torch.Tensor:
    """Log-probabilities of quantities on the baseline's day."""
    x = L3Inputs.of(s, layer.mode)
    part: Any = layer.policy(state, x).parts["dq"]
    gated: Any = part({"op": torch.full((len(s),), REJECT), "day": x.base[:, 2].clamp(min=0)})
    found: torch.Tensor = gated.inner.log_probs
    return found


def test_a_quantity_is_scored_by_its_ratio_to_the_threads_share() -> None:
    places = torch.arange(9.0)[None].expand(4, -1)  # the logit of a place is its number
    q = torch.tensor([[10, 5], [5, 10], [3, 40], [1, 1]])
    most, alpha = torch.tensor([[10], [10], [12], [0]]), torch.tensor([0.5, 0.25, 0.25, 0.1])
    found = against_share(q, most, alpha, places)
    wanted = [
        [6, 4],  # all of ten to one of two: twice its share; half of it: its share
        [6, 8],  # five of ten to one of four is the same habit; four times the share is the end of the scale
        [4, 8],
        [6, 6],  # where nothing may be traded the share counts as half a piece
    ]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float32))
    between = against_share(torch.tensor([[6]]), torch.tensor([[10]]), torch.tensor([0.5]), places[:1])
    assert between.item() == pytest.approx(4 + 2 * np.log2(6 / 5), rel=1e-5)


def test_shares_change_quantities_and_nothing_else(middle: Played) -> None:
    s = middle.situation
    layer = wild(TemporalDecisionTransformer(width=16, heads=2), 3, 0.3)
    state = states(layer, len(s))
    before = quantities(layer, state, s), layer.policy(state, L3Inputs.of(s, "residual")).parts["op"]
    with torch.no_grad():
        layer.q_head.weight[-9:] += 1.0
    after = quantities(layer, state, s), layer.policy(state, L3Inputs.of(s, "residual")).parts["op"]
    assert not torch.allclose(before[0], after[0])
    assert torch.equal(before[1].log_probs, after[1].log_probs)  # type: ignore[union-attr]
    assert torch.equal(before[0] == -torch.inf, after[0] == -torch.inf), "what is legal stays so"


def test_a_file_from_before_shares_is_a_layer_without_them(tmp_path: Path, middle: Played) -> None:
    layer = wild(TemporalDecisionTransformer(width=16, heads=2, shares=False), 1)
    del layer.options["shares"]
    again = load_l3(save_layer(layer, tmp_path / "l3_bc"))
    assert again.shares is False
    state = states(layer, len(middle.situation))
    assert np.array_equal(again.act(state, middle.situation).offer, layer.act(state, middle.situation).offer)


def test_a_file_rebuilds_it_in_its_mode(tmp_path: Path, middle: Played) -> None:
    layer = wild(TemporalDecisionTransformer(mode="direct", width=16, heads=2), 1)
    again = load_l3(save_layer(layer, tmp_path / "l3_bc.pt"))
    state = states(layer, len(middle.situation))
    assert again.mode == "direct"
    assert np.array_equal(again.act(state, middle.situation).offer, layer.act(state, middle.situation).offer)
