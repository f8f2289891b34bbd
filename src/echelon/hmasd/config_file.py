"""Options from a file: TOML or JSON by the options' names, or the config.json of any run or checkpoint.

    env = "alice_and_bob"        # or preset = "…": its options are where the file starts from
    total-steps = 500_000
    lr = 3e-4

Options on the command line come last. Imports neither torch nor numpy.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.options import TrainOptions

PATHS = ("output_dir", "model_path", "config_file")
NOT_IN_FILES = ("config", "config_file", "eval_only")


def read_options(path: Path, start: TrainOptions | None = None) -> TrainOptions:
    """The options a file gives; what it leaves out is as in `start`, or as its preset or environment has it."""
    content = _named(path, _read(path))
    if start is None:
        start = _start(path, content)
    config = {name: value for name, value in content.items() if name in HMASDConfig.__dataclass_fields__}
    own = {name: value for name, value in content.items() if name not in config and name not in NOT_IN_FILES}
    for name in PATHS:
        if own.get(name) is not None:
            own[name] = Path(own[name])
    if "env_options" in config:
        config["env_options"] = _env_options(path, config["env_options"])
    try:
        return replace(start, config=replace(start.config, **config), **own)
    except TypeError as error:
        raise ValueError(f"{path}: {error}; give each option a value of its type") from None


def model_options(model: Path) -> TrainOptions | None:
    """The options a trained model was made with: those of its run, or at least of its checkpoint; None if unknown."""
    for file in (model / "config.json", model.parent.parent / "config.json"):
        if file.is_file() and "config" in _options(_read(file)):
            return replace(read_options(file, TrainOptions()), model_path=None)
    for folder in (model, *sorted((model / "checkpoints").glob("*"))):
        if (folder / "state.json").is_file() and (folder / "config.json").is_file():
            return read_options(folder / "config.json", TrainOptions())
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"--config {path} cannot be read ({error.strerror})") from None
    try:
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is not {'TOML' if path.suffix == '.toml' else 'JSON'}: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold options by name, not a {type(content).__name__}")
    return content


def _options(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `options` of a config.json of ours; the whole content of a handwritten file."""
    inner = content.get("options")
    return inner if isinstance(inner, dict) else content


def _named(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """All options by their Python names, nested ones flattened; an unknown name is an error."""
    options = _options(content)
    nested = options.get("config", {})
    flat = {**{name: value for name, value in options.items() if name != "config"}, **nested}
    named = {name.replace("-", "_"): value for name, value in flat.items()}
    known = {f.name for f in (*fields(TrainOptions), *fields(HMASDConfig))} - set(NOT_IN_FILES)
    for name in named:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; `echelon hmasd train --help` lists the options"
            raise ValueError(f"{path}: there is no option {name!r}{hint}")
    return named


def _start(path: Path, content: Mapping[str, Any]) -> TrainOptions:
    from echelon.hmasd.presets import LITERATURE, PRESETS, for_algorithm, for_environment, preset

    if "preset" in content and content["preset"] is not None:
        if content["preset"] not in PRESETS:
            raise ValueError(f"{path}: preset {content['preset']!r} is unknown; use {', '.join(PRESETS)}")
        return preset(content["preset"])
    start, algorithm = for_environment(content.get("env", "uav1")), content.get("algorithm", "hmasd")
    return for_algorithm(start, algorithm) if algorithm in LITERATURE else start


def _env_options(path: Path, given: Any) -> tuple[str, ...]:
    """A list of name=value, or a table."""
    if isinstance(given, Mapping):
        return tuple(f"{name}={json.dumps(value)}" for name, value in given.items())
    if isinstance(given, list) and all(isinstance(option, str) for option in given):
        return tuple(given)
    raise ValueError(f'{path}: env_options must be a table, or a list of "name=value"; it is {given!r}')
