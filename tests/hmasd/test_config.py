"""The options refuse what cannot be trained, with a cure."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.options import TrainOptions
from tests.hmasd.small import SMALL, small


def test_a_round_is_an_equal_share_of_every_world() -> None:
    with pytest.raises(ValueError, match=r"^samples_per_update=1000 is not a multiple of envs=32; use 992 or 1024$"):
        HMASDConfig(samples_per_update=1000)
    with pytest.raises(ValueError, match=r"^samples_per_update=10 is not a multiple of envs=32; use 32$"):
        HMASDConfig(samples_per_update=10)


@pytest.mark.parametrize(("envs", "samples"), [(32, 512), (16, 1024), (16, 512)])
def test_the_sizes_the_documents_name_just_work(envs: int, samples: int) -> None:
    assert HMASDConfig(envs=envs, samples_per_update=samples).round_size(0) == samples


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k=0 must be at least 1"),
        ({"collectors": 3}, r"collectors=3 does not divide envs=4; use one of \[1, 2, 4\]"),
        ({"heads": 3}, "hidden=16 is not a multiple of heads=3"),
        ({"lambda_e": -1.0}, "lambda_e=-1.0 must not be negative"),
        ({"env_options": ("max_steps",)}, "env option 'max_steps' must be name=value"),
        ({"discoverer_std_floor": 0.0}, "^discoverer_std_floor=0.0 must be positive"),
        ({"final_lr": 0.0}, "final_lr=0.0 must be positive; leave it out to keep lr=0.001"),
        ({"epochs": 0}, "epochs=0 must be at least 1"),
    ],
)
def test_wrong_values_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**change)


def test_the_round_follows_progress_in_multiples_of_the_worlds() -> None:
    growing = small(total_steps=1000, samples_per_update=80, final_samples_per_update=160)
    assert [growing.round_size(steps) for steps in (0, 500, 1000, 5000)] == [80, 120, 160, 160]
    assert all(growing.round_size(steps) % growing.envs == 0 for steps in range(0, 1000, 7))


def test_the_learning_rate_follows_progress() -> None:
    assert small(total_steps=1000).learning_rate(500) == 1e-3
    slowing = small(total_steps=1000, final_lr=2e-4)
    assert [slowing.learning_rate(steps) for steps in (0, 500, 1000, 5000)] == pytest.approx([1e-3, 6e-4, 2e-4, 2e-4])


def test_how_segments_are_discounted_is_an_option_of_the_high_level_only() -> None:
    once = small(coordinator_discount="per_decision")
    assert (once.coordinator_ppo().discount, once.discoverer_ppo().discount) == ("per_decision", "per_step")
    assert SMALL.coordinator_ppo().discount == "per_step"
    with pytest.raises(ValueError, match="discount='never' must be 'per_step' or 'per_decision'"):
        small(coordinator_discount="never")


def test_environment_options_are_values() -> None:
    config = small(env_options=("max_steps=9", "user_distribution=cluster", "sensing_range=null", "flag=true"))
    expected = {"max_steps": 9, "user_distribution": "cluster", "sensing_range": None, "flag": True}
    assert config.environment_options() == expected


def test_json_and_back() -> None:
    assert HMASDConfig.from_json(SMALL.to_json()) == SMALL
    with pytest.raises(ValueError, match="unknown options depth"):
        HMASDConfig.from_json({**SMALL.to_json(), "depth": 3})


def test_eval_only_needs_a_model() -> None:
    with pytest.raises(ValueError, match="--eval-only needs --model-path"):
        TrainOptions(eval_only=True)


def test_workers_without_shares_would_idle() -> None:
    with pytest.raises(ValueError, match="--executor dask with --collectors 1 would use one worker"):
        TrainOptions(executor="dask")
