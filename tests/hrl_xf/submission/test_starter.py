"""A new agent plays at once, its own method matters, and it is exported with what is its own."""

from __future__ import annotations

import io
import sys
import unittest
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.hrl_xf.commands import export, new_agent, play
from echelon.hrl_xf.competitors.specs import parse_agent
from echelon.hrl_xf.layers.l3_history import HistoryCache
from echelon.hrl_xf.layers.l3_situation import Situation
from echelon.hrl_xf.layers.protocols import L3Actions
from echelon.hrl_xf.options.export import ExportOptions
from echelon.hrl_xf.options.new_agent import NewAgentOptions, Own
from echelon.hrl_xf.options.play import PlayOptions
from echelon.hrl_xf.state.day_batch import DayBatch, day_batch
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.submission.package import entry_of
from echelon.hrl_xf.submission.starter import next_commands
from echelon.hrl_xf.submission.starters.own_l2 import OwnGoals
from echelon.hrl_xf.submission.starters.own_l3 import MyAgent as OwnL3
from echelon.hrl_xf.submission.starters.own_l3 import OwnAnswers
from echelon.hrl_xf.weights import BUNDLED, layer_in
from tests.hrl_xf.layers.examples import played
from tests.hrl_xf.log_examples import PENGUIN_MIDDLE
from tests.hrl_xf.state.examples import a_day


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, whose modules can be imported as under the command line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [n for n in sys.modules if n.partition(".")[0] == "bold_trader"]:
        del sys.modules[name]


def own_test() -> unittest.TestResult:
    """What the test of the new agent says."""
    suite = unittest.defaultTestLoader.loadTestsFromName("bold_trader.test_agent")
    return unittest.TextTestRunner(stream=io.StringIO()).run(suite)


@pytest.mark.parametrize("own", ["l2", "l3", "weights"])
def test_its_own_test_passes_at_once(here: Path, own: Own) -> None:
    assert new_agent.run(NewAgentOptions("BoldTrader", own)) == 0
    text = (here / "bold_trader" / "agent.py").read_text()
    assert "MyAgent" not in text
    assert text.count("# EDIT HERE") == 1
    assert "@" not in (here / "bold_trader" / "README.md").read_text()
    result = own_test()
    assert result.testsRun == 1
    assert result.wasSuccessful(), result.failures + result.errors


def test_its_own_test_fails_with_a_mistake(here: Path) -> None:
    new_agent.run(NewAgentOptions("BoldTrader", "l3"))
    agent = here / "bold_trader" / "agent.py"
    agent.write_text(agent.read_text().replace("# EDIT HERE", "op = op[:, None]  #"))
    ((_, reason),) = own_test().failures
    assert "a layer failed; the log above says why" in reason


class Accepts:
    """A learnt L3 that accepts whatever is safe and ends all else."""

    mode, view, width = "residual", "context", 4

    def new_cache(self, threads: int) -> HistoryCache:
        raise AssertionError("it reads no histories")

    def act(self, state: Any, situation: Situation, **options: Any) -> L3Actions:
        n = len(situation)
        op = np.where(situation.acceptable, ACCEPT, END)
        return L3Actions(op, np.zeros((n, 3), np.int64), {}, np.zeros(n, np.float32))


def test_the_example_of_own_answers_asks_for_more_before_it_accepts() -> None:
    s = played(PENGUIN_MIDDLE, L1SafetyLayer()).situation
    answers, state = OwnAnswers(Accepts()), np.zeros((len(s), 4), np.float32)
    asks = s.seller & s.acceptable
    assert asks.any()
    assert (s.acceptable & ~s.seller).any()
    early = answers.act(state, replace(s, relative_time=np.full_like(s.relative_time, 0.1)))
    assert np.array_equal(early.op, np.where(asks, REJECT, np.where(s.acceptable, ACCEPT, END)))
    quantity, day, _ = s.seen[asks].T
    assert np.array_equal(early.offer[asks], np.stack([quantity, day, s.issues[asks, 5]], axis=-1))
    assert (early.offer[~asks] == 0).all()
    late = answers.act(state, replace(s, relative_time=np.full_like(s.relative_time, 0.9)))
    assert np.array_equal(late.op, np.where(s.acceptable, ACCEPT, END))


def test_the_example_of_own_goals_buys_nothing_on_the_last_days() -> None:
    class Ones:
        def goals_of_days(self, days: DayBatch) -> Any:
            return np.ones((len(days), 16), np.float32)

    goals = OwnGoals(Ones()).goals_of_days(day_batch([a_day(current_step=s, n_steps=50) for s in (10, 41, 42, 49)]))
    quantity = goals.reshape(4, 4, 2, 2)[..., 0]  # day, bucket, [buy, sell]
    assert quantity[:, :, 0].tolist() == [[1] * 4, [1] * 4, [0] * 4, [0] * 4]
    assert (quantity[:, :, 1] == 1).all()
    assert (goals.reshape(4, 4, 2, 2)[..., 1] == 1).all(), "prices are left alone"


def test_an_example_that_cannot_work_gives_the_reason() -> None:
    with pytest.raises(ValueError, match="BaselineExecutor is not a learnt L3; leave l3 as it is, or name a file"):
        OwnL3(l3="l1")


@pytest.mark.timeout(600)
def test_weights_are_copied_and_exported(here: Path) -> None:
    run = here / "run"
    run.mkdir()
    for layer in ("l2", "l3", "l4"):
        (run / layer_in(BUNDLED, layer).name).write_bytes(layer_in(BUNDLED, layer).read_bytes())
    new_agent.run(NewAgentOptions("BoldTrader", "weights", run))
    (here / "bold_trader" / "weights" / "notes.txt").write_text("not for the league")
    entry = entry_of(parse_agent("bold_trader:BoldTrader"))
    own = sorted(name.removeprefix(f"{entry.package}/bold_trader/") for name in entry.files if "/bold_trader/" in name)
    copied = [f"weights/{path.name}" for path in sorted(run.iterdir())]
    assert own == ["__init__.py", "agent.py", *copied], "neither its test nor its README"
    assert export.run(ExportOptions(output=here / "bold.zip", agent="bold_trader:BoldTrader")) == 0, "and it plays"


def test_it_is_watched_by_its_name(here: Path) -> None:
    new_agent.run(NewAgentOptions("BoldTrader", "l2"))
    world, agent = play.build(PlayOptions(agent="bold_trader:BoldTrader", days=5, l3="l1", against="RandomStdAgent"))
    assert type(agent.layers.l2).__name__ == "OwnGoals"
    assert type(agent.layers.l3).__name__ == "BaselineExecutor"
    assert f"We are [bold]{agent.id}[/], BoldTrader, on level 1" in "\n".join(play._introduction(world, agent))
    with pytest.raises(ValueError, match="--agent PenguinAgent is not derived from LitaAgentHRL"):
        play.build(PlayOptions(agent="PenguinAgent"))


def test_what_cannot_be_a_new_agent_is_refused(here: Path) -> None:
    for name in ("my agent", "myAgent", "9Lives"):
        with pytest.raises(ValueError, match=r"is not the name of a class; use letters and digits, e\.g\. MyAgent"):
            NewAgentOptions(name)
    with pytest.raises(ValueError, match="goes with --own weights, not with --own l2"):
        NewAgentOptions("BoldTrader", "l2", here)
    with pytest.raises(ValueError, match="would be the module numpy, which exists already"):
        new_agent.run(NewAgentOptions("Numpy"))
    (here / "bold_trader").mkdir()
    with pytest.raises(ValueError, match="there is a bold_trader here already"):
        new_agent.run(NewAgentOptions("BoldTrader"))
    assert list((here / "bold_trader").iterdir()) == []


def test_the_commands_of_the_readme_are_those_that_are_printed(here: Path) -> None:
    new_agent.run(NewAgentOptions("BoldTrader"))
    readme = " ".join((here / "bold_trader" / "README.md").read_text().replace("\\\n", " ").split())
    for command in next_commands("BoldTrader").values():
        assert command in readme
