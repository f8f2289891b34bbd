"""`echelon hrl dataset`: logs to training data, with a summary that `echelon report` draws."""

from __future__ import annotations

import logging
from pathlib import Path

from echelon.hrl_xf.dataset.datasets import macro_of, micro_of
from echelon.hrl_xf.dataset.split import WorldSplit, world_split
from echelon.hrl_xf.dataset.summary import decision_columns, lines, summarise
from echelon.hrl_xf.dataset.tournament import TournamentData, open_tournament
from echelon.hrl_xf.options.dataset import DatasetOptions
from echelon.runtime.files import write_json

log = logging.getLogger(__name__)
EXIT_SOME_LEFT_OUT = 3


def run(options: DatasetOptions) -> int:
    """The command: build or open the data set, divide it, say what is in it."""
    output_dir = options.output_dir or options.data_dir / "hrl_dataset"
    data = open_tournament(
        options.data_dir,
        options.agent_name,
        options.num_workers,
        cache_dir=options.cache_dir,
        horizon=options.horizon,
        strict=options.strict,
        quiet=options.quiet or options.no_progress_bar,
    )
    split = split_of(data, output_dir, options)
    report(data, split, output_dir)
    return EXIT_SOME_LEFT_OUT if data.left_out else 0


def split_of(data: TournamentData, output_dir: Path, options: DatasetOptions) -> WorldSplit:
    return world_split(
        output_dir,
        (record.config_id for record in data.records),
        val_ratio=options.val_ratio,
        test_ratio=options.test_ratio,
        seed=options.split_seed,
        regenerate=options.regen_split,
    )


def report(data: TournamentData, split: WorldSplit, output_dir: Path) -> None:
    """summary.json, and the same on the console."""
    summary = summarise(macro_of(data), micro_of(data), decision_columns(data), split)
    output_dir.mkdir(parents=True, exist_ok=True)
    write_json(output_dir / "summary.json", summary)
    for line in lines(summary):
        log.info("%s", line)
    log.info("charts: echelon report %s", output_dir)
