"""Which runs a bench has, and what of its options is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from echelon.hmasd.bench.plan import plan_runs
from echelon.hmasd.options import BenchOptions


def test_environments_times_algorithms_times_seeds() -> None:
    runs = plan_runs(BenchOptions(envs="alice_and_bob,simple_spread", algorithms="hmasd,mappo", seeds=2, first_seed=7))
    assert [run.name for run in runs] == [
        "alice_and_bob-hmasd-s7", "alice_and_bob-mappo-s7", "simple_spread-hmasd-s7", "simple_spread-mappo-s7",
        "alice_and_bob-hmasd-s8", "alice_and_bob-mappo-s8", "simple_spread-hmasd-s8", "simple_spread-mappo-s8",
    ]  # fmt: skip
    configs = [run.options.config for run in runs]
    assert [config.seed for config in configs] == [7] * 4 + [8] * 4
    assert configs[2].env == "simple_spread"
    assert (configs[2].k, configs[3].envs) == (5, 128)  # of the preset, and of the algorithm on it
    assert configs[1].algorithm == "mappo"
    assert len({run.options.directory for run in runs}) == 8


def test_sweeps_multiply_and_what_only_skills_use_is_not_repeated_without_them() -> None:
    sweep = ("lambda-agent=0.02,0.2", "lr=1e-3,3e-4,1e-4")
    runs = plan_runs(BenchOptions(sweep=sweep, seeds=1))
    hmasd, mappo = ([run for run in runs if run.algorithm == name] for name in ("hmasd", "mappo"))
    assert [(run.options.config.lambda_agent, run.options.config.lr) for run in hmasd] == [
        (0.02, 1e-3), (0.02, 3e-4), (0.02, 1e-4), (0.2, 1e-3), (0.2, 3e-4), (0.2, 1e-4),
    ]  # fmt: skip
    assert [run.options.config.lr for run in mappo] == [1e-3, 3e-4, 1e-4]
    assert hmasd[0].label == "hmasd lambda_agent=0.02 lr=0.001"
    assert mappo[0].label == "mappo lr=0.001"
    assert hmasd[0].name == "alice_and_bob-hmasd-lambda_agent=0.02-lr=0.001-s1"


def test_shared_options_are_of_their_own_kind() -> None:
    given = ("total_steps=5e5", "samples-per-update=12_800", "recurrent=True", "kl_stop=null", "final_lr=1")
    (run,) = plan_runs(BenchOptions(set=given, algorithms="hmasd", seeds=1))
    config = run.options.config
    assert (config.total_steps, config.samples_per_update, config.recurrent) == (500_000, 12_800, True)
    assert isinstance(config.total_steps, int)
    assert config.kl_stop is None
    assert run.name == "alice_and_bob-hmasd-s1"  # what all share is not in a name
    assert (run.options.eval_every, run.options.checkpoint_every) == (25_000, 25_000)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"set": ("lamda_agent=1",)}, "there is no option 'lamda_agent' to set or sweep; did you mean lambda_agent?"),
        ({"set": ("seed=1",)}, "seed is not an option to set or sweep; use --seeds and --first-seed"),
        ({"sweep": ("epochs=1.5",)}, "epochs=1.5: Expected `int`, got `float`"),
        ({"sweep": ("k",)}, "'k' must be name=value"),
        ({"sweep": ("k=1,2", "k=3")}, "give all values of an option in one sweep"),
        ({"sweep": ("k=5,10",), "set": ("k=5",)}, "k is in --set and in --sweep"),
        ({"sweep": ("k=5,5",)}, "two runs would have the folder alice_and_bob-hmasd-k=5-s1"),
        ({"set": ("samples_per_update=1000",)}, "samples_per_update=1000 is not a multiple of envs=128"),
        ({"set": ("coordinator_discount=never",)}, "coordinator_discount=never: Invalid enum value 'never'"),
        ({"algorithms": "hmasd,ppo"}, "there is no algorithm 'ppo'; use hmasd, mappo"),
        ({"envs": " , "}, "--envs ' , ' names nothing"),
    ],
)
def test_wrong_options_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plan_runs(BenchOptions(**given))


@pytest.mark.parametrize("change", [{"seeds": 0}, {"resamples": 0}, {"first_seed": -1}, {"eval_every": 0}])
def test_wrong_counts_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        BenchOptions(**change)


def test_a_factory_is_a_folder_name_without_a_colon() -> None:
    (run,) = plan_runs(BenchOptions(envs="package.module:factory", algorithms="mappo", seeds=1))
    assert run.name == "package.module-factory-mappo-s1"
    assert run.options.directory == Path("runs/bench/runs") / run.name


def test_the_plan_loads_without_torch_or_numpy() -> None:
    code = "import sys, echelon.hmasd.bench.plan; sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
