"""Options of the training history that this design does not need: accepted, so that its commands run unchanged."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Final

import tyro

WHY: Final = {
    "l3_pre_tensorize": "samples are arrays from the first epoch on",
    "tensorize_workers": "the processes of --num-workers write arrays when they parse",
    "dataloader_workers": "a batch is a gather from arrays in memory, so no process loads ahead",
    "dataloader_pin_memory": "a batch goes to the device in one step",
    "dataloader_persistent_workers": "no loading processes are used",
    "dataloader_prefetch_factor": "no loading processes are used that could prefetch",
    "backfill_world_chunk": "L2 predicts goals from memory-mapped arrays, in batches of --l2-backfill-batch-size",
}
"""Why an option has no effect: its `--help`, and the message when it is given."""

_Flag = tyro.conf.FlagCreatePairsOff[bool]


def _help(name: str) -> object:
    return tyro.conf.arg(help=f"no effect: {WHY[name]}")


@dataclass(frozen=True)
class HistoryOptions:
    """accepted from earlier commands; none of it changes a result"""

    l3_pre_tensorize: Annotated[_Flag, _help("l3_pre_tensorize")] = False
    tensorize_workers: Annotated[int | None, _help("tensorize_workers")] = None
    dataloader_workers: Annotated[int | None, _help("dataloader_workers")] = None
    dataloader_pin_memory: Annotated[_Flag, _help("dataloader_pin_memory")] = False
    dataloader_persistent_workers: Annotated[bool | None, _help("dataloader_persistent_workers")] = None
    dataloader_prefetch_factor: Annotated[int | None, _help("dataloader_prefetch_factor")] = None
    backfill_world_chunk: Annotated[int | None, _help("backfill_world_chunk")] = None

    def lines(self) -> list[str]:
        """A line for each option that was given."""
        given = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        return [f"--{name.replace('_', '-')} has no effect here: {WHY[name]}" for name in given]
