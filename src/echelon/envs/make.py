"""Environments by name."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import pkgutil
from collections.abc import Sequence
from typing import Any

from echelon.envs.foreign.world import EnvSetupError
from echelon.envs.vector import VectorEnv

KITCHENS = ("cramped_room", "asymmetric_advantages", "coordination_ring", "forced_coordination", "counter_circuit")
PARTICLES = ("simple_spread", "simple_speaker_listener")
BUILT_IN = (
    *("uav1", "uav2", "uav2-relay", "alice_and_bob"),
    *(f"overcooked:{kitchen}" for kitchen in KITCHENS),
    *PARTICLES,
)


def is_built_in(name: str) -> bool:
    """An environment of our own, by a name that is not a `package.module:factory`."""
    return ":" not in name or name.startswith("overcooked:")


def make_vector_env(
    name: str, num_envs: int, seed: int | Sequence[int] = 0, *, workers: int | None = None, **kwargs: Any
) -> VectorEnv:
    """B worlds of a built-in environment, or of the ParallelEnv that `package.module:factory` makes.

    `kwargs` are the environment's own options. For third-party ones, `workers` is the number of processes (0: none,
    all in this process; None: one for each core), and `team_reward` is ours: "mean" of the agents that acted (for
    rewards they share), or "sum" (for individual rewards).
    """
    if name in BUILT_IN:
        if workers:
            raise EnvSetupError(f"{name} runs as arrays in this process, without workers; leave workers={workers} out")
        return _built_in(name, num_envs, seed, kwargs)
    if is_built_in(name):
        raise EnvSetupError(_unknown(name))
    _check_module(name)
    team_reward = kwargs.pop("team_reward", "mean")
    if workers == 0:
        from echelon.envs.foreign.vector import SerialVectorEnv

        return SerialVectorEnv(name, num_envs, seed, kwargs=kwargs, team_reward=team_reward)
    from echelon.envs.foreign.workers import WorkerVectorEnv

    return WorkerVectorEnv(name, num_envs, seed, kwargs=kwargs, team_reward=team_reward, workers=workers)


def _built_in(name: str, num_envs: int, seed: int | Sequence[int], kwargs: dict[str, Any]) -> VectorEnv:
    if name == "alice_and_bob":
        from echelon.envs.alice_and_bob import AliceAndBob

        _check_options(name, AliceAndBob, kwargs)
        return AliceAndBob(num_envs, seed, **kwargs)
    if name.startswith("overcooked:"):
        from echelon.envs.overcooked.env import Overcooked

        _check_options(name, Overcooked, kwargs)
        return Overcooked(name.removeprefix("overcooked:"), num_envs, seed, **kwargs)
    if name in PARTICLES:
        from echelon.envs.mpe.speaker_listener import SimpleSpeakerListener
        from echelon.envs.mpe.spread import SimpleSpread

        particles = SimpleSpread if name == "simple_spread" else SimpleSpeakerListener
        _check_options(name, particles, kwargs)
        return particles(num_envs, seed, **kwargs)
    from echelon.envs.uav.config import uav_config
    from echelon.envs.uav.env import UAVEnv

    return UAVEnv(uav_config(name, **kwargs), num_envs, seed, name=name)


def _check_options(name: str, env: type[VectorEnv], kwargs: dict[str, Any]) -> None:
    """Options are the keyword arguments of the class."""
    parameters = inspect.signature(env).parameters.values()
    known = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if wrong := sorted(set(kwargs) - set(known)):
        raise EnvSetupError(f"{name} has no option {', '.join(wrong)}; it has {', '.join(known)}")


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, BUILT_IN, n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"unknown environment {name!r}; use {', '.join(BUILT_IN)}, or package.module:factory.{hint}"


def _check_module(path: str) -> None:
    """Tell a wrong module name here, before any process starts; only its parent packages are imported."""
    module, _, factory = path.partition(":")
    if not module or not factory or ":" in factory:
        raise EnvSetupError(f"{path!r} must be package.module:factory, like mpe2.simple_spread_v3:parallel_env")
    try:
        found = importlib.util.find_spec(module)
    except ImportError as error:
        raise EnvSetupError(f"{path}: {error}; install the package or correct the name") from None
    if found is None:
        package, _, last = module.rpartition(".")
        near: list[str] = []
        parent = importlib.util.find_spec(package) if package else None
        if parent is not None and parent.submodule_search_locations is not None:
            siblings = [m.name for m in pkgutil.iter_modules(parent.submodule_search_locations)]
            near = difflib.get_close_matches(last, siblings, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(f'{package}.{n}:{factory}' for n in near)}?" if near else ""
        raise EnvSetupError(f"{path}: there is no module {module}{hint or '; install it or correct the name'}")
