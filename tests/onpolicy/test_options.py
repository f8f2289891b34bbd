"""Options refuse values without a meaning, and load without torch or numpy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from echelon.onpolicy.options import PPOOptions


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gamma", 1.01),
        ("gae_lambda", -0.1),
        ("epochs", 0),
        ("minibatches", 0),
        ("accumulate", 0),
        ("clip", 0.0),
        ("kl_stop", -1.0),
        ("max_grad_norm", 0.0),
        ("entropy_coef", -0.1),
        ("advantage_std_floor", 0.0),
        ("unit_reduction", "max"),
        ("discount", "per_world"),
    ],
)
def test_values_without_meaning_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        PPOOptions(**{name: value})


def test_options_load_without_torch_or_numpy() -> None:
    code = "import sys, echelon.onpolicy.options; sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
