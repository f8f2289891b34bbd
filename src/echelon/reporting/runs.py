"""Which kind of run a folder contains, and which runs the user's folders mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from echelon.hrl_xf.collect.folder import result_files
from echelon.runtime.files import read_json

Kind = Literal["arena", "collection", "training", "dataset", "bench"]

WANTED = (
    "an arena (`echelon hrl compete`), a training run (`echelon hrl train`, `echelon hmasd train`), a bench "
    "(`echelon hmasd bench`), a collection (`echelon hrl collect`) or a dataset (`echelon hrl dataset`)"
)


class Run(NamedTuple):
    """A folder with results to show."""

    kind: Kind
    path: Path
    name: str


def kind_of(folder: Path) -> Kind | None:
    """The kind of run in the folder; None if it is not a run, or has no results yet."""
    kind = _object(folder / "config.json").get("kind")
    if kind == "arena" or kind == "collection":
        return kind if result_files(folder) else None
    metrics = folder / "metrics.jsonl"
    if metrics.is_file() and metrics.stat().st_size:
        return "training"
    if _object(folder / "bench.json").get("kind") == "bench" and (folder / "results.json").is_file():
        return "bench"
    if "decisions_by_answer" in _object(folder / "summary.json"):
        return "dataset"
    return None


def find_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs in `folders`, in order and each once; a folder that contains runs means the runs directly in it."""
    found: dict[Path, Kind] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder; give run folders: {WANTED}")
        kind = kind_of(folder)
        if kind is not None:
            found.setdefault(folder.resolve(), kind)
            continue
        inside = {path: kind_of(path) for path in sorted(folder.iterdir()) if path.is_dir()}
        runs = {path: kind for path, kind in inside.items() if kind is not None}
        if not runs:
            raise ValueError(f"{folder} is not a run with results and contains none; give {WANTED}")
        for path, kind in runs.items():
            found.setdefault(path.resolve(), kind)
    names = _names(found)
    return [Run(kind, path, name) for (path, kind), name in zip(found.items(), names, strict=True)]


def _names(paths: Iterable[Path]) -> list[str]:
    """The folders' names, with those of their parents where two names are equal."""
    every = [path.parts for path in paths]
    names = []
    for parts in every:
        depth = 1
        while depth < len(parts) and sum(other[-depth:] == parts[-depth:] for other in every) > 1:
            depth += 1
        names.append("/".join(parts[-depth:]))
    return names


def _object(file: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if the file does not exist or contains no object."""
    if not file.is_file():
        return {}
    content = read_json(file)
    return content if isinstance(content, dict) else {}
