"""The arena's command in this process: it grows, it refuses, and worlds that fail are recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from echelon.hrl_xf.arena.contest import contest_of, expected_seconds, missing_worlds, say_edited
from echelon.hrl_xf.arena.stale import find_stale, mixed_code, stale_lines
from echelon.hrl_xf.arena.world import FORMAT_VERSION
from echelon.hrl_xf.collect.folder import FolderError, exclusive
from echelon.hrl_xf.commands import replay
from echelon.hrl_xf.commands.compete import run
from echelon.hrl_xf.competitors.agent_code import PlayedBy, played_by
from echelon.hrl_xf.options.collect import ReplayOptions
from echelon.hrl_xf.options.compete import CompeteOptions
from echelon.runtime.rundir import OptionsDiffer
from tests.hrl_xf.arena.examples import result, seat

FIELD = "PenguinAgent,SyncRandomStdAgent"


def small(folder: Path) -> CompeteOptions:
    return CompeteOptions(
        agent=("PenguinAgent",), against="RandomStdAgent", worlds=1, steps=5, field=FIELD, seed=5, output_dir=folder,
        parallelism="serial", resamples=50, quiet=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arena") / "c"
    assert run(small(folder)) == 0
    return folder


def test_further_agents_and_worlds_may_be_added_and_what_was_played_stays(arena: Path) -> None:
    before = {f: f.stat().st_mtime_ns for f in (arena / "worlds").iterdir()}
    assert len(before) == 2
    assert run(replace(small(arena), agent=("again=PenguinAgent", "PenguinAgent"), worlds=2)) == 0
    assert len(list((arena / "worlds").iterdir())) == 6
    assert all(f.stat().st_mtime_ns == then for f, then in before.items())
    paired = json.loads((arena / "standings.json").read_text())["paired"]
    twins = [p for p in paired if (p["agent"], p["rival"]) == ("again", "PenguinAgent")]
    assert {tuple(p["difference"].values()) for p in twins} == {(0.0, 0.0, 0.0)}, "the same agent in the same seats"
    assert {p["win_rate"] for p in twins} == {0.5}


def test_a_label_stays_with_its_agent(arena: Path) -> None:
    with pytest.raises(FolderError, match=r"another 'RandomStdAgent' \(agent differ\).*a label of its own"):
        run(replace(small(arena), agent=("PenguinAgent", "RandomStdAgent=AS0"), against=""))
    with pytest.raises(FolderError, match="make one file name"):
        run(replace(small(arena), agent=("PenguinAgent", "RandomStdAgent?=AS0"), against=""))


def test_other_worlds_in_the_same_folder_are_refused(arena: Path) -> None:
    with pytest.raises(OptionsDiffer, match="steps: 5 → 6"):
        run(replace(small(arena), steps=6))
    with pytest.raises(OptionsDiffer, match="seats"):
        run(replace(small(arena), seats="each-level"))


def test_a_folder_that_is_not_an_arena_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FolderError, match="is not a folder of kind arena"):
        run(small(tmp_path))
    with exclusive(tmp_path / "busy", "arena"), pytest.raises(FolderError, match=r"another arena \(pid"):
        run(small(tmp_path / "busy"))
    with pytest.raises(FolderError, match="is a file"):
        run(small(tmp_path / "thesis.txt"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"agent": ("PenguinAgnt",)}, "did you mean PenguinAgent"),
        ({"agent": ("AS0",), "against": ""}, "cannot be compared"),
        ({"field": ""}, "--field is empty"),
        ({"parallelism": "locky"}, "loky"),
        ({"worlds": 0}, "--configs 0 must be at least 1"),
        ({"steps": 4}, "--steps 4 is too short"),
        ({"keep_logs": -1}, "--keep-logs -1 must not be negative"),
    ],
)
def test_what_cannot_work_is_refused_at_once(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        contest_of(replace(small(tmp_path), **changes))  # type: ignore[arg-type]


def test_an_agent_that_cannot_be_imported_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no class Nobody"):
        run(replace(small(tmp_path / "c"), agent=("scml.std.agents:Nobody",)))
    assert not (tmp_path / "c").exists()


def test_worlds_that_take_too_long_are_recorded_and_played_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = small(tmp_path)
    assert run(replace(options, world_timeout=0.05)) == 3
    failed = sorted((tmp_path / "failed").iterdir())
    assert [f.name for f in failed] == ["00000_PenguinAgent.json", "00000_RandomStdAgent.json"]
    record = json.loads(failed[1].read_text())
    assert record["status"] == "timeout"
    assert record["replay"] == f"echelon hrl replay {tmp_path} --world 0 --competitor RandomStdAgent"
    with caplog.at_level("INFO", "echelon"):
        assert replay.run(ReplayOptions(tmp_path, 0, "RandomStdAgent")) == 0
    assert "playing configuration 0 with RandomStdAgent, 5 days" in caplog.text
    assert run(options) == 0
    assert list((tmp_path / "failed").iterdir()) == []
    with pytest.raises(ValueError, match="knows PenguinAgent, RandomStdAgent"):
        replay.run(ReplayOptions(tmp_path, 0, "AS0"))


def test_the_estimate_of_time_learns_from_what_was_played(tmp_path: Path) -> None:
    """Known competitors take what they took; another one what all took on average; without results it is a guess."""
    contest = contest_of(replace(small(tmp_path), agent=("PenguinAgent", "AS0"), worlds=2))
    units = missing_worlds(contest, tmp_path)
    assert [unit.summary["competitor"] for unit in units] == ["PenguinAgent", "AS0", "RandomStdAgent"] * 2
    took = {"PenguinAgent": (10.0, 20.0), "RandomStdAgent": (3.0,)}
    done = [
        msgspec.structs.replace(result(name, i, seat(1.0)), seconds=seconds)
        for name, mine in took.items()
        for i, seconds in enumerate(mine)
    ]
    assert expected_seconds(contest, units, done) == pytest.approx(2 * (15 + 11 + 3))
    guess = expected_seconds(contest, units, [])
    assert guess == pytest.approx(6 * expected_seconds(contest, units[:1], []))
    assert guess > 0


def test_results_of_an_earlier_format_are_played_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = replace(small(tmp_path), quiet=False)
    assert run(options) == 0
    path = tmp_path / "worlds" / "00000_PenguinAgent.json"
    path.write_text(json.dumps({"format_version": 1, "breaches": 3}))
    with pytest.raises(FolderError, match="leave out --keep-old"):
        run(replace(options, keep_old=True))
    with caplog.at_level("INFO", "echelon"):
        assert run(options) == 0
    assert "PenguinAgent: 1 existing worlds were played by an earlier Echelon" in caplog.text
    assert "1 worlds to play (1 of 2 exist already)" in caplog.text
    assert json.loads(path.read_text())["format_version"] == FORMAT_VERSION


def test_other_versions_and_another_field_are_other_code(
    arena: Path,
) -> None:
    contest = contest_of(small(arena))
    now = played_by(contest.competitors, contest.plan.field.everybody)
    paths = contest.paths(arena)
    assert find_stale(paths, now) == []
    versions = now["PenguinAgent"].versions
    newer = {label: PlayedBy(code.competitor, code.field, versions | {"scml": "9.9"}) for label, code in now.items()}
    stale = find_stale(paths, newer)
    assert {one.why for one in stale} == {f"other versions: scml {versions['scml']} → 9.9"}
    other = {label: PlayedBy(code.competitor, "other", versions) for label, code in now.items()}
    lines = stale_lines(find_stale(paths, other), keep_old=False)
    assert len(lines) == 2
    assert "PenguinAgent: 1 existing worlds were played by other code of the field; they are played again" in lines[0]


def test_code_that_changes_during_a_run_is_reported(arena: Path, caplog: pytest.LogCaptureFixture) -> None:
    contest = contest_of(small(arena))
    now = played_by(contest.competitors, contest.plan.field.everybody)
    with caplog.at_level("WARNING", "echelon"):
        say_edited(replace(contest, code=now))
    assert caplog.text == ""
    edited = now | {"PenguinAgent": PlayedBy("other", now["PenguinAgent"].field, now["PenguinAgent"].versions)}
    with caplog.at_level("WARNING", "echelon"):
        say_edited(replace(contest, code=edited))
    assert "the code of PenguinAgent changed during this run; the same command plays those worlds again" in caplog.text


def test_results_of_several_states_of_the_code_are_named() -> None:
    first, second = PlayedBy("1", "f", {"scml": "1"}), PlayedBy("2", "f", {"scml": "1"})
    played = [("a", first), ("a", second), ("b", first)]
    results = [msgspec.structs.replace(result(name, i, seat(1.0)), code=by) for i, (name, by) in enumerate(played)]
    assert mixed_code(results) == ["a"]
    assert mixed_code(results[1:]) == []
    other = msgspec.structs.replace(results[2], code=PlayedBy("1", "g", {"scml": "2"}))
    assert mixed_code([*results[1:], other]) == ["the field", "versions"]
