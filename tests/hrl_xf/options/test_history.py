"""Commands of the training history run as they stand."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import tyro

from echelon.hrl_xf.commands.train import run
from echelon.hrl_xf.options.collect import CollectOptions
from echelon.hrl_xf.options.compete import CompeteOptions
from echelon.hrl_xf.options.history import WHY, HistoryOptions
from echelon.hrl_xf.options.train import TrainOptions
from tests.hrl_xf.log_examples import LOGS

GIVEN = [
    *("--l3-pre-tensorize", "--tensorize-workers", "8", "--dataloader-workers", "8", "--dataloader-pin-memory"),
    *("--dataloader-persistent-workers", "False", "--dataloader-prefetch-factor", "2"),
    *("--backfill-world-chunk", "256", "--batch-log-every", "50"),
]
"""As they stand in the training history."""


def parsed(*arguments: str) -> TrainOptions:
    return tyro.cli(TrainOptions, args=arguments, config=(tyro.conf.OmitArgPrefixes,))


def test_each_is_accepted_and_its_line_gives_the_reason_for_no_effect() -> None:
    options = parsed("--data-dir", "x", *GIVEN)
    lines = options.history.lines()
    assert [line.split()[0] for line in lines] == [f"--{name.replace('_', '-')}" for name in WHY]
    assert all("has no effect here: " in line for line in lines)
    assert options.config.log_every == 50, "this one has a meaning here, under another name"
    assert HistoryOptions().lines() == []
    assert parsed("--data-dir", "x", "--tensorize-workers", "2").history.lines() == [
        "--tensorize-workers has no effect here: the processes of --num-workers write arrays when they parse"
    ]


def test_a_run_logs_that_they_have_no_effect(cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    shared = ["--data-dir", str(LOGS), "--cache-dir", str(cache), "--output-dir", str(tmp_path), "--stats-only"]
    assert run(parsed(*shared, "--num-workers", "1", "--dataloader-workers", "4")) == 0
    assert "--dataloader-workers has no effect here" in caplog.text
    assert run(parsed(*shared, "--num-workers", "1")) == 0, "they are not part of what a run is"


def test_an_environment_variable_sets_how_worlds_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCML_PARALLELISM", "loky:0.5")
    assert CollectOptions().parallelism == CompeteOptions().parallelism == "loky:0.5"
    assert CollectOptions(parallelism="serial").parallelism == "serial", "an option stands above it"
    monkeypatch.setitem(os.environ, "SCML_PARALLELISM", "")
    assert CollectOptions().parallelism == "loky"
