"""Sets of entities as numbers that do not depend on their order: deep sets, and maps of entities with a place."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.envs.entities import EntitySet, Sets

REACH = 4.0
"""Gain of the first layer of a set: how finely it tells places apart before anything is learnt."""
GRID, SPACING, BLUR = 7, 0.15, 0.3
"""Of the points around which entities with a place are counted: how many per axis, how far apart, how far each sees."""
RANGES = (0.2, 0.1)
"""Distances at which entities of one set are near those of another; each is half of the one before it."""


class EntityLayers(nn.Module):
    """relu(W_2 relu(W_1 e + V c + b_1) + b_2) of each entity e, the same for all; c is what is known beside it."""

    def __init__(self, entity: int, context: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(entity, width), nn.Linear(width, width)
        self.context = nn.Linear(context, width, bias=False) if context else None
        nn.init.orthogonal_(self.first.weight, REACH)
        nn.init.uniform_(self.first.bias, -REACH / 4, REACH / 4)
        nn.init.orthogonal_(self.second.weight, 2**0.5)
        nn.init.zeros_(self.second.bias)
        if self.context is not None:
            nn.init.orthogonal_(self.context.weight, 0.1)

    def forward(self, entities: Tensor, context: Tensor) -> Tensor:
        """(M, count, entity) and (M, context) -> (M, count, width)"""
        rows, count = entities.shape[:2]
        h: Tensor = self.first(entities.flatten(0, 1))
        if self.context is not None:
            h = (h.view(rows, count, -1) + self.context(context).unsqueeze(1)).flatten(0, 1)
        return torch.relu(self.second(torch.relu(h))).view(rows, count, -1)


class PlaceLayers(nn.Module):
    """Where a set's entities lie: soft counts around the points p of a grid, in two maps.

    c(p) = sum_j w_j b(x_j - p_x) b(y_j - p_y), b(d) = max(1 - (d / BLUR)^2, 0)^2, shown as c / (c + half). In the first
    map every entity counts w_j = 1; in the second w_j = sigmoid(W f_j + b) of what is known of it beside its place.
    """

    def __init__(self, one: EntitySet, known: int) -> None:
        super().__init__()
        self.axes, maps = one.place, 2 if known else 1
        points = (0.0 if one.origin else 0.5) + SPACING * (torch.arange(GRID) - (GRID - 1) / 2)
        self.register_buffer("_points", points.unsqueeze(1), persistent=False)
        self._points: Tensor
        self.weigh = nn.Linear(known, 1) if known else None
        self.log_half = nn.Parameter(torch.full((maps, 1), max(one.count / 10, 1.0)).log())
        self.outputs = maps * GRID**one.place
        if self.weigh is not None:
            nn.init.orthogonal_(self.weigh.weight, REACH)
            nn.init.zeros_(self.weigh.bias)

    def forward(self, places: Tensor, known: Tensor, there: Tensor | None) -> Tensor:
        """(M, place, count), (M, known, count) and (M, count) -> (M, outputs)"""
        offsets = [(at.unsqueeze(1) - self._points) / BLUR for at in places.unbind(1)]
        bumps = [torch.relu(1.0 - offset.square()).square() for offset in offsets]  # (M, GRID, count) for each axis
        first = bumps[0] if there is None else bumps[0] * there.unsqueeze(1)
        second = bumps[1] if self.axes > 1 else torch.ones_like(places)
        maps = [torch.bmm(first, second.transpose(1, 2)).flatten(1)]  # (M, GRID ** place)
        if self.weigh is not None:
            weight = torch.sigmoid(self.weigh.weight @ known + self.weigh.bias)  # (M, 1, count)
            maps.append(torch.bmm(first, (second * weight).transpose(1, 2)).flatten(1))
        counts = torch.stack(maps, 1)
        return (counts / (counts + self.log_half.exp())).flatten(1)


def nearness(places: Tensor, others: Tensor) -> list[Tensor]:
    """exp(-|place - other|^2 / 2 range^2) of places (M, place, count) and others (M, place, k), for each of `RANGES`.

    The entities are the last axis (M, k, count): operations on short last axes are slow.
    """
    squares = (places[:, 0].unsqueeze(1) - others[:, 0].unsqueeze(2)).square()
    for axis in range(1, places.shape[1]):
        squares = squares + (places[:, axis].unsqueeze(1) - others[:, axis].unsqueeze(2)).square()
    found = [torch.exp(squares * (-0.5 / RANGES[0] ** 2))]
    for _ in RANGES[1:]:
        found.append(found[-1].square().square())  # half the range: the fourth power
    return found


class SetEncoder(nn.Module):
    """A vector with each of its sets of entities replaced by numbers that do not depend on their order.

    Numbers of an entity are relative to the observer's where the set has an origin. A set whose entities have a place
    becomes maps (`PlaceLayers`); of each entity they know its other numbers, how many entities of the other sets with
    places from the same origin are near it, and, with an origin, how near the observer is in comparison. Any other set
    becomes the mean of its entities embedded by `EntityLayers`, over all places of the list: absent entities count as
    zeros, so that it also tells how many there are. Its context is all that is in no set, and what the sets declared
    before became. Without sets the encoder gives the vector back.
    """

    def __init__(self, inputs: int, sets: Sets, width: int) -> None:
        super().__init__()
        self.sets = sets
        listed = {place for one in sets for place in (*range(one.start, one.end), *one.flags)}
        rest = [place for place in range(inputs) if place not in listed]
        self.register_buffer("_rest", torch.tensor(rest, dtype=torch.int64), persistent=False)
        self._rest: Tensor
        self._pairs = [(i, j) for i, j in itertools.combinations(range(len(sets)), 2) if _comparable(sets[i], sets[j])]
        self.outputs, self.layers = len(rest), nn.ModuleList()
        for i, one in enumerate(sets):
            if one.place:
                related = sum(i in pair for pair in self._pairs) * len(RANGES) * (2 if one.origin else 1)
                layers = PlaceLayers(one, one.width - one.place + related)
                self.layers.append(layers)
                self.outputs += layers.outputs
            else:
                self.layers.append(EntityLayers(one.width, self.outputs, width))
                self.outputs += width

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) -> (..., outputs)"""
        if not self.sets:
            return x
        flat = x.reshape(-1, x.shape[-1])
        context = flat.index_select(1, self._rest)
        entities = [_entities(one, flat) for one in self.sets]
        there = [_there(one, flat) for one in self.sets]
        turned = [listed.transpose(1, 2).contiguous() for listed in entities]  # (M, width, count)
        known = self._known(turned, there)
        for i, (one, layers) in enumerate(zip(self.sets, self.layers, strict=True)):
            present = there[i]
            if one.place:
                found = layers(turned[i][:, : one.place], known[i], present)
            else:
                h = layers(entities[i], context)
                found = (h if present is None else h * present.unsqueeze(-1)).mean(1)
            context = torch.cat([context, found], 1)
        return context.view(*x.shape[:-1], self.outputs)

    def _known(self, turned: list[Tensor], there: list[Tensor | None]) -> list[Tensor]:
        """What is known of the entities of each set beside their place, (M, known, count); unused without a place."""
        near: list[list[Tensor]] = [[] for _ in self.sets]
        for i, j in self._pairs:
            axes, mine, theirs = self.sets[i].place, there[i], there[j]
            for kernel in nearness(turned[i][:, :axes], turned[j][:, :axes]):  # (M, count of j, count of i)
                near[i].append((kernel if theirs is None else kernel * theirs.unsqueeze(2)).sum(1))
                near[j].append((kernel if mine is None else kernel * mine.unsqueeze(1)).sum(2))
        known = []
        for one, t, found in zip(self.sets, turned, near, strict=True):
            parts = [t[:, one.place :]]
            if found:
                total = torch.stack(found, 1)  # (M, related sets * ranges, count)
                parts.append(total / (total + 1.0))
                if one.origin:
                    own = torch.cat(nearness(t[:, : one.place], torch.zeros_like(t[:, : one.place, :1])), 1)
                    own = own.repeat(1, len(found) // len(RANGES), 1)
                    parts.append(own / (own + total + 1e-6))
            known.append(torch.cat(parts, 1))
        return known


def _comparable(one: EntitySet, other: EntitySet) -> bool:
    """Both have places, from the same origin."""
    return one.place == other.place > 0 and one.origin[: one.place] == other.origin[: other.place]


def _entities(one: EntitySet, flat: Tensor) -> Tensor:
    """(M, inputs) -> (M, count, width), relative to the origin."""
    entities = flat[:, one.start : one.end].view(-1, one.count, one.width)
    if not one.origin:
        return entities
    own = functional.pad(flat[:, list(one.origin)], (0, one.width - len(one.origin)))
    return entities - own.unsqueeze(1)


def _there(one: EntitySet, flat: Tensor) -> Tensor | None:
    """Which entities are there, (M, inputs) -> (M, count); None: all."""
    return None if one.present is None else flat[:, one.flags.start : one.flags.stop : one.flags.step] > 0
