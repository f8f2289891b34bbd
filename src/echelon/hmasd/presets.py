"""Presets: options that belong together. Imports neither torch nor numpy.

`alice_and_bob-paper` and `overcooked-paper` have the values of the paper's tables, `alice_and_bob` and `overcooked`
those that a search found to work (docs/notebook.md and docs/results/overcooked.md say what matters). `uav1`, `uav2` and
`uav2-relay` are options under which these worlds are learnt; `…-as-given` is the user's configuration to the letter.
With `--env` (not with `--preset`) algorithms without skills have the values of their own papers.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from echelon.hmasd.config import Algorithm, HMASDConfig
from echelon.hmasd.config_file import model_options, read_options
from echelon.hmasd.options import TrainOptions

_ALICE_PAPER = HMASDConfig(
    env="alice_and_bob",
    total_steps=3_000_000,
    samples_per_update=3200,
    k=50,
    team_skills=2,
    agent_skills=4,
    lambda_h=0.1,
    lambda_l=0.01,
    lambda_e=0.0,
    lambda_team=0.1,
    lambda_agent=0.2,
    skill_baseline=False,
    relative_intrinsic=False,
    encoder_layers=1,
    decoder_layers=1,
    heads=1,
    recurrent_chunk=10,
    lr=5e-4,
    max_grad_norm=10.0,
)

# Small intrinsic rewards, and advantages divided by 1 or more, so that skills diverge slowly: the longer agents spread
# evenly, the more surely they find the reward before each skill has settled on a place and exploration ends.
_ALICE = replace(
    _ALICE_PAPER,
    total_steps=1_500_000,
    envs=128,
    samples_per_update=12_800,
    agent_skills=8,
    lambda_h=0.02,
    lambda_e=50.0,
    lambda_team=0.004,
    lambda_agent=0.02,
    skill_baseline=True,
    critic_sees_skills=True,
    advantage_std_floor=0.1,
    discoverer_std_floor=1.0,
    recurrent=False,
    kl_stop=0.03,
)

# Whole episodes of 400 steps per round; the number of steps is not in the paper's tables.
_OVERCOOKED_PAPER = replace(
    _ALICE_PAPER,
    env="overcooked:cramped_room",
    total_steps=10_000_000,
    samples_per_update=12_800,
    k=25,
    team_skills=3,
    agent_skills=3,
    lambda_h=0.01,
    lambda_l=0.01,
    lambda_e=100.0,
    lambda_team=1.0,
    lambda_agent=0.5,
    lr=1e-4,
)

# Rewards for parts of the work, which vanish over the first 640,000 steps (64 worlds of 10,000 steps each). Soups of
# fewer than three onions, which earn nothing, are not among them: runs that learnt to make those served none of three.
_OVERCOOKED = replace(
    _OVERCOOKED_PAPER,
    env_options=("shaping=1", "shaping_steps=10000", "shape_small_soups=false"),
    total_steps=1_280_000,
    envs=64,
    samples_per_update=6400,
    lambda_l=0.01,
    lambda_e=1.0,
    lambda_team=0.002,
    lambda_agent=0.004,
    relative_intrinsic=True,
    skill_baseline=True,
    recurrent=False,
    lr=5e-4,
    final_lr=5e-5,
    epochs=5,
    discriminator_epochs=5,
    minibatches=8,
    kl_stop=0.03,
)

# Rounds of whole, short episodes, and many small steps of the optimiser: simulating costs little here, learning much. A
# horizon of 50 steps (a UAV crosses the area in 33), no bonus for random actions, and noise that can be small at rest
# and large on the way.
_UAV = HMASDConfig(
    env_options=("max_steps=100",),
    total_steps=640_000,
    envs=64,
    samples_per_update=6400,
    lambda_h=0.01,
    lambda_l=0.0,
    state_noise=True,
    encoder_layers=1,
    decoder_layers=1,
    heads=1,
    recurrent=False,
    lr=7e-4,
    final_lr=1e-4,
    epochs=3,
    discriminator_epochs=1,
    minibatches=16,
    gamma=0.98,
    max_grad_norm=10.0,
)

# Whole episodes of 25 steps. What an action does shows within a few steps: a horizon of 10 has far less noise.
_SPREAD = HMASDConfig(
    env="simple_spread",
    total_steps=1_500_000,
    envs=128,
    samples_per_update=3200,
    k=5,
    lambda_h=0.01,
    encoder_layers=1,
    decoder_layers=1,
    heads=1,
    recurrent=False,
    lr=7e-4,
    final_lr=1e-4,
    epochs=5,
    discriminator_epochs=1,
    minibatches=4,
    gamma=0.9,
    max_grad_norm=10.0,
)

# What the papers of the other algorithms share over their tasks: MAPPO (Yu et al. 2022, tables of common values; IPPO
# is measured there with the same ones), MAT (Wen et al. 2022: one block, one head, a narrow clip). Tasks keep their
# worlds, rounds, steps and, but for MAT, recurrence.
_MAPPO: dict[str, Any] = {
    "lr": 5e-4, "final_lr": None, "epochs": 10, "minibatches": 1, "clip": 0.2, "gamma": 0.99, "gae_lambda": 0.95,
    "value_coef": 1.0, "max_grad_norm": 10.0, "kl_stop": None, "lambda_l": 0.01, "hidden": 64,
    "discoverer_std_floor": 1e-5, "state_noise": False,
}  # fmt: skip
_MAT = {**_MAPPO, "clip": 0.05, "encoder_layers": 1, "decoder_layers": 1, "heads": 1, "recurrent": False}
LITERATURE: dict[Algorithm, dict[str, Any]] = {"mappo": _MAPPO, "ippo": _MAPPO, "mat": _MAT}

# On MPE MAPPO's learning rate and 128 worlds, and of the preset the horizon and the steps of the optimiser: with the
# paper's own (gamma .99, 10 epochs of one mini-batch, GRU) go runs of 20 million steps.
PARTICLES = ("simple_spread", "simple_speaker_listener")
_MPE: dict[str, Any] = {"lr": 7e-4, "final_lr": 1e-4, "epochs": 5, "minibatches": 4, "gamma": 0.9}

# The user's configuration to the letter: its bonus is always a cost, and larger than the reward.
_AS_GIVEN = HMASDConfig(lambda_team=0.1, lambda_agent=0.5, relative_intrinsic=False, skill_baseline=False)
UAVS = ("uav1", "uav2", "uav2-relay")

PRESETS: dict[str, TrainOptions] = {
    "alice_and_bob": TrainOptions(config=_ALICE, eval_episodes=100),
    "alice_and_bob-paper": TrainOptions(config=_ALICE_PAPER, eval_episodes=100),
    "overcooked": TrainOptions(config=_OVERCOOKED, eval_episodes=32),
    "overcooked-paper": TrainOptions(config=_OVERCOOKED_PAPER, eval_episodes=32),
    **{env: TrainOptions(config=replace(_UAV, env=env), eval_greedy=True, eval_episodes=32) for env in UAVS},
    **{f"{env}-as-given": TrainOptions(config=replace(_AS_GIVEN, env=env), eval_greedy=True) for env in UAVS},
    "spread": TrainOptions(config=_SPREAD, eval_episodes=32),
    "speaker_listener": TrainOptions(config=replace(_SPREAD, env="simple_speaker_listener"), eval_episodes=32),
}


def preset(name: str) -> TrainOptions:
    """The options of a preset; an unknown name is one clear error."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"preset {name!r} is unknown; use {', '.join(PRESETS)}.{hint}")
    return replace(PRESETS[name], preset=name)


def train_defaults(arguments: Sequence[str]) -> TrainOptions:
    """Defaults of the train command: those of --config, --preset, --env or the model to evaluate."""
    if (file := _value(arguments, "--config")) is not None:
        return replace(read_options(Path(file)), config_file=Path(file))
    model = _value(arguments, "--model-path")
    if "--eval-only" in arguments and model is not None and (its := model_options(Path(model))) is not None:
        return its
    if (name := _value(arguments, "--preset")) is not None:
        return preset(name)
    options, algorithm = for_environment(_value(arguments, "--env") or "uav1"), _value(arguments, "--algorithm")
    named = [known for known in get_args(Algorithm) if known == algorithm]
    return for_algorithm(options, named[0]) if named else options


def for_environment(env: str) -> TrainOptions:
    """The preset of an environment, by its name or by the environment it is for; else the plain options."""
    names = [name for name, options in PRESETS.items() if env in (name, options.config.env)]
    if names:
        return preset(names[0])
    ours = _short(env)
    if env.startswith("mpe2.") and ours in PARTICLES:  # the same worlds from their own package: the same options
        found = for_environment(ours)
        return replace(found, config=replace(found.config, env=env))
    if env.startswith("overcooked:"):  # the other kitchens start from the same options
        return replace(PRESETS["overcooked"], config=replace(_OVERCOOKED, env=env))
    return TrainOptions(config=HMASDConfig(env=env))


def _short(env: str) -> str:
    """An environment's name without package, version and factory: simple_spread of mpe2.simple_spread_v3:…"""
    return re.sub(r"_v\d+$", "", env.partition(":")[0].rpartition(".")[2])


def for_algorithm(options: TrainOptions, algorithm: Algorithm) -> TrainOptions:
    """An environment's options for an algorithm; others than HMASD learn with the values of their own papers."""
    values = dict(LITERATURE.get(algorithm, {}))
    if values and _short(options.config.env) in PARTICLES:
        values |= _MPE
    return replace(options, config=replace(options.config, algorithm=algorithm, **values))


def _value(arguments: Sequence[str], flag: str) -> str | None:
    """What follows a flag, as `--flag value` or `--flag=value`; the last one counts."""
    found = None
    for i, argument in enumerate(arguments):
        if argument == flag and i + 1 < len(arguments):
            found = arguments[i + 1]
        elif argument.startswith(f"{flag}="):
            found = argument.partition("=")[2]
    return found
