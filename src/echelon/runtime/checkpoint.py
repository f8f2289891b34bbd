"""A checkpoint is a readable directory: `config.json`, `state.json`, `*.safetensors`.

    checkpoints/
      step_000100/          config.json state.json policy.safetensors …
      step_000200/
      pointers.json         which one is `last`, which one is `best`

It is written under a temporary name, synced, then renamed; then the pointers are replaced. If the process is killed
between any two system calls, the directory holds the old state or the new one. `state.json` has the size and SHA-256
of each file, so that loading a truncated or damaged checkpoint raises with the reason. One process saves; any number
may load.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from echelon.runtime.files import TEMPORARY, read_json, sync_directory, to_json, write_json, write_synced

FORMAT_VERSION = 1

Tensor = Any
"""A numpy array or a torch tensor; torch is not imported for arrays."""

REPLACED = ".replaced-"
"""Prefix of a checkpoint while another one replaces it."""

POINTERS = "pointers.json"


class CheckpointError(ValueError):
    """A checkpoint that is damaged or incomplete, and why."""


@dataclass(frozen=True)
class Checkpoint:
    """What was saved."""

    path: Path
    tensors: dict[str, dict[str, Tensor]]
    """By file, then by name. Arrays come back as arrays, torch tensors as torch tensors."""
    state: Any
    config: Any


@dataclass(frozen=True)
class _Pointers:
    last: str | None = None
    best: str | None = None
    order: list[str] = field(default_factory=list)
    """The checkpoints, oldest first."""


def save_checkpoint(
    directory: str | os.PathLike[str],
    name: str,
    *,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: Any,
    config: Any,
    keep_last: int | None = None,
    best: bool = False,
) -> Path:
    """Save under `directory/name` and make it `last`, and `best` if asked. An older one of that name is replaced.

    `tensors` are by file stem, then by name; `state` and `config` are JSON values.
    `keep_last` is the number of newest checkpoints to keep; older ones are deleted, except the best. Replacing the best
    checkpoint by one that is not the best leaves none marked: give each checkpoint its own name, such as its step.
    """
    if keep_last is not None and keep_last < 1:
        raise ValueError(f"keep_last={keep_last} would delete the checkpoint just saved; use 1 or more, or None")
    for stem in (name, *tensors):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", stem):
            raise ValueError(f"{stem!r} is not a valid file name here; use letters, digits, '_', '-' and '.'")
    if name == POINTERS:
        raise ValueError(f"a checkpoint cannot be called {POINTERS}; that is the file of pointers")
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    _clean(root)
    temporary = root / f"{TEMPORARY}{name}-{secrets.token_hex(4)}"
    temporary.mkdir()
    _write(temporary, tensors, state, config)
    pointers = _read_pointers(root)
    if pointers.best == name and not best:
        pointers = _Pointers(pointers.last, None, pointers.order)
        _write_pointers(root, pointers)
    _put_in_place(temporary, root / name)
    present = _names(root)
    order = [n for n in present if n not in pointers.order] + [n for n in pointers.order if n in present]
    order = [n for n in order if n != name] + [name]
    pointers = _Pointers(last=name, best=name if best else pointers.best, order=order)
    kept = order if keep_last is None else [n for n in order[:-keep_last] if n == pointers.best] + order[-keep_last:]
    # The pointers first: they must never name a deleted checkpoint.
    _write_pointers(root, _Pointers(pointers.last, pointers.best, kept))
    for gone in set(order) - set(kept):
        _remove(root / gone)
    return root / name


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint; raise `CheckpointError` with the reason if it is damaged or incomplete."""
    where = Path(path)
    waiting = where.with_name(REPLACED + where.name)
    if not where.is_dir() and waiting.is_dir():
        where = waiting  # the run was killed while this one was being replaced
    if not (where / "state.json").is_file():
        raise CheckpointError(f"{where} is not a checkpoint: it has no state.json")
    header = _read_header(where)
    tensors: dict[str, dict[str, Tensor]] = {}
    config: Any = None
    for file, entry in header["files"].items():
        data = _read_whole(where / file, entry)
        if file == "config.json":
            config = json.loads(data)
        else:
            tensors[file.removesuffix(".safetensors")] = _load_tensors(data, frozenset(entry["torch"]))
    return Checkpoint(Path(path), tensors, header["state"], config)


def latest(directory: str | os.PathLike[str]) -> Path | None:
    """The checkpoint saved last; None if there is none."""
    name = _read_pointers(Path(directory)).last
    return None if name is None else Path(directory) / name


def _read_pointers(root: Path) -> _Pointers:
    file = root / POINTERS
    if not file.exists():
        return _Pointers()
    try:
        content = read_json(file)
    except ValueError as error:
        raise CheckpointError(f"{error}; delete it and name the checkpoint to load yourself") from error
    _check_version(file, content)
    return _Pointers(content["last"], content["best"], list(content["order"]))


def _write_pointers(root: Path, pointers: _Pointers) -> None:
    content = {"format_version": FORMAT_VERSION, "last": pointers.last, "best": pointers.best, "order": pointers.order}
    write_json(root / POINTERS, content)


def _names(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def _write(folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], state: Any, config: Any) -> None:
    content = {"config.json": (to_json(config, "config"), list[str]())}
    for stem, named in tensors.items():
        torch_names = sorted(name for name, value in named.items() if _is_torch(value))
        content[f"{stem}.safetensors"] = (_dump_tensors(named), torch_names)
    files = {}
    for file, (data, torch_names) in content.items():
        write_synced(folder / file, data)
        files[file] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "torch": torch_names}
    header = {"files": files, "state": state}
    write_synced(
        folder / "state.json",
        to_json({"format_version": FORMAT_VERSION, "sha256": _digest(header), **header}, "state"),
    )
    sync_directory(folder)


def _put_in_place(temporary: Path, target: Path) -> None:
    waiting = target.with_name(REPLACED + target.name)
    if target.exists():
        os.rename(target, waiting)  # a directory cannot be renamed over another
    os.rename(temporary, target)
    sync_directory(target.parent)
    if waiting.exists():
        _remove(waiting)


def _clean(root: Path) -> None:
    """Undo or finish a save that was killed."""
    for path in list(root.iterdir()):
        if path.name.startswith(REPLACED):
            target = root / path.name.removeprefix(REPLACED)
            if target.exists():
                _remove(path)
            else:
                os.rename(path, target)
        elif path.name.startswith(TEMPORARY):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _remove(path: Path) -> None:
    """Delete a checkpoint: rename it first, since deleting many files is not atomic."""
    hidden = path.with_name(f"{TEMPORARY}{path.name.lstrip('.')}-{secrets.token_hex(4)}")
    os.rename(path, hidden)
    shutil.rmtree(hidden)


def _digest(header: Mapping[str, Any]) -> str:
    """SHA-256 of the header's content, so that a flipped bit in state.json itself is noticed."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _read_header(where: Path) -> dict[str, Any]:
    file = where / "state.json"
    try:
        content = read_json(file)
    except (ValueError, OSError) as error:
        raise CheckpointError(str(error)) from error
    _check_version(file, content)
    header = {key: content.get(key) for key in ("files", "state")}
    if content.get("sha256") != _digest(header):
        raise CheckpointError(f"{file} is damaged: its content does not have the SHA-256 it was saved with")
    return header


def _check_version(file: Path, content: Any) -> None:
    version = content.get("format_version") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise CheckpointError(f"{file} has no format_version; it was not written by echelon")
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{file} has format_version {version}, this echelon reads up to {FORMAT_VERSION}; update echelon to load it"
        )


def _read_whole(path: Path, entry: Mapping[str, Any]) -> bytes:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing from the checkpoint") from error
    if len(data) != entry["bytes"]:
        raise CheckpointError(f"{path} has {len(data)} bytes instead of {entry['bytes']}: it was truncated or changed")
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise CheckpointError(f"{path} is damaged: its SHA-256 is not the one it was saved with")
    return data


def _is_torch(value: object) -> bool:
    """True for a torch tensor, without importing torch."""
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def _dump_tensors(named: Mapping[str, Tensor]) -> bytes:
    if any(_is_torch(value) for value in named.values()):
        import torch
        from safetensors.torch import save as save_torch

        # clone(): safetensors refuses tensors that share memory
        return save_torch(
            {
                name: value.detach().cpu().contiguous().clone()
                if isinstance(value, torch.Tensor)
                else torch.from_numpy(np.array(value, order="C"))
                for name, value in named.items()
            }
        )
    from safetensors.numpy import save as save_numpy

    return save_numpy({name: np.asarray(value, order="C") for name, value in named.items()})


def _load_tensors(data: bytes, torch_names: frozenset[str]) -> dict[str, Tensor]:
    if torch_names:
        from safetensors.torch import load as load_torch

        return {name: t if name in torch_names else t.numpy() for name, t in load_torch(data).items()}
    from safetensors.numpy import load as load_numpy

    return {name: array.copy() for name, array in load_numpy(data).items()}  # copies can be written to
