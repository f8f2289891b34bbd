"""A plan is a pure function of its options, and assigns seats fairly."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from echelon.hrl_xf.collect.folder import FolderError
from echelon.hrl_xf.collect.plan import TournamentPlan, plan_fingerprint, plan_worlds
from echelon.hrl_xf.commands.collect import check_output_dir, collection_plan
from echelon.hrl_xf.options.collect import CollectOptions

SMALL = TournamentPlan(
    competitors=("PenguinAgent", "RandomStdAgent", "SyncRandomStdAgent"),
    configs=2,
    runs=2,
    n_competitors_per_world=3,
    max_worlds_per_config=None,
    round_robin=True,
    steps=5,
    seed=3,
)


def test_the_same_plan_gives_the_same_worlds() -> None:
    first, _ = plan_worlds(SMALL)
    again, _ = plan_worlds(SMALL)
    assert [w.summary() for w in first] == [w.summary() for w in again]
    assert plan_fingerprint(SMALL, first) == plan_fingerprint(SMALL, again)


def test_another_seed_gives_other_worlds() -> None:
    other = replace(SMALL, seed=4)
    ours, theirs = plan_worlds(SMALL)[0], plan_worlds(other)[0]
    assert plan_fingerprint(SMALL, ours) != plan_fingerprint(other, theirs)
    params = [w[0].config["world_params"]["__exact_params"]["profiles"] for w in (ours, theirs)]
    assert params[0] != params[1]


def test_names_and_seeds_are_unique_and_runs_share_their_configuration() -> None:
    worlds, params = plan_worlds(SMALL)
    assert len(worlds) == 2 * 2 * 3
    assert len({w.world_id for w in worlds}) == len({w.seed for w in worlds}) == len(worlds)
    assert Counter(w.config_id for w in worlds) == {"s3-c0000": 6, "s3-c0001": 6}
    assert all(w.n_steps == 5 for w in worlds)
    assert params["n_configs"] == 2


@pytest.mark.parametrize(("most", "rotations"), [(None, 1), (3, 1), (5, 1), (6, 2)])
def test_every_competitor_sits_in_every_seat_equally_often(most: int | None, rotations: int) -> None:
    plan = replace(SMALL, configs=1, runs=1, max_worlds_per_config=most)
    worlds, _ = plan_worlds(plan)
    assert len(worlds) == 3 * rotations
    taken: Counter[tuple[str, int]] = Counter()
    for world in worlds:
        seats = zip(world.agent_types, world.config["is_default"], strict=True)
        taken.update((agent, seat) for seat, (agent, fills_up) in enumerate(seats) if not fills_up)
    assert len(taken) == 9
    assert set(taken.values()) == {rotations}


def test_too_few_worlds_for_a_fair_assignment_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=r"Cannot guarantee fair assignment: 6 competitors.* is 3; use at least 6"):
        collection_plan(CollectOptions(n_competitors_per_world=6, max_worlds_per_config=3))


def test_more_competitors_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="between 1 and 12"):
        collection_plan(CollectOptions(n_competitors_per_world=13))


def test_worlds_too_short_for_their_chain_are_refused() -> None:
    with pytest.raises(ValueError, match=r"--steps 4 is too short.*at least 5"):
        CollectOptions(steps=4)
    shortest = collection_plan(CollectOptions(configs=8, max_top_2025=0, max_top_2024=1, steps=5))
    assert {w.config["world_params"]["n_processes"] for w in plan_worlds(shortest)[0]} == {2, 3, 4}


def test_target_worlds_needs_the_number_of_competitors() -> None:
    with pytest.raises(ValueError, match="--target-worlds 100 needs --n-competitors-per-world"):
        CollectOptions(target_worlds=100)


def test_target_worlds_becomes_whole_rotations() -> None:
    options = CollectOptions(
        configs=2, runs=1, max_top_2025=1, max_top_2024=1, n_competitors_per_world=4, target_worlds=17, steps=5
    )
    assert collection_plan(options).max_worlds_per_config == 8
    assert len(plan_worlds(collection_plan(options))[0]) == 16


def test_an_unknown_agent_is_refused_with_the_near_ones() -> None:
    with pytest.raises(ValueError, match="unknown agent 'PenguinAgnt'; did you mean PenguinAgent"):
        collection_plan(CollectOptions(track=("PenguinAgnt",)))


def test_tracking_an_agent_that_does_not_play_is_refused() -> None:
    with pytest.raises(FolderError, match="not in this field"):
        collection_plan(CollectOptions(max_top_2024=0, track_only_penguin=True))


def test_a_wrong_executor_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="loky"):
        collection_plan(CollectOptions(parallelism="locky"))


def test_a_folder_with_other_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FolderError, match=r"not empty.*--resumable"):
        check_output_dir(tmp_path, CollectOptions())
    with pytest.raises(FolderError, match="is not a folder of kind collection"):
        check_output_dir(tmp_path, CollectOptions(resumable=True))
