"""Whether a run's layers have become better: its validation worlds, the best layers so far, the metrics of both."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from echelon.hrl_xf.online.validation import Gain, Played, gains, play_validation
from echelon.hrl_xf.online.worlds import PlayedSeat, Weights
from echelon.hrl_xf.options.playing import PlayingOptions
from echelon.runtime.execution.executors import NamedExecutor
from echelon.runtime.files import read_json, write_json
from echelon.runtime.metrics import MetricsWriter, read_metrics
from echelon.runtime.rundir import RunDir

log = logging.getLogger(__name__)
START = "validation_start.json"


class Judge:
    """Compares layers with those the run started from, in the same worlds."""

    def __init__(
        self, options: PlayingOptions, folder: RunDir, executor: NamedExecutor, metrics: MetricsWriter
    ) -> None:
        self.options, self.folder, self.executor, self.metrics = options, folder, executor, metrics
        self._start: Played = []

    def begin(self, weights: Weights, *, resumed: bool) -> None:
        """The validation worlds as the layers play them that the run starts from; played once per run."""
        file = self.folder.path / START
        if not file.exists():
            if resumed:
                raise ValueError(f"{file} is missing; begin the training again in another directory")
            log.info("playing the validation worlds with the layers of the start")
            played = play_validation(self.options, self.executor, weights)
            write_json(file, [None if seats is None else [asdict(seat) for seat in seats] for seats in played])
        self._start = [None if seats is None else [PlayedSeat(**seat) for seat in seats] for seats in read_json(file)]

    def validate(self, weights: Weights, worlds: int, save: Callable[[Path], None]) -> None:
        """Play the validation worlds; `save` writes the layers into the run's directory if they are the best so far."""
        played = play_validation(self.options, self.executor, weights)
        found = gains(self.options, played, self._start)
        earlier = read_metrics(self.folder.path).get("Validation/all/gain")
        best = max([0.0, *(earlier.values.tolist() if earlier is not None else [])])
        self.metrics.record_all(validation_metrics(found), worlds)
        log.info(
            "validation after %d worlds, score − score of the start: %s", worlds, "; ".join(map(_said, found.items()))
        )
        if found["all"].mean > best:
            save(self.folder.path)
            log.info("the best so far: layers saved in %s", self.folder.path)


def _said(item: tuple[str, Gain]) -> str:
    name, g = item
    return f"{name} {g.mean:+.3f} [{g.low:+.3f}, {g.high:+.3f}]" if "/" not in name else f"{name} {g.mean:+.3f}"


def validation_metrics(found: dict[str, Gain]) -> dict[str, float]:
    """One tag for each figure."""
    tags: dict[str, float] = {}
    for name, g in found.items():
        tags |= {f"Validation/{name}/gain": g.mean, f"Validation/{name}/score": g.score}
        if "/" not in name:
            tags |= {f"Validation/{name}/gain_low": g.low, f"Validation/{name}/gain_high": g.high}
    return tags
