"""negotiations.csv beside the world's own books."""

from __future__ import annotations

import csv
import logging
from collections import Counter
from pathlib import Path

import pytest

from echelon.hrl_xf.collect.folder import WORLDS
from echelon.hrl_xf.collect.world import read_result
from echelon.hrl_xf.commands.collect import run
from echelon.hrl_xf.options.collect import CollectOptions


def test_deals_are_the_contracts_and_each_negotiation_is_listed_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every factory is held by a tracked agent, so nothing is missing."""
    caplog.set_level(logging.INFO)
    options = CollectOptions(
        configs=1, runs=1, field="champions", max_top_2026=0, max_top_2025=1, max_top_2024=1, max_worlds_per_config=2,
        steps=6, seed=3, parallelism="serial", foreground=True, quiet=True, auto_collect=False, negotiations_csv=True,
        output_dir=tmp_path / "c",
    )  # fmt: skip
    assert run(options) == 0
    with (tmp_path / "c" / "negotiations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert f"{len(rows)} negotiations in negotiations.csv" in caplog.text
    assert len({(row["world"], row["id"]) for row in rows}) == len(rows)
    results = [read_result(path) for path in sorted((tmp_path / "c" / WORLDS).glob("*.json"))]
    signed = Counter(
        (c["world"], c["seller"], c["buyer"], c["quantity"], c["delivery_time"], c["unit_price"])
        for result in results
        for c in result.contract_table
        if not {"SELLER", "BUYER"} & {c["seller"], c["buyer"]}
    )
    agreed = Counter(
        (r["world"], r["seller"], r["buyer"], int(r["quantity"]), int(r["delivery_time"]), int(r["unit_price"]))
        for r in rows
        if r["failed"] == "0"
    )
    assert agreed == signed
    assert sum(agreed.values()) > 10
    failed = [row for row in rows if row["failed"] == "1"]
    assert failed
    assert all(row["quantity"] == "" for row in failed)
