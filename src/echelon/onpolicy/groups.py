"""Groups of worlds that are differentiated apart, in one process or in several that learn together.

The gradient of a mini-batch is the sum of its groups' gradients, in the order of the groups. A group is computed in the
same shapes whoever computes it, and every process adds all groups in the same order: the result depends on the number
of groups and not on the number of processes, and the weights of all processes stay equal, to the bit on one machine.
"""

from __future__ import annotations

from multiprocessing.shared_memory import SharedMemory
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
    """An equal share of the groups in each process of torch.distributed's default group.

    Processes of one machine exchange rows through memory they share, which takes a third of the time that gloo's
    connections take.
    """

    def __init__(self, count: int, *, one_machine: bool = False) -> None:
        super().__init__(count)
        self.rank, processes = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self._one_machine, self._shared = one_machine, dict[tuple[torch.Size, torch.dtype], SharedRows]()
        if count % processes:
            raise ValueError(
                f"{processes} learners cannot share {count} groups equally; use --group-gradients --collectors "
                f"{processes} or a multiple"
            )
        share = count // processes
        self.mine = range(self.rank * share, (self.rank + 1) * share)

    def gather(self, rows: Tensor) -> Tensor:
        """What all groups found, by exchange with the other processes."""
        if self._one_machine:
            kind = rows.shape, rows.dtype
            if kind not in self._shared:
                self._shared[kind] = SharedRows(self, rows, self.count // len(self.mine))
            return self._shared[kind].gather(self.rank, rows)
        found = [torch.empty_like(rows) for _ in range(self.count // len(self.mine))]
        torch.distributed.all_gather(found, rows.contiguous())
        return torch.cat(found)

    def exchange(self, value: T) -> list[T]:
        """What every process gave; pickled on the way, between processes of one run."""
        found: list[T] = [value] * (self.count // len(self.mine))
        torch.distributed.all_gather_object(found, value)
        return found


class SharedRows:
    """Memory that all processes of a machine share, for rows of one shape.

    It has two places for each process, used in turn. All processes meet in each call, so one that writes is at most a
    call ahead of those that still read, and they read the other place.
    """

    def __init__(self, groups: Groups, like: Tensor, processes: int) -> None:
        places = torch.Size([2, processes, *like.shape])
        memory = SharedMemory(create=True, size=places.numel() * like.element_size()) if groups.rank == 0 else None
        name = groups.exchange("" if memory is None else memory.name)[0]
        self._memory = SharedMemory(name) if memory is None else memory
        torch.distributed.barrier()
        if memory is not None:
            memory.unlink()  # all have it: it is gone with the last process, however that ends
        self._places = torch.frombuffer(self._memory.buf, dtype=like.dtype, count=places.numel()).view(places)
        self._turn = 0

    def gather(self, rank: int, rows: Tensor) -> Tensor:
        """The rows of all processes, in their order."""
        self._turn = 1 - self._turn
        place = self._places[self._turn]
        place[rank] = rows
        torch.distributed.barrier()
        return torch.cat(place.unbind()).to(rows.device)


def sum_in_order(rows: Tensor) -> Tensor:
    """The sum over the groups, (count, K) -> (K,), one after the other: no library chooses the order."""
    total = rows[0].clone()
    for row in rows[1:]:
        total += row
    return total
