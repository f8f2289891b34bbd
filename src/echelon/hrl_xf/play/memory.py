"""What an agent remembers of its partners from day to day."""

from __future__ import annotations

from collections import defaultdict

DAYS = 12
"""How many days are remembered, today included."""


class PartnerMemory:
    """By partner and day: the most pieces of one offer of the partner's, or of one deal with it."""

    def __init__(self) -> None:
        self._most: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def tell(self, partner: str, step: int, quantity: int) -> None:
        """The partner asked for this many pieces, or agreed to them."""
        days = self._most[partner]
        days[step] = max(days.get(step, 0), quantity)
        for old in [day for day in days if day <= step - DAYS]:
            del days[old]

    def asked(self, partner: str, step: int) -> int:
        """The most pieces within the last days; 0 if there was nothing."""
        return max((q for day, q in self._most[partner].items() if day > step - DAYS), default=0)
