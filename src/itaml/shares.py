"""How the samples of a mini-batch are divided among the processes of a run.

Every process knows the whole division, because it follows from the mini-batch and the number of processes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

Divide = Callable[[Tensor], "Share"]  # from the rows of a mini-batch (n,)


@dataclass(frozen=True, eq=False)
class Share:
    """Which samples of a mini-batch each process computes."""

    parts: tuple[Tensor, ...]  # for each process the positions of its samples in the mini-batch, ascending
    rank: int  # of this process

    @property
    def own(self) -> Tensor:
        """Positions of the samples of this process (k,)."""
        return self.parts[self.rank]

    @cached_property
    def total(self) -> int:
        """Number of samples of all processes together."""
        return sum(map(len, self.parts))

    def select(self, positions: Tensor) -> tuple[Share, Tensor]:
        """Return the division of some of the samples, and which of this process's samples are among them.

        Args:
            positions: in the mini-batch (m,), without repetitions; their order is the order of the new mini-batch.
        """
        owner, place = torch.empty(self.total, dtype=torch.int64), torch.empty(self.total, dtype=torch.int64)
        for rank, part in enumerate(self.parts):
            owner[part], place[part] = rank, torch.arange(len(part))
        owners = owner[positions]
        parts = tuple((owners == rank).nonzero().flatten() for rank in range(len(self.parts)))
        return Share(parts, self.rank), place[positions[parts[self.rank]]]


def even_share(count: int, *, rank: int, size: int) -> Share:
    """Divide `count` samples into consecutive parts that differ by at most one sample."""
    bounds = [number * count // size for number in range(size + 1)]
    return Share(tuple(torch.arange(bounds[r], bounds[r + 1]) for r in range(size)), rank)


def task_share(tasks: Tensor, *, rank: int, size: int) -> Share:
    """Divide samples so that all samples of a task are in one part, largest tasks first, to the smallest part so far.

    Args:
        tasks: task of each sample (n,).
        rank: of this process.
        size: number of processes.
    """
    loads, owner = [0] * size, torch.zeros(len(tasks), dtype=torch.int64)
    present, counts = (found.tolist() for found in tasks.unique(return_counts=True))
    for count, task in sorted(zip(counts, present, strict=True), key=lambda pair: (-pair[0], pair[1])):
        least = loads.index(min(loads))
        loads[least] += count
        owner[tasks == task] = least
    return Share(tuple((owner == r).nonzero().flatten() for r in range(size)), rank)


def block(count: int, *, rank: int, size: int) -> range:
    """Return which of `count` consecutive pieces of work a process does."""
    return range(rank * count // size, (rank + 1) * count // size)


def joined(parts: Sequence[Tensor], share: Share) -> Tensor:
    """Return the rows of all processes in the order of the mini-batch; parts may have more rows than they need."""
    whole = parts[0].new_empty(share.total, *parts[0].shape[1:])
    for part, positions in zip(parts, share.parts, strict=True):
        whole[positions.to(whole.device)] = part[: len(positions)]
    return whole
