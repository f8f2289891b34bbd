"""Sets of entities as a few numbers that do not depend on their order (deep sets)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.envs.entities import Sets

REACH = 4.0
"""Gain of the first layer of a set: how finely it tells places apart before anything is learnt."""


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


class SetEncoder(nn.Module):
    """A vector with each of its sets of entities replaced by a mean over the set: order has no effect.

    An entity's numbers are embedded by `EntityLayers`, the first of them relative to the observer's where the set has
    an origin. The mean is over all places of the list; absent entities count as zeros, so that it also tells how many
    there are. The context is all that is in no set, and the means of the sets declared before. Without sets the encoder
    gives the vector back.
    """

    def __init__(self, inputs: int, sets: Sets, width: int) -> None:
        super().__init__()
        self.sets = sets
        listed = {place for one in sets for place in (*range(one.start, one.end), *one.flags)}
        rest = [place for place in range(inputs) if place not in listed]
        self.register_buffer("_rest", torch.tensor(rest, dtype=torch.int64), persistent=False)
        self._rest: Tensor
        self.outputs = len(rest) + width * len(sets)
        self.layers = nn.ModuleList(EntityLayers(s.width, len(rest) + i * width, width) for i, s in enumerate(sets))

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) -> (..., outputs)"""
        if not self.sets:
            return x
        flat = x.reshape(-1, x.shape[-1])
        context = flat.index_select(1, self._rest)
        for one, layers in zip(self.sets, self.layers, strict=True):
            entities = flat[:, one.start : one.end].view(-1, one.count, one.width)
            if one.origin:
                own = functional.pad(flat[:, list(one.origin)], (0, one.width - len(one.origin)))
                entities = entities - own.unsqueeze(1)
            h = layers(entities, context)
            if one.present is not None:
                there = flat[:, one.flags.start : one.flags.stop : one.flags.step] > 0  # (M, count)
                h = h * there.unsqueeze(-1)
            context = torch.cat([context, h.mean(1)], 1)
        return context.view(*x.shape[:-1], self.outputs)
