"""`echelon demo`: the main job end to end, small, on real parts."""

from __future__ import annotations

import logging
from pathlib import Path

from echelon.hrl_xf import collect, dataset_command
from echelon.hrl_xf.options import CollectOptions, DatasetOptions
from echelon.options import DemoOptions

log = logging.getLogger(__name__)


def run(options: DemoOptions) -> int:
    """Collect a small tournament, make training data of it, and say where to look."""
    collection = options.output_dir / "collection"
    log.info("Step 1 of 2: real SCML worlds, played by experts of 2024 and 2025, every decision recorded (a minute).")
    code = collect.run(_collection(options, collection))
    if code:
        return code
    log.info("")
    log.info("Step 2 of 2: what PenguinAgent, champion of 2024, decided in them, as training data (seconds).")
    code = dataset_command.run(
        DatasetOptions(data_dir=collection, agent_name="PenguinAgent", output_dir=options.output_dir / "dataset")
    )
    log.info("")
    log.info("Look at %s in a browser.", options.output_dir / "dataset" / "dataset.html")
    log.info("Next: collect more configurations with `echelon hrl collect --help`.")
    return code


def _collection(options: DemoOptions, folder: Path) -> CollectOptions:
    return CollectOptions(
        configs=3,
        runs=1,
        max_top_2025=2,
        max_top_2024=2,
        steps=options.steps,
        output_dir=folder,
        resumable=True,
        foreground=True,
    )
