"""Groups of worlds that are differentiated apart, in one process or in several that learn together.

The gradient of a mini-batch is the sum of its groups' gradients, in the order of the groups. A group is computed in the
same shapes whoever computes it, and every process adds all groups in the same order: the result depends on the number
of groups and not on the number of processes, and the weights of all processes stay equal, to the bit on one machine.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class Groups:
    """All groups in this process."""

    rank = 0
    """This process among those that learn together; the first one writes files."""

    def __init__(self, count: int = 1) -> None:
        if count < 1:
            raise ValueError(f"count={count} groups must be at least 1")
        self.count, self.mine = count, range(count)

    def gather(self, rows: Tensor) -> Tensor:
        """What all groups found, (count, K), from the rows of the groups computed here, (len(mine), K)."""
        return rows

    def exchange(self, value: T) -> list[T]:
        """What every process gave, in their order."""
        return [value]


class ProcessGroups(Groups):
    """An equal share of the groups in each process of torch.distributed's default group."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.rank, processes = torch.distributed.get_rank(), torch.distributed.get_world_size()
        if count % processes:
            raise ValueError(
                f"{processes} learners cannot share {count} groups equally; use --group-gradients --collectors "
                f"{processes} or a multiple"
            )
        share = count // processes
        self.mine = range(self.rank * share, (self.rank + 1) * share)

    def gather(self, rows: Tensor) -> Tensor:
        """What all groups found, by exchange with the other processes."""
        found = [torch.empty_like(rows) for _ in range(self.count // len(self.mine))]
        torch.distributed.all_gather(found, rows.contiguous())
        return torch.cat(found)

    def exchange(self, value: T) -> list[T]:
        """What every process gave; pickled on the way, between processes of one run."""
        found: list[T] = [value] * (self.count // len(self.mine))
        torch.distributed.all_gather_object(found, value)
        return found


def sum_in_order(rows: Tensor) -> Tensor:
    """The sum over the groups, (count, K) -> (K,), one after the other: no library chooses the order."""
    total = rows[0].clone()
    for row in rows[1:]:
        total += row
    return total
