"""`echelon report`: run directories to one self-contained HTML page."""

from __future__ import annotations

import logging

from echelon.hrl_xf import training_plots
from echelon.options import ReportOptions
from echelon.runtime.files import write_atomic

log = logging.getLogger(__name__)


def run(options: ReportOptions) -> int:
    """Write the page of the given training runs."""
    missing = [str(path) for path in options.runs if not (path / "metrics.jsonl").is_file()]
    if missing:
        raise ValueError(f"no run (no metrics.jsonl) in {', '.join(missing)}; give folders `echelon hrl train` wrote")
    write_atomic(options.output, training_plots.page(*options.runs).encode())
    log.info("open %s in a browser", options.output)
    return 0
