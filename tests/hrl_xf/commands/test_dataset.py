"""`echelon hrl dataset` as users run it: summary, charts, split, exit codes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from echelon.cli import main
from echelon.hrl_xf.dataset.datasets import macro_of, micro_of
from echelon.hrl_xf.dataset.split import WorldSplit
from echelon.hrl_xf.dataset.summary import days_ahead, decision_columns, summarise
from echelon.hrl_xf.dataset.tournament import open_tournament
from echelon.hrl_xf.state.schema import AgentLog, DecisionEntry
from echelon.reporting.collection import dataset
from tests.hrl_xf.log_examples import PENGUIN_FIRST, PENGUIN_MIDDLE, log_of, put, text_of

PATHS = (PENGUIN_FIRST, PENGUIN_MIDDLE)


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Three configurations of one expert's logs."""
    put(tmp_path, "a", text_of(PENGUIN_FIRST))
    put(tmp_path, "b", text_of(PENGUIN_MIDDLE))
    put(tmp_path, "c", msgspec.structs.replace(log_of(PENGUIN_FIRST), config_id="s9-c0000", world_id="w9"))
    return tmp_path


def run(collection: Path, *arguments: str) -> int:
    return main(["hrl", "dataset", "--data-dir", str(collection), "--num-workers", "1", *arguments])


def summary_of(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text())


def test_the_command_says_what_the_logs_hold(collection: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(collection, "--agent-name", "Pe") == 0
    said = capsys.readouterr().out
    assert "agent 'Pe' is PenguinAgent: 3 logs" in said
    assert "3 worlds of 3 configurations, 3 logs, 70 agent-days" in said
    summary = summary_of(collection / "hrl_dataset")
    logs: list[AgentLog] = [log_of(path) for path in (*PATHS, PENGUIN_FIRST)]
    sent = [e.data for log in logs for e in log.entries if isinstance(e, DecisionEntry) and e.data.sent]
    own = [d for d in sent if d.asked != "framework"]
    for answer in ("ACCEPT", "REJECT", "END"):
        assert summary["decisions_by_answer"][answer] == sum(d.answer == answer for d in own)
    assert summary["decisions"] == len(own)
    assert summary["openings"] == sum(d.offer is None for d in own)
    answered = [d for d in own if d.offer is not None]
    share = sum(d.answer == "ACCEPT" for d in answered) / len(answered)
    assert summary["answers_to_an_offer"]["ACCEPT"] == pytest.approx(share, abs=1e-4)
    sides = [sum(d.answer == "REJECT" and d.role == role for d in own) for role in ("buyer", "seller")]
    kept = [summary["all_rules_by_side"][f"{side}, sent"] for side in ("buying", "selling")]
    assert np.average(kept, weights=sides) == pytest.approx(summary["offers_sent"]["all rules"], abs=1e-4)
    assert "offers that keep all of them: buying, sent" in said
    assert [summary["split"][s]["configurations"] for s in ("train", "val", "test")] == [1, 1, 1]
    assert sum(summary["split"][s]["agent_days"] for s in ("train", "val", "test")) == 70
    assert (collection / "hrl_dataset" / "world_split.json").exists()


def test_the_charts_are_shares_and_on_the_page(collection: Path) -> None:
    run(collection, "--quiet")
    charts = {chart["title"]: chart["groups"] for chart in dataset(collection / "hrl_dataset")["charts"]}
    for title in ("Pieces in an offer", "Price within the issue's range", "Offers sent, less L1's baseline"):
        for group in charts[title].values():
            assert sum(group.values()) == pytest.approx(1, abs=0.002), title
    logs = [log_of(path) for path in (*PATHS, PENGUIN_FIRST)]
    own = [e.data for log in logs for e in log.entries if isinstance(e, DecisionEntry) and e.data.sent]
    offers = [d.counter_offer for d in own if d.asked != "framework" and d.answer == "REJECT" and d.counter_offer]
    share = sum(offer[0] == 5 for offer in offers) / len(offers)
    assert charts["Pieces in an offer"]["sent"]["5"] == pytest.approx(share, abs=1e-4)
    tenth = {id(d): min(int(d.relative_time * 10), 9) for d in own if d.offer is not None}
    place, count = Counter(tenth.values()).most_common(1)[0]
    accepted = sum(d.answer == "ACCEPT" and tenth.get(id(d)) == place for d in own) / count
    at = f"{place / 10:.1f}–{(place + 1) / 10:.1f}"
    found = charts["Answers to an offer by relative time"]
    assert found["ACCEPT"][at] == pytest.approx(accepted, abs=1e-4)
    assert sum(group[at] for group in found.values()) == pytest.approx(1, abs=0.001)


def test_bad_logs_give_exit_code_3_and_strict_stops(collection: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(collection, "d", text_of(PENGUIN_FIRST)[:-50])
    assert run(collection) == 3
    assert "left out: 1 logs" in capsys.readouterr().out
    assert list(summary_of(collection / "hrl_dataset")["left_out"]) == ["tracker_logs/agent_d.json"]
    assert run(collection, "--strict") == 2
    assert "agent_d.json: " in capsys.readouterr().err


def test_changed_ratios_are_noticed(collection: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = collection / "elsewhere"
    assert run(collection, "--output-dir", str(out)) == 0
    assert run(collection, "--output-dir", str(out), "--val-ratio", "0.4") == 2
    assert "val_ratio 0.1 -> 0.4" in capsys.readouterr().err
    assert run(collection, "--output-dir", str(out), "--val-ratio", "0.4", "--regen-split") == 0


@pytest.mark.parametrize(("option", "value"), [("--num-workers", "0"), ("--horizon", "0")])
def test_options_that_cannot_be_are_refused(
    collection: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hrl", "dataset", "--data-dir", str(collection), option, value]) == 2
    assert f"{option} {value}" in capsys.readouterr().err


def test_an_unknown_agent_gets_the_list(collection: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(collection, "--agent-name", "Q") == 2
    assert "PenguinAgent (3 logs)" in capsys.readouterr().err


def test_days_ahead_of_first_proposals_by_hand(collection: Path) -> None:
    data = open_tournament(collection, quiet=True)
    columns = decision_columns(data)
    found = days_ahead(columns.where(columns.first & (columns.op == 1)))
    ahead = [
        min(e.data.counter_offer[1] - e.day, 4)
        for path in (*PATHS, PENGUIN_FIRST)
        for e in log_of(path).entries
        if isinstance(e, DecisionEntry) and e.data.asked == "first_proposals" and e.data.counter_offer
    ]
    shares = np.bincount(ahead, minlength=5) / len(ahead)
    assert list(found.values()) == pytest.approx(shares.tolist(), abs=1e-4)


def test_the_summary_of_an_agent_without_decisions(tmp_path: Path) -> None:
    """A log of days alone has days, and no decision to count."""
    log = log_of(PENGUIN_FIRST)
    silent = [e for e in log.entries if e.__struct_config__.tag in ("agent_initialized", "daily_status", "day_closed")]
    stats = msgspec.structs.replace(log.stats, decisions=0, accepts=0, rejects=0, ends=0, deals=0)
    put(tmp_path, "x", msgspec.structs.replace(log, entries=silent, stats=stats))
    data = open_tournament(tmp_path, quiet=True)
    split = WorldSplit(seed=0, val_ratio=0.0, test_ratio=0.0).extended({"s0-c0000"})
    summary = summarise(macro_of(data), micro_of(data), decision_columns(data), split)
    assert (summary["agent_days"], summary["decisions"]) == (10, 0)
    assert main(["hrl", "dataset", "--data-dir", str(tmp_path), "-q"]) == 0
