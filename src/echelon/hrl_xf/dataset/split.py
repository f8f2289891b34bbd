"""world_split.json: which world configurations train, which validate, which test.

Worlds of one configuration share factories, prices and exogenous contracts, so a configuration is never divided, and
neither are the agents of one world. The file stays as it is when data are added: only new configurations are assigned.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

import msgspec

from echelon.runtime.files import write_atomic

log = logging.getLogger(__name__)

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
FILE = "world_split.json"
FORMAT_VERSION = 1


class WorldSplit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configurations by split."""

    format_version: int = FORMAT_VERSION
    seed: int
    val_ratio: float
    test_ratio: float
    configs: dict[str, Split] = {}

    def __post_init__(self) -> None:
        if not (self.val_ratio >= 0 and self.test_ratio >= 0 and self.val_ratio + self.test_ratio < 1):
            raise ValueError(
                f"val_ratio={self.val_ratio} and test_ratio={self.test_ratio} must not be negative and must leave "
                "something to train on; use e.g. 0.1 and 0.05"
            )

    def of(self, split: Split) -> list[str]:
        return sorted(name for name, where in self.configs.items() if where == split)

    def extended(self, configs: Iterable[str]) -> WorldSplit:
        """The same split with new configurations assigned: each to the split furthest below its target.

        In the order of a hash of seed and name, so that nothing depends on the order in which files are found. Every
        split with a ratio gets at least one configuration as soon as there are enough for all of them.
        """
        assigned = dict(self.configs)
        new = sorted(set(configs) - set(assigned), key=lambda name: _hash(self.seed, name))
        total = len(assigned) + len(new)
        ratios = {"train": 1.0 - self.val_ratio - self.test_ratio, "val": self.val_ratio, "test": self.test_ratio}
        target = {split: max(1.0, ratios[split] * total) if ratios[split] > 0 else 0.0 for split in SPLITS}
        for name in new:
            counts = {split: sum(where == split for where in assigned.values()) for split in SPLITS}
            empty = [split for split in SPLITS if target[split] and not counts[split]]
            assigned[name] = empty[0] if empty else max(SPLITS, key=lambda split: target[split] - counts[split])
        return msgspec.structs.replace(self, configs=dict(sorted(assigned.items())))


def _hash(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()


def world_split(
    folder: Path, configs: Iterable[str], *, val_ratio: float, test_ratio: float, seed: int, regenerate: bool = False
) -> WorldSplit:
    """The split in `folder`, made or extended as needed. Other ratios or another seed than its own are an error."""
    path = folder / FILE
    asked = WorldSplit(seed=seed, val_ratio=val_ratio, test_ratio=test_ratio)
    configs = set(configs)
    there = _read(path) if path.exists() and not regenerate else None
    if there is not None:
        _check_same(path, there, asked)
    split = (there or asked).extended(configs)
    if split != there:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, msgspec.json.format(msgspec.json.encode(split)) + b"\n")
    missing = [s for s in SPLITS if (s == "train" or getattr(split, f"{s}_ratio") > 0) and not split.of(s)]
    if missing:
        log.warning(
            "%d world configurations are too few for a split: %s is empty; collect more, or set its ratio to 0",
            len(configs), " and ".join(missing),
        )  # fmt: skip
    return split


def _read(path: Path) -> WorldSplit:
    try:
        split = msgspec.json.decode(path.read_bytes(), type=WorldSplit)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is damaged ({error}); make it again with --regen-split") from error
    if split.format_version != FORMAT_VERSION:
        raise ValueError(f"{path} has format_version {split.format_version}, this Echelon {FORMAT_VERSION}")
    return split


def _check_same(path: Path, there: WorldSplit, asked: WorldSplit) -> None:
    names = ("seed", "val_ratio", "test_ratio")
    changed = [
        f"{n} {getattr(there, n)} -> {getattr(asked, n)}" for n in names if getattr(there, n) != getattr(asked, n)
    ]
    if changed:
        raise ValueError(
            f"{path} has other values: {', '.join(changed)}; give the same values, or --regen-split to divide again "
            "(models trained on the old split have then seen worlds of the new test set)"
        )
