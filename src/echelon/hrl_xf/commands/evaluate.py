"""`echelon hrl evaluate`: a trained layer on worlds it has not seen, as lines on the console and as JSON."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from echelon.hrl_xf.dataset.split import FILE, WorldSplit
from echelon.hrl_xf.dataset.tournament import open_tournament
from echelon.hrl_xf.learning import disagreement
from echelon.hrl_xf.learning.critic import evaluate_critic
from echelon.hrl_xf.learning.evaluation import evaluate_disagreement, evaluate_l2, evaluate_l3, evaluate_l4
from echelon.hrl_xf.learning.figures import Figures
from echelon.hrl_xf.options.train import EvaluateOptions
from echelon.runtime.devices import device_of
from echelon.runtime.files import write_json

log = logging.getLogger(__name__)


def run(options: EvaluateOptions) -> int:
    """The command: figures on the console and in the run's folder."""
    device_of(options.device)
    agents = "all" if options.layer == "critic" else options.agent_name
    data = open_tournament(
        options.data_dir, agents, options.num_workers, cache_dir=options.cache_dir,
        horizon=options.horizon, quiet=options.quiet,
    )  # fmt: skip
    split = read_split(options.output_dir)
    if options.disagreement:
        figures = evaluate_disagreement(data, split, options)
        name, named, text = "disagreement", {}, disagreement.tables(figures)
    else:
        made = {"l2": evaluate_l2, "l3": evaluate_l3, "l4": evaluate_l4, "critic": evaluate_critic}
        figures = made[options.layer](data, split, options)
        name, named, text = f"evaluation_{options.layer}", {"layer": options.layer}, lines(figures)
    path = options.output_dir / f"{name}_{options.split}.json"
    write_json(path, {"format_version": 1, **named, "split": options.split, **_jsonable(figures)})
    for line in text:
        log.info("%s", line)
    log.info("all figures: %s", path)
    return 0


def read_split(folder: Path) -> WorldSplit:
    """The run's division of worlds."""
    path = folder / FILE
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give the --output-dir of a training")
    return msgspec.json.decode(path.read_bytes(), type=WorldSplit)


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _jsonable(v) for name, v in value.items()}
    if isinstance(value, list):
        return [_jsonable(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def lines(figures: Figures, indent: int = 0) -> list[str]:
    """Figures as text: a line for each group of numbers."""
    pad = "  " * indent
    numbers = {n: v for n, v in figures.items() if isinstance(v, int | float)}
    shown = [f"{pad}" + "  ".join(f"{n} {v:,}" if isinstance(v, int) else f"{n} {v:.4g}" for n, v in numbers.items())]
    found = shown if numbers else []
    for name, group in figures.items():
        if isinstance(group, dict):
            below = lines(group, indent + 1)
            flat = len(below) == 1
            found += [f"{pad}{name}: {below[0].strip()}"] if flat else [f"{pad}{name}:", *below]
    return found
