"""The runs of a bench: environments x algorithms x swept settings x seeds. Imports neither torch nor numpy."""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from echelon.hmasd.config import Algorithm, HMASDConfig
from echelon.hmasd.options import BenchOptions, TrainOptions
from echelon.hmasd.presets import for_algorithm, for_environment

RUNS = "runs"
EVALUATIONS = 20
"""of one training, where the options do not say how often"""
NOT_SETTINGS = {
    "env": "use --envs",
    "env_options": "use a preset, or a factory of your own",
    "algorithm": "use --algorithms",
    "seed": "use --seeds and --first-seed",
}

SKILL_OPTIONS = frozenset(
    {
        "k", "team_skills", "agent_skills", "lambda_h", "lambda_e", "lambda_team", "lambda_agent", "relative_intrinsic",
        "skill_baseline", "critic_sees_skills", "advantage_std_floor", "coordinator_discount", "discriminator_epochs",
    }
)  # fmt: skip
"""options without effect where there are no skills: sweeping them there would repeat one run"""

Settings = tuple[tuple[str, Any], ...]
"""Options by name, in the order they were given."""


@dataclass(frozen=True)
class PlannedRun:
    """One run."""

    name: str
    """its folder, below the bench's"""
    env: str
    """as the bench's options name it"""
    algorithm: str
    settings: Settings
    """what was swept, with this run's values"""
    seed: int
    options: TrainOptions

    @property
    def label(self) -> str:
        """The algorithm, with the swept values of its options: what runs have in common that differ by their seed."""
        return " ".join([self.algorithm, *(f"{name}={_text(value)}" for name, value in self.settings)])


def plan_runs(options: BenchOptions) -> list[PlannedRun]:
    """All runs, seed by seed, so that a bench stopped early has something of everything."""
    envs, algorithms = _names("envs", options.envs), _names("algorithms", options.algorithms)
    for algorithm in algorithms:
        if algorithm not in get_args(Algorithm):
            raise ValueError(f"there is no algorithm {algorithm!r}; use {', '.join(get_args(Algorithm))}")
    shared = tuple((name, one_value(name, text)) for name, text in map(_named, options.set))
    grid = settings_of(options.sweep)
    both = sorted({name for name, _ in shared} & {name for settings in grid for name, _ in settings})
    if both:
        raise ValueError(f"{both[0]} is in --set and in --sweep; leave one of them out")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    planned = [
        _run(options, env, algorithm, shared, settings, seed)
        for seed, env, algorithm in itertools.product(seeds, envs, algorithms)
        for settings in for_one_algorithm(grid, algorithm)
    ]
    names = [run.name for run in planned]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two runs would have the folder {twice[0]}; give each environment and value once")
    return planned


def settings_of(sweep: Sequence[str]) -> list[Settings]:
    """The grid of all combinations; one empty setting where nothing is swept."""
    options = [(name, tuple(text.split(","))) for name, text in map(_named, sweep)]
    names = [name for name, _ in options]
    if len(set(names)) < len(names):
        raise ValueError(f"--sweep names {', '.join(names)}: give all values of an option in one sweep")
    axes = [[(name, one_value(name, text)) for text in texts] for name, texts in options]
    return [tuple(combination) for combination in itertools.product(*axes)]


def for_one_algorithm(grid: Sequence[Settings], algorithm: str) -> list[Settings]:
    """The settings that differ for this algorithm, each once."""
    if algorithm == "hmasd":
        return list(grid)
    kept = (tuple((name, value) for name, value in settings if name not in SKILL_OPTIONS) for settings in grid)
    return list(dict.fromkeys(kept))


def one_value(name: str, text: str) -> Any:
    """The value of an option of the config, of the option's own kind."""
    if name in NOT_SETTINGS:
        raise ValueError(f"{name} is not an option to set or sweep; {NOT_SETTINGS[name]}")
    kinds = get_type_hints(HMASDConfig)
    if name not in HMASDConfig.__dataclass_fields__:
        near = difflib.get_close_matches(name, HMASDConfig.__dataclass_fields__, n=1)
        hint = f"did you mean {near[0]}?" if near else "`echelon hmasd train --help` lists the options"
        raise ValueError(f"there is no option {name!r} to set or sweep; {hint}")
    plain = text.strip().replace("_", "") if re.fullmatch(r"[\d_]+", text.strip()) else text.strip()
    try:
        value = json.loads(plain)
    except ValueError:
        value = {"True": True, "False": False, "None": None}.get(plain, plain)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 5e5 steps; where a float is wanted it becomes one again
    try:
        return msgspec.convert(value, kinds[name], strict=True)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}={text}: {error}; give a value of the option's type") from None


def _run(bench: BenchOptions, env: str, algorithm: Any, shared: Settings, settings: Settings, seed: int) -> PlannedRun:
    start = for_algorithm(for_environment(env), algorithm)
    config = replace(start.config, **dict((*shared, *settings)), seed=seed)
    every = bench.eval_every or max(config.total_steps // EVALUATIONS, 1)
    parts = [env, algorithm, *(f"{name}={_text(value)}" for name, value in settings), f"s{seed}"]
    name = "-".join(re.sub(r"[^\w.+=]+", "-", part) for part in parts)
    options = replace(
        start,
        config=config,
        output_dir=Path(bench.output_dir) / RUNS / name,
        eval_every=every,
        eval_episodes=bench.eval_episodes or start.eval_episodes,
        eval_executor="serial",  # a run has one core: it waits for its evaluations
        env_workers=0,
        checkpoint_every=every,
        keep_checkpoints=2,
        no_tensorboard=True,
        wandb=bench.wandb,
        quiet=True,
    )
    return PlannedRun(name, env, algorithm, settings, seed, options)


def _names(option: str, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError(f"--{option} {text!r} names nothing; separate names by commas")
    return list(dict.fromkeys(names))


def _named(text: str) -> tuple[str, str]:
    """`name=value` with the option's Python name."""
    name, equals, value = text.partition("=")
    if not equals or not value:
        raise ValueError(f"{text!r} must be name=value, such as lambda_agent=0.02,0.2")
    return name.strip().replace("-", "_"), value


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else json.dumps(value)
