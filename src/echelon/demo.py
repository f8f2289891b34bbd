"""`echelon demo`: the main job end to end, small, on real parts."""

from __future__ import annotations

import logging

from echelon.hrl_xf import collect
from echelon.hrl_xf.options import CollectOptions
from echelon.options import DemoOptions

log = logging.getLogger(__name__)


def run(options: DemoOptions) -> int:
    """Collect a small tournament and say what it holds."""
    log.info("Step 1 of 1: real SCML worlds, played by expert agents of 2024 and 2025, every decision recorded.")
    code = collect.run(
        CollectOptions(
            configs=1,
            runs=1,
            max_top_2025=2,
            max_top_2024=2,
            steps=options.steps,
            output_dir=options.output_dir / "collection",
            resumable=True,
            foreground=True,
        )
    )
    log.info("")
    log.info("Look at %s, or collect more: echelon hrl collect --help", options.output_dir / "collection")
    return code
