"""What options have in common when they refuse a value."""

from __future__ import annotations


def at_least_one(options: object, *names: str) -> None:
    """Refuse counts below 1."""
    for name in names:
        if getattr(options, name) < 1:
            raise ValueError(f"{_option(name)} {getattr(options, name)} must be at least 1")


def not_negative(options: object, *names: str) -> None:
    """Refuse numbers below 0; None is none."""
    for name in names:
        if (getattr(options, name) or 0) < 0:
            raise ValueError(f"{_option(name)} {getattr(options, name)} must not be negative")


def positive(options: object, *names: str) -> None:
    """Refuse 0, numbers below and NaN."""
    for name in names:
        if not getattr(options, name) > 0:
            raise ValueError(f"{_option(name)} {getattr(options, name)} must be positive")


def long_enough(steps: int | None) -> None:
    """Refuse worlds that end before a product is made."""
    if steps is not None and steps < 5:
        raise ValueError(f"--steps {steps} is too short: a chain of four levels needs 5 days; use at least 5")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
