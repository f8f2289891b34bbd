"""`echelon hrl runs`: the collections that are registered in tournament_history/index.json."""

from __future__ import annotations

import logging

from echelon.hrl_xf.collect.history import read
from echelon.hrl_xf.options.collect import RunsOptions

log = logging.getLogger(__name__)


def run(options: RunsOptions) -> int:
    """The command `echelon hrl runs`."""
    runs = read(options.history).runs
    if not runs:
        log.info("no collection is registered in %s; make one with `echelon hrl collect`", options.history)
    for entry in runs:
        log.info(
            "%s  %5d worlds  %6d logs  %8.1f MB  %2d failed  %s  (%s)",
            entry.date,
            entry.worlds,
            entry.logs,
            entry.log_bytes / 1e6,
            entry.failed,
            entry.path,
            ", ".join(entry.field),
        )
    return 0
