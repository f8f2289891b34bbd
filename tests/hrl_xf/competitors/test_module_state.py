"""What a process played before does not change the next world."""

from __future__ import annotations

from echelon.hrl_xf.collect.plan import PlannedWorld, TournamentPlan, plan_worlds
from echelon.hrl_xf.collect.world import logs_of, play
from echelon.hrl_xf.state.schema import encode_log

PLAN = TournamentPlan(
    competitors=("LitaAgentYR", "PenguinAgent", "SyncRandomStdAgent"),
    configs=1,
    runs=1,
    n_competitors_per_world=3,
    max_worlds_per_config=None,
    round_robin=True,
    steps=12,
    seed=11,
)


def logs(world: PlannedWorld) -> list[bytes]:
    return [encode_log(log) for log in logs_of(play(world, PLAN.competitors), world)]


def test_a_world_plays_the_same_whatever_was_played_before() -> None:
    worlds, _ = plan_worlds(PLAN)
    first = logs(worlds[0])
    others = [logs(world) for world in worlds[1:]]
    assert logs(worlds[0]) == first
    assert [logs(world) for world in worlds[1:]] == others
