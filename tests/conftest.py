"""What every test relies on: one torch thread, profiles of Hypothesis, time limits, logging as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests.laws import MANY, REPEATABLE

torch.set_num_threads(1)  # a second one makes small networks slower, and results must not depend on the machine
# A law is not wrong because the machine is busy: neither a deadline nor the check that examples are made fast.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(REPEATABLE, PATIENT, max_examples=100, derandomize=True)
settings.register_profile(MANY, PATIENT, max_examples=2000, print_blob=True)
settings.load_profile(REPEATABLE)  # `pytest --hypothesis-profile many` loads the other one afterwards

SLOW_LIMIT = 1800.0
"""Seconds for a test that is marked slow, or that looks at many more examples."""


@pytest.hookimpl(trylast=True)  # Hypothesis marks its tests in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only long tests may take longer than the limit of pyproject.toml."""
    many = settings.get_current_profile_name() == MANY
    for item in items:
        if item.get_closest_marker("slow") or (many and item.get_closest_marker("hypothesis")):
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT))


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command sets up logging to the streams of its test; the next test has others."""
    logger = logging.getLogger("echelon")
    handlers, propagate, level = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which parsed logs are kept for all tests of this process."""
    return tmp_path_factory.mktemp("cache")
