"""Sets of entities: the part of an observation or a state that lists things of one kind, in an order without meaning.

A vector may list users, other agents or enemies one after the other. Whoever declares such a part lets the networks
treat all entities alike: each is embedded by the same weights, and what is known of the set does not depend on the
order. Absent entities (beyond sight, dead, places of the list that are not used) have a flag of 0 and no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self


@dataclass(frozen=True)
class EntitySet:
    """`count` entities of `width` numbers each, entity i at start + i * width of the vector."""

    name: str
    start: int
    count: int
    width: int
    present: int | None = None
    """where the flag of the first entity is: above 0 the entity is there; None: all always are"""
    present_step: int = 1
    """from one entity's flag to the next: 1 for flags side by side, `width` for a flag inside each entity"""
    origin: tuple[int, ...] = ()
    """places in the vector of the observer's own numbers that an entity's first numbers are compared with, such as its
    position: the networks see the differences"""
    place: int = 0
    """how many of an entity's first numbers, 0 to 2, are its place; the area should be about 1 wide, and without an
    origin begin at 0: the networks then see where entities lie, and how near those of other sets are to them"""

    def __post_init__(self) -> None:
        if self.start < 0 or self.count < 1 or self.width < 1:
            raise ValueError(f"{self}: start must be at least 0, count and width at least 1")
        if self.present is not None and (self.present < 0 or self.present_step < 1):
            raise ValueError(f"{self}: present must be at least 0 and present_step at least 1")
        if len(self.origin) > self.width or min(self.origin, default=0) < 0:
            raise ValueError(f"{self}: origin must name at most width={self.width} numbers of the vector")
        if not 0 <= self.place <= min(2, self.width, len(self.origin) if self.origin else 2):
            raise ValueError(f"{self}: place must be 0, 1 or 2, at most width, and with an origin at most its length")

    @property
    def end(self) -> int:
        """Behind the last number of the last entity."""
        return self.start + self.count * self.width

    @property
    def flags(self) -> range:
        """Where the flags are; empty without."""
        first = self.present
        return range(0) if first is None else range(first, first + self.count * self.present_step, self.present_step)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """What `dataclasses.asdict` made of a set; an unknown name is an error."""
        unknown = sorted(set(content) - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(f"a set of entities has no {', '.join(unknown)}; it has {[f.name for f in fields(cls)]}")
        return cls(**{**content, "origin": tuple(content.get("origin", ()))})


def check_sets(sets: Sequence[EntitySet], width: int, what: str) -> None:
    """Sets must lie inside a vector of `width` numbers, have different names and share no number."""
    taken: dict[int, str] = {}
    if len({s.name for s in sets}) != len(sets):
        raise ValueError(f"sets of entities of {what} need different names, not {[s.name for s in sets]}")
    for one in sets:
        last = max([one.end, *(place + 1 for place in (*one.flags, *one.origin))])
        if last > width:
            raise ValueError(f"set {one.name!r} of {what} reaches to {last}, but there are {width} numbers")
        for place in range(one.start, one.end):
            if place in taken:
                raise ValueError(f"number {place} of {what} is in the sets {taken[place]!r} and {one.name!r}")
            taken[place] = one.name


Sets = tuple[EntitySet, ...]


def declared_sets(metadata: Mapping[str, Any]) -> tuple[Sets, Sets]:
    """The sets of observation and state that a PettingZoo environment declares in its metadata.

    metadata = {"name": ..., "entity_sets": {"observation": [{"name": "users", "start": 3, "count": 50, "width": 2}]}}
    """
    told = metadata.get("entity_sets", {})
    if not isinstance(told, Mapping) or set(told) - {"observation", "state"}:
        raise ValueError(f"metadata['entity_sets'] must hold lists under 'observation' and 'state', not {told!r}")
    observation, state = (
        tuple(EntitySet.from_json(one) for one in told.get(key, ())) for key in ("observation", "state")
    )
    return observation, state


def joined_sets(sets: Sets, agents: Sequence[str], widths: Sequence[int]) -> Sets:
    """The sets of a state that is all observations side by side, agent by agent."""
    found: list[EntitySet] = []
    begin = 0
    for agent, width in zip(agents, widths, strict=True):
        for one in sets:
            present = None if one.present is None else begin + one.present
            origin = tuple(begin + place for place in one.origin)
            moved = replace(one, name=f"{agent}.{one.name}", start=begin + one.start, present=present, origin=origin)
            found.append(moved)
        begin += width
    return tuple(found)
