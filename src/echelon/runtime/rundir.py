"""A run's directory explains itself: `config.json, log.txt, metrics.jsonl, tb/, checkpoints/`.

The same command on the same directory continues the run. With other options it would be another run
under the same name, so that is an error, which shows what differs.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from echelon.runtime.files import TEMPORARY, read_json, to_json, write_json

FORMAT_VERSION = 1

TRAINING = "training"
PACKAGES = ("echelon", "numpy", "torch")

CONTENTS = frozenset({"config.json", "log.txt", "metrics.jsonl", "tb", "checkpoints"})


class OptionsDiffer(ValueError):
    """An existing run was made with other options."""

    def __init__(self, path: Path, differences: list[str]) -> None:
        super().__init__(path, differences)
        self.path = path
        self.differences = differences

    def __str__(self) -> str:
        lines = "\n".join(f"  {line}" for line in self.differences)
        return (
            f"{self.path} was made with other options:\n{lines}\nuse the old ones to continue it, or another directory"
        )


@dataclass(frozen=True)
class RunDir:
    """An open run."""

    path: Path
    resumed: bool
    """True if the run existed before."""

    @property
    def tensorboard(self) -> Path:
        return self.path / "tb"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @contextmanager
    def logging(self, level: int = logging.INFO) -> Iterator[None]:
        """Append what the package logs to `log.txt` while the block runs."""
        handler = logging.FileHandler(self.path / "log.txt", encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger = logging.getLogger("echelon")
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(min(level, before) if before else level)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)
            handler.close()


def open_run(
    run_dir: str | os.PathLike[str],
    config: Mapping[str, Any],
    *,
    may_change: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> RunDir:
    """Create the run's directory, or continue the existing one.

    `config` holds JSON values. Options in `may_change` (dotted names) do not affect the result, such as the number of
    workers: they may differ. An option that an older version did not have had the value that `defaults` gives.
    """
    path = Path(run_dir)
    there = read_config(path)
    if there is None:
        _refuse_foreign(path)
        for folder in (path / "tb", path / "checkpoints"):
            folder.mkdir(parents=True, exist_ok=True)
        for file in (path / "log.txt", path / "metrics.jsonl"):
            file.touch()
        write_config(path, TRAINING, config)  # last: a directory with a config is complete
        return RunDir(path, resumed=False)
    check_options(path, there.options, config, may_change, defaults)
    return RunDir(path, resumed=True)


@dataclass(frozen=True)
class SavedConfig:
    """config.json of any run: of a training, a collection, an arena …"""

    kind: str | None
    """what the folder holds; None in runs of versions that did not say so"""
    options: dict[str, Any]
    """those that decide what the run is"""


def write_config(path: Path, kind: str, options: Mapping[str, Any], packages: Iterable[str] = PACKAGES) -> None:
    """Write `config.json` of a run, with the versions of the packages that made it."""
    versions = {name: version(name) for name in packages}
    content = {"format_version": FORMAT_VERSION, "kind": kind, "options": dict(options), "versions": versions}
    write_json(path / "config.json", content)


def read_config(path: Path) -> SavedConfig | None:
    """What a run was made with; None if there is no run."""
    file = path / "config.json"
    if not file.exists():
        return None
    content = read_json(file)
    if not isinstance(content, dict) or not isinstance(content.get("options"), dict):
        raise ValueError(f"{file} contains no options, so it was not written by echelon; use another directory")
    if content.get("format_version") != FORMAT_VERSION:
        raise ValueError(
            f"{file} has format_version {content.get('format_version')}, this echelon reads {FORMAT_VERSION}; "
            "use the version that wrote it, or another directory"
        )
    return SavedConfig(content.get("kind"), content["options"])


def check_options(
    path: Path,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    may_change: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> None:
    """Raise `OptionsDiffer` if an option that matters was changed."""
    old = _completed(old, defaults or {})
    unknown = set(may_change) - set(_flatten(old)) - set(_flatten(new))
    if unknown:
        raise ValueError(f"may_change contains names that are not options of this run: {', '.join(sorted(unknown))}")
    drop = [f"{name}:" for name in may_change]
    differences = [line for line in diff_options(old, new) if not any(line.startswith(name) for name in drop)]
    if differences:
        raise OptionsDiffer(path, differences)


def diff_options(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line for each option that differs: `train.lr: 0.001 → 0.01`. Compared as JSON: (1, 2) equals [1, 2]."""
    before, after = _flatten(old), _flatten(new)
    names = list(before) + [name for name in after if name not in before]
    return [
        f"{name}: {before.get(name, '(not set)')} → {after.get(name, '(not set)')}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def _completed(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options with defaults for those that are missing, nested ones too."""
    found = {**defaults, **options}
    for name, value in defaults.items():
        if isinstance(value, Mapping) and isinstance(options.get(name), Mapping):
            found[name] = _completed(options[name], value)
    return found


def _flatten(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested options by dotted names, the values as JSON text."""
    flat: dict[str, str] = {}
    for name, value in json.loads(to_json(dict(options), "options")).items():
        if isinstance(value, dict) and value:
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = json.dumps(value, ensure_ascii=False)
    return flat


def _refuse_foreign(path: Path) -> None:
    """Without a config there may only be what a run killed at its very start left behind."""
    if not path.exists():
        return
    foreign = sorted(p.name for p in path.iterdir() if p.name not in CONTENTS and not p.name.startswith(TEMPORARY))
    if foreign:
        shown = ", ".join(foreign[:5]) + (" …" if len(foreign) > 5 else "")
        raise FileExistsError(f"{path} is not empty and is not a run ({shown}); use another directory")
