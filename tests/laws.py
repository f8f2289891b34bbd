"""How many examples a law is tested with.

`make test` uses the profile `repeatable`: the same examples each time, so what passed once passes again.
`make test-all` uses `many`: random ones, twenty times as many. A test says how many it wants in the first; the profile
scales it.
"""

from __future__ import annotations

from hypothesis import settings

REPEATABLE, MANY = "repeatable", "many"
_PLAIN = 100
"""examples of a test that asks for no number, in `repeatable`"""


def examples(number: int) -> settings:
    """A decorator: `number` examples in the profile `repeatable`, as many times more as another profile has."""
    return settings(max_examples=max(1, number * settings().max_examples // _PLAIN))
