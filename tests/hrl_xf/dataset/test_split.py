"""Configurations are never divided, stay where they are as data grow, and changed wishes are noticed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hrl_xf.dataset.split import SPLITS, WorldSplit, world_split
from tests.hrl_xf.log_examples import plain_logging

CONFIGS = [f"s0-c{i:04d}" for i in range(40)]


def split_of(
    folder: Path, configs: list[str], val: float = 0.2, test: float = 0.1, seed: int = 0, **kw: bool
) -> WorldSplit:
    return world_split(folder, configs, val_ratio=val, test_ratio=test, seed=seed, **kw)


def test_ratios_are_kept_and_the_file_is_read_again(tmp_path: Path) -> None:
    split = split_of(tmp_path, CONFIGS)
    assert [len(split.of(s)) for s in SPLITS] == [28, 8, 4]
    written = (tmp_path / "world_split.json").read_bytes()
    assert split_of(tmp_path, list(reversed(CONFIGS))) == split
    assert (tmp_path / "world_split.json").read_bytes() == written


def test_another_seed_divides_otherwise(tmp_path: Path) -> None:
    assert split_of(tmp_path / "a", CONFIGS, seed=1).of("val") != split_of(tmp_path / "b", CONFIGS, seed=2).of("val")


def test_new_configurations_move_nobody(tmp_path: Path) -> None:
    small = split_of(tmp_path, CONFIGS[:10])
    grown = split_of(tmp_path, CONFIGS)
    assert small.configs.items() <= grown.configs.items()
    assert [len(grown.of(s)) for s in SPLITS] == [28, 8, 4]
    assert split_of(tmp_path, CONFIGS[:5]) == grown  # data that are gone keep their place


@pytest.mark.parametrize(("change", "named"), [({"val": 0.3}, "val_ratio 0.2 -> 0.3"), ({"seed": 5}, "seed 0 -> 5")])
def test_other_ratios_or_another_seed_are_an_error_or_asked_for(
    tmp_path: Path, change: dict[str, float], named: str
) -> None:
    split_of(tmp_path, CONFIGS)
    with pytest.raises(ValueError, match=named):
        split_of(tmp_path, CONFIGS, **change)  # type: ignore[arg-type]
    again = split_of(tmp_path, CONFIGS, regenerate=True, **change)  # type: ignore[arg-type]
    assert split_of(tmp_path, CONFIGS, **change) == again  # type: ignore[arg-type]


def test_few_configurations_fill_every_split_as_soon_as_they_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert [len(split_of(tmp_path / "3", CONFIGS[:3], 0.1, 0.05).of(s)) for s in SPLITS] == [1, 1, 1]
    assert [len(split_of(tmp_path / "6", CONFIGS[:6], 0.1, 0.05).of(s)) for s in SPLITS] == [4, 1, 1]
    assert [len(split_of(tmp_path / "0", CONFIGS[:6], 0.0, 0.0).of(s)) for s in SPLITS] == [6, 0, 0]
    with plain_logging(), caplog.at_level(logging.WARNING):
        alone = split_of(tmp_path / "1", CONFIGS[:1], 0.1, 0.05)
    assert alone.of("train") == CONFIGS[:1]
    assert "val and test is empty" in caplog.text


def test_nothing_left_to_train_on_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leave something to train on"):
        split_of(tmp_path, CONFIGS, 0.6, 0.4)


def test_a_damaged_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "world_split.json").write_text("{")
    with pytest.raises(ValueError, match="--regen-split"):
        split_of(tmp_path, CONFIGS)


@given(st.sets(st.text(min_size=1), max_size=30), st.floats(0, 0.45), st.floats(0, 0.45), st.integers(0, 99))
def test_every_configuration_has_one_place_and_sizes_are_near_the_ratios(
    names: set[str], val: float, test: float, seed: int
) -> None:
    split = WorldSplit(seed=seed, val_ratio=val, test_ratio=test).extended(names)
    assert set(split.configs) == names
    n = len(names)
    for name, ratio in (("train", 1 - val - test), ("val", val), ("test", test)):
        count = len(split.of(name))  # type: ignore[arg-type]
        assert abs(count - ratio * n) <= 2.0
        if n >= 3 and ratio > 0:
            assert count >= 1
