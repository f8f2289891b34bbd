"""The same world for everybody: a configuration is a pure function of (plan, index), whoever plays in the seats."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from echelon.hrl_xf.arena.plan import ArenaPlan, configuration, parse_field
from echelon.hrl_xf.arena.world import play, start
from echelon.hrl_xf.competitors.roster import FILL_UPS, FINALISTS
from echelon.hrl_xf.competitors.specs import SpecError, parse_agent

PLAN = ArenaPlan(parse_field("PenguinAgent,SyncRandomStdAgent,CautiousStdAgent"), "each-level", 6, 3)


class DrawsAsItIsMade(parse_agent("RandomStdAgent").load()):  # type: ignore[misc]
    """A competitor that disturbs the global generators before the world draws its costs."""

    def __init__(self, *args: Any, greed: float = 0.0, **kwargs: Any) -> None:
        np.random.rand(7)
        self.greed = greed
        super().__init__(*args, **kwargs)


def test_a_configuration_is_a_pure_function_of_plan_and_index() -> None:
    first, again, other = configuration(PLAN, 1), configuration(PLAN, 1), configuration(PLAN, 2)
    assert first.digest == again.digest
    assert first.digest != other.digest
    assert configuration(replace(PLAN, seed=4), 1).digest != first.digest
    assert configuration(replace(PLAN, field=parse_field("PenguinAgent")), 1).digest != first.digest


def test_seats_one_on_each_level_or_one_in_turn() -> None:
    for index in range(5):
        each = configuration(PLAN, index)
        assert sorted(each.levels[seat] for seat in each.focal) == list(range(each.n_levels))
        one = configuration(replace(PLAN, seats="one"), index)
        assert [one.levels[seat] for seat in one.focal] == [index % one.n_levels]
        two = configuration(replace(PLAN, seats="two-each-level"), index)
        assert sorted(two.levels[seat] for seat in set(two.focal)) == sorted(2 * list(range(two.n_levels)))
        assert [spec is None for spec in each.background] == [seat in each.focal for seat in range(len(each.levels))]


def test_a_field_without_a_finalist() -> None:
    left = {spec.label for spec in parse_field("league-HorizonAwareAgent-Rohn").agents}
    assert left == {spec.label for spec in parse_field("league").agents} - {"HorizonAwareAgent", "Rohn"}
    assert parse_field("league-Rohn").league
    assert not parse_field("champions-Rohn").league
    with pytest.raises(SpecError, match=r"GreedyStdAgent is not one of the finalists, which are .*Rohn"):
        parse_field("champions-GreedyStdAgent")


def test_all_of_the_field_plays_about_equally_often() -> None:
    made = configuration(replace(PLAN, seats="one"), 0)
    counts = Counter(spec.label for spec in made.background if spec is not None)
    assert max(counts.values()) - min(counts.values()) <= 2
    assert len(counts) == 3


def what_is_given(world: Any) -> dict[str, Any]:
    """All that must not depend on the competitor."""
    exogenous = [c for day in world.exogenous_contracts.values() for c in day]
    return {
        "ids": [a.id for a in world.non_system_agents],
        "exogenous": [(c.id, c.annotation["buyer"], c.annotation["seller"], c.agreement) for c in exogenous],
        "balances": {a.id: world.current_balance(a.id) for a in world.non_system_agents},
        "profiles": [str(world.agent_profiles[a.id]) for a in world.non_system_agents],
        "costs": [
            {aid: list(values) for aid, values in table.items()}
            for table in (world.agent_storage_cost, world.agent_disposal_cost, world.agent_shortfall_penalty)
        ],
        "catalog": list(world.catalog_prices),
    }


def test_only_the_focal_seats_differ_between_competitors() -> None:
    made = configuration(PLAN, 0)
    names = ("PenguinAgent", "RandomStdAgent", f"{__name__}:DrawsAsItIsMade")
    worlds = [start(made, parse_agent(name)) for name in names]
    given = [what_is_given(world) for world in worlds]
    assert given[0]["exogenous"], "there is something to compare"
    assert given[0] == given[1] == given[2]
    classes = [[type(a.adapted_object).__name__ for a in world.non_system_agents] for world in worlds]
    differ = [seat for seat, kinds in enumerate(zip(*classes, strict=True)) if len(set(kinds)) > 1]
    assert differ == sorted(made.focal)
    assert classes[0][made.focal[0]] == "TrackedPenguinAgent"


def test_arguments_reach_the_constructor_of_every_focal_seat_and_no_other() -> None:
    made = configuration(PLAN, 0)
    world = start(made, parse_agent(f"mine={__name__}:DrawsAsItIsMade:greed=0.5"))
    agents = [adapter.adapted_object for adapter in world.non_system_agents]
    assert [agents[seat].greed for seat in made.focal] == [0.5] * len(made.focal)
    assert not any("greed" in vars(agent) for seat, agent in enumerate(agents) if seat not in made.focal)


def test_costs_follow_the_profiles() -> None:
    world = start(configuration(replace(PLAN, steps=60), 0), parse_agent("RandomStdAgent"))
    for agent in world.non_system_agents:
        profile, drawn = world.agent_profiles[agent.id], world.agent_storage_cost[agent.id]
        assert len(drawn) == 60
        assert np.mean(drawn) == pytest.approx(profile.storage_cost_mean, abs=profile.storage_cost_dev + 1e-9)


def test_a_world_depends_on_nothing_that_was_played_before() -> None:
    def plain(name: str) -> Any:
        result = play(configuration(PLAN, 0), parse_agent(name))
        return result.scores, [(s.score, s.contracts, s.sent, s.beyond_l1_sent, s.balance) for s in result.seats]

    first = plain("PenguinAgent")
    plain("RandomStdAgent")
    assert plain("PenguinAgent") == first


def test_an_empty_field_is_refused() -> None:
    with pytest.raises(ValueError, match="--field is empty"):
        parse_field(" , ")


def test_a_league_world_holds_two_to_four_competitors_beside_scmls_default_agents() -> None:
    plan = replace(PLAN, field=parse_field("league"), seats="one", steps=None)
    made = [configuration(plan, index) for index in range(12)]
    rivals = [[s.label for s in c.background if s is not None and s.label not in FILL_UPS] for c in made]
    assert {len(names) for names in rivals} == {1, 2, 3}, "and the competitor itself"
    assert all(len(set(names)) == len(names) and set(names) <= set(FINALISTS) for names in rivals)
    assert {s.label for c in made for s in c.background if s is not None} >= set(FILL_UPS)
    assert all(min(Counter(c.levels).values()) >= 4 for c in made)
    assert len({c.params["n_steps"] for c in made}) > 6, "lengths are drawn"
    assert all(50 <= c.params["n_steps"] <= 200 for c in made)
    assert [c.levels[c.focal[0]] for c in made] == [c.index % c.n_levels for c in made]


def test_champions_are_finalists_in_all_seats() -> None:
    made = configuration(replace(PLAN, field=parse_field("champions"), seats="one"), 0)
    assert {s.label for s in made.background if s is not None} <= set(FINALISTS)
    assert len(FINALISTS) == 15
