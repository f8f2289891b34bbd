"""Layer after layer: each ablation is the agent it says it is, and can play."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.arena.contest import check_agent, contest_of
from echelon.hrl_xf.arena.plan import ArenaPlan, configuration, parse_field
from echelon.hrl_xf.arena.world import play
from echelon.hrl_xf.competitors.ablations import JUDGED, ablations
from echelon.hrl_xf.competitors.specs import AgentSpec, SpecError, parse_agent
from echelon.hrl_xf.networks.files import save_layer
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.options.compete import CompeteOptions
from echelon.hrl_xf.play.choice import layer_name

LADDER = ["L1", "rules", "L1+L2", "L1+L2+L3", "all"]
PENGUINS = ["PenguinAgent", "shielded(PenguinAgent)"]


@pytest.fixture
def direct(tmp_path: Path) -> Path:
    return save_layer(TemporalDecisionTransformer(mode="direct", hidden=16, width=8), tmp_path / "l3_direct")


def layers(spec: AgentSpec) -> list[str]:
    made = LitaAgentHRL(**spec.params).layers
    return [layer_name(layer) for layer in (made.l2, made.l3, made.l4)]


def test_each_step_of_the_ladder_has_the_layers_it_names(direct: Path) -> None:
    made = {spec.label: spec for spec in ablations([], direct)}
    assert list(made) == [*LADDER, "scheme F", *PENGUINS]
    assert {label: layers(made[label]) for label in (*LADDER, "scheme F")} == {
        "L1": ["HeuristicManager", "BaselineExecutor", "HeuristicCoordinator"],
        "rules": ["HeuristicManager", "HeuristicExecutor", "HeuristicCoordinator"],
        "L1+L2": ["HorizonManagerPPO", "HeuristicExecutor", "HeuristicCoordinator"],
        "L1+L2+L3": ["HorizonManagerPPO", "TemporalDecisionTransformer", "HeuristicCoordinator"],
        "all": ["HorizonManagerPPO", "TemporalDecisionTransformer", "GlobalCoordinator"],
        "scheme F": ["HorizonManagerPPO", "TemporalDecisionTransformer", "GlobalCoordinator"],
    }
    modes = {label: LitaAgentHRL(**made[label].params).layers.l3.mode for label in ("all", "scheme F")}  # type: ignore[attr-defined]
    assert modes == {"all": "residual", "scheme F": "direct"}
    assert [made[label].shielded for label in PENGUINS] == [False, True]


def test_an_agent_that_is_given_is_the_one_taken_apart() -> None:
    given = [parse_agent("mine=LitaAgentHRL:l2_model_path=/a,l3_model_path=/b,l4=/c,seed=7"), parse_agent("AS0")]
    made = {spec.label: dict(spec.params) for spec in ablations(given, None)}
    assert list(made) == [*LADDER, *PENGUINS, "AS0"]
    assert made["all"] == {"l2_model_path": "/a", "l3_model_path": "/b", "l4": "/c", "seed": 7}
    assert made["L1+L2+L3"] == made["all"] | {"l4": "heuristic"}
    assert made["L1+L2"] == {"l2_model_path": "/a", "l3": "heuristic", "l4": "heuristic", "seed": 7}
    assert made["L1"] == {"l2": "heuristic", "l3": "l1", "l4": "heuristic", "seed": 7}
    with pytest.raises(SpecError, match=r"takes one LitaAgentHRL apart, not 2 \(a, b\)"):
        ablations([parse_agent("a=LitaAgentHRL"), parse_agent("b=LitaAgentHRL:l4=heuristic")], None)


def test_the_command_judges_the_steps_and_invites_nobody_else_unasked() -> None:
    contest = contest_of(CompeteOptions(ablations=True))
    assert [spec.label for spec in contest.competitors] == [*LADDER, *PENGUINS]
    assert sorted(contest.agents) == sorted(JUDGED)
    more = contest_of(CompeteOptions(ablations=True, agent=("AS0",), against="top-2024:2"))
    assert [spec.label for spec in more.competitors] == [*LADDER, *PENGUINS, "AS0", "CautiousStdAgent"]
    assert set(more.agents) == {*JUDGED, "AS0"}
    assert len(contest_of(CompeteOptions()).competitors) == 6, "LitaAgentHRL and five champions"


def test_a_layer_that_is_not_of_scheme_f_is_refused(tmp_path: Path) -> None:
    residual = save_layer(TemporalDecisionTransformer(hidden=16, width=8), tmp_path / "l3_bc")
    with pytest.raises(SpecError, match="mode 'residual'; scheme F needs one of `echelon hrl train --l3-mode direct`"):
        ablations([], residual)
    with pytest.raises(ValueError, match="add --ablations"):
        CompeteOptions(direct_l3=residual)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("LitaAgentHRL:l5=x", "unexpected keyword argument 'l5'"),
        ("x=LitaAgentHRL:l3_model_path=/no/where", "x: /no/where.safetensors does not exist"),
        ("LitaAgentHRL:mode=bold", "greedy or sample"),
    ],
)
def test_layers_that_cannot_be_made_are_refused_before_anything_is_played(text: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        check_agent(parse_agent(text))


def test_all_of_them_play(direct: Path) -> None:
    plan = ArenaPlan(parse_field("PenguinAgent,SyncRandomStdAgent"), "one", 20, 2)
    middle = (c for c in (configuration(plan, i) for i in range(99)) if 0 < c.levels[c.focal[0]] < c.n_levels - 1)
    made = next(middle)  # a seat that buys and sells, in a world long enough for the rules to think it worth it
    seen = {}
    for spec in ablations([], direct)[:6]:
        result = play(made, spec)
        assert sum(seat.sent for seat in result.seats) > 0
        for seat in result.seats:
            assert (seat.exceptions, seat.negotiator_exceptions, seat.recorder_failures, seat.fallbacks) == (0,) * 4
            assert (seat.beyond_l1_sent, seat.beyond_l1_signed) == (0, 0)
        seen[spec.label] = (result.seats[0].sent, *result.scores)
    told = {label: seen[label] for label in ("L1", "rules", "scheme F")}  # the learnt ones may well play like the rules
    assert len(set(told.values())) == len(told), "another L3 plays otherwise"
