"""Weights & Biases beside the run's own files, if asked for; the package is imported only then."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

Mode = Literal["off", "offline", "online"]

STEP = "env_steps"
"""What curves are drawn over: values are recorded for earlier steps too, which W&B's own counter refuses."""


def require_wandb(mode: Mode) -> None:
    """Refuse a mode that needs the package where it is not installed, before anything is written."""
    if mode != "off" and importlib.util.find_spec("wandb") is None:
        raise ValueError(
            f"--wandb {mode} needs the package wandb, which is not installed; "
            "install it with: pip install 'echelon[wandb]'"
        )


class WandbRun:
    """One run there: all metrics by the step they belong to. Offline it writes `<run>/wandb/`, for `wandb sync`."""

    def __init__(self, mode: Literal["offline", "online"], run_dir: Path, config: Mapping[str, Any]) -> None:
        import wandb

        os.environ.setdefault("WANDB_SILENT", "true")
        place = run_dir.resolve()
        self._run: Any = wandb.init(
            project="echelon",
            group=place.parent.parent.name if place.parent.name == "runs" else place.parent.name,
            name=place.name,
            id=hashlib.sha256(str(place).encode()).hexdigest()[:16],  # the same run when it is resumed
            resume="allow" if mode == "online" else None,
            mode=mode,
            dir=str(place),
            config=dict(config),
        )
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """All values of one step."""
        self._run.log({STEP: step, **{name: value for name, value in values.items() if math.isfinite(value)}})

    def close(self) -> None:
        """Send or write what is left."""
        self._run.finish()
