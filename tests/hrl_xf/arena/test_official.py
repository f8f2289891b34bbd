"""The league's format: who sits where, whose score it is, and the table."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scml.std.agents import SyncRandomStdAgent

from echelon.hrl_xf.arena.official import official_plan, plan_options
from echelon.hrl_xf.collect.folder import FolderError
from echelon.hrl_xf.collect.plan import plan_fingerprint, plan_worlds
from echelon.hrl_xf.collect.world import play, result_of
from echelon.hrl_xf.commands import replay
from echelon.hrl_xf.commands.compete import run
from echelon.hrl_xf.competitors.specs import SpecError, parse_agent
from echelon.hrl_xf.options.collect import CollectOptions, ReplayOptions
from echelon.hrl_xf.options.compete import CompeteOptions
from echelon.runtime.rundir import OptionsDiffer


class Trader(SyncRandomStdAgent):  # type: ignore[misc]
    """Random, and remembers how it was made."""

    def __init__(self, *args: Any, greed: float = 0.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.greed = greed


TWINS = (f"mild={__name__}:Trader:greed=0.1", f"v1.5={__name__}:Trader:greed=0.9", "shielded(RandomStdAgent)")


def small(folder: Path, *agents: str) -> CompeteOptions:
    return CompeteOptions(
        official=True, agent=agents, against="", worlds=1, steps=5, seed=3, output_dir=folder, parallelism="serial",
        resamples=50, quiet=True,
    )  # fmt: skip


def test_arguments_and_shields_reach_the_seats_and_scores_go_by_label() -> None:
    """Two of one class: scml would give each the sum of both."""
    options = small(Path("unused"), *TWINS)
    worlds, _ = plan_worlds(official_plan(plan_options(options, [parse_agent(text) for text in TWINS])))
    assert len(worlds) == 3, "one group, three rotations"
    seats: Counter[tuple[str, int]] = Counter()
    for planned in worlds:
        seats.update((label, factory) for factory, label in enumerate(planned.labels) if label)
    labels = {"mild", "v1.5", "shielded(RandomStdAgent)"}
    assert {label for label, _ in seats} == labels
    assert set(seats.values()) == {1}, "each in each of the three seats once"
    assert len({factory for _, factory in seats}) == 3
    for planned in worlds:
        levels = Counter(planned.config["world_params"]["agent_processes"])
        assert min(levels.values()) >= 4, "as anac2024_std asks; the generator alone would be content with 2"
    world = play(worlds[0], ())
    who = dict(zip(worlds[0].labels, world.non_system_agents, strict=True))
    assert {label: who[label].adapted_object.greed for label in ("mild", "v1.5")} == {"mild": 0.1, "v1.5": 0.9}
    assert type(who["shielded(RandomStdAgent)"].adapted_object).__name__ == "ShieldedRandomStdAgent"
    rows = result_of(world, worlds[0], [], 0, 0, 0.0).scores
    assert {row["agent_type"]: row["score"] for row in rows} == {
        label: world.scores()[who[label].id] for label in labels
    }


@pytest.fixture(scope="module")
def tournament(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("official") / "o"
    assert run(small(folder, "PenguinAgent", "noise=RandomStdAgent")) == 0
    return folder


def test_the_table_is_negmas_own(tournament: Path) -> None:
    table = json.loads((tournament / "official.json").read_text())
    assert table["worlds"] == 2
    ours = {line["competitor"]: line["truncated_mean"] for line in table["competitors"]}
    theirs = {r["agent_type"]: float(r["score"]) for r in csv.DictReader((tournament / "total_scores.csv").open())}
    assert ours == pytest.approx(theirs)
    assert set(ours) == {"PenguinAgent", "noise"}
    assert list(ours.values()) == sorted(ours.values(), reverse=True)
    assert not (tournament / "tracker_logs").exists()
    worlds = json.loads((tournament / "worlds.json").read_text())["worlds"]
    assert all({"PenguinAgent", "noise"} <= set(world["agents"]) for world in worlds)


def test_it_resumes_its_own_folder_and_refuses_another(tournament: Path) -> None:
    options = small(tournament, "PenguinAgent", "noise=RandomStdAgent")
    lost, kept = tournament / "worlds" / "00001.json", tournament / "worlds" / "00000.json"
    before, then = json.loads(lost.read_text()), kept.stat().st_mtime_ns
    lost.unlink()
    assert run(options) == 0
    assert json.loads(lost.read_text())["scores"] == before["scores"]
    assert kept.stat().st_mtime_ns == then
    with pytest.raises(OptionsDiffer, match="competitors"):
        run(replace(options, agent=("PenguinAgent", "AS0")))
    with pytest.raises(OptionsDiffer, match="worlds"):
        run(replace(options, worlds=2))
    with pytest.raises(FolderError, match=r"is not a folder of kind arena .*official"):
        run(replace(options, official=False))


def test_a_world_can_be_replayed(tournament: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "echelon"):
        assert replay.run(ReplayOptions(tournament, 1)) == 0
    scores = json.loads((tournament / "worlds" / "00001.json").read_text())["scores"]
    assert all(f"{row['score']:.3f}" in caplog.text for row in scores)


def test_the_same_agent_twice_is_refused() -> None:
    twice = [parse_agent(text) for text in ("PenguinAgent", "again=PenguinAgent")]
    with pytest.raises(SpecError, match="'PenguinAgent' and 'again' are the same agent twice"):
        plan_options(small(Path("unused")), twice)


def test_labels_are_not_part_of_a_collections_fingerprint() -> None:
    """A collection of this Echelon can still be resumed by one that adds to what a plan may say."""
    from echelon.hrl_xf.commands.collect import collection_plan

    plan = collection_plan(CollectOptions(configs=1, runs=1, max_top_2025=0, max_top_2024=0, steps=5))
    assert plan_fingerprint(plan, []) == "5970658cd0a2dde5cb82c07ad3ff010a26d63ee4b5de330ce37782a6be16fd2e"
    assert plan_fingerprint(replace(plan, labels=("a", "b")), []) != plan_fingerprint(plan, [])
