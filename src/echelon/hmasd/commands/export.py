"""`echelon hmasd export`: a run's curves as CSV (one row per step) or JSON (steps and values of each curve)."""

from __future__ import annotations

import logging
import math
from pathlib import Path

from echelon.hmasd.options import ExportOptions
from echelon.runtime.files import write_json
from echelon.runtime.metrics import export_csv, read_metrics

log = logging.getLogger(__name__)


def export_curves(run_dir: Path, target: Path) -> None:
    """Write all curves in the format that the file's name ends in."""
    if target.suffix == ".csv":
        export_csv(run_dir, target)
    elif target.suffix == ".json":
        write_json(target, curves(run_dir))
    else:
        raise ValueError(f"{target} must end in .csv or .json")


def curves(run_dir: Path) -> dict[str, object]:
    """Every curve as plain lists; null where a value is not finite, which JSON cannot express."""
    return {
        "format_version": 1,
        "curves": {
            name: {
                "steps": series.steps.tolist(),
                "values": [value if math.isfinite(value) else None for value in series.values.tolist()],
            }
            for name, series in read_metrics(run_dir).items()
        },
    }


def run(options: ExportOptions) -> int:
    """The command."""
    export_curves(options.run_dir, options.output)
    log.info("%s", options.output)
    return 0
