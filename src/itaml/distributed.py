"""One run over several processes, started by torchrun: the process group, and everything that is communicated.

Outside torchrun there is one process, and every function here returns what it was given. No other module imports
`torch.distributed`. How a training step is divided is in `itaml.data_parallel`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from itaml import local_links, shares
from itaml.errors import PeerError, sendable
from itaml.shares import Share

DIRECT = 4  # processes; up to so many exchange small messages directly
SMALL = 1 << 14  # numbers of a small message

Value = TypeVar("Value")
Name = TypeVar("Name")


@dataclass(frozen=True)
class _Group:
    rank: int
    size: int
    store: Any
    gradients: Any  # a group of their own, so that their order among other messages does not matter
    links: local_links.LocalLinks | None = None  # of few processes on one machine


_group: _Group | None = None


def launched() -> bool:
    """Return whether torchrun has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def start() -> None:
    """Join the processes that torchrun has started; outside torchrun, and when called again, do nothing."""
    global _group  # noqa: PLW0603 (a process is in one group)
    if _group is not None or not launched():
        return
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    with _peers():
        shared, rank, size = next(rendezvous("env://"))
        # torchrun keeps one store for all its attempts, with the addresses of processes that are gone.
        store = dist.PrefixStore(f"itaml/{restarts()}/{size}", shared)  # type: ignore[attr-defined]
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", store=store, rank=rank, world_size=size)
        _group = _Group(rank, size, store, dist.new_group())
        if size <= DIRECT:
            _group = replace(_group, links=local_links.connect(rank, size, gather_objects))


def stop() -> None:
    """Leave the group, after all processes are done."""
    global _group  # noqa: PLW0603
    if _group is not None:
        barrier()
        if _group.links:
            _group.links.close()
        _group = None
        dist.destroy_process_group()


def rank() -> int:
    """Return the number of this process."""
    return _group.rank if _group else 0


def size() -> int:
    """Return the number of processes."""
    return _group.size if _group else 1


def is_main() -> bool:
    """Return whether this process reads and writes the run's folder, logs and shows progress."""
    return rank() == 0


def restarts() -> int:
    """Return how often torchrun has restarted the processes of this run after one was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def share_of(count: int) -> Share | None:
    """Return which of `count` samples each process computes; None for one process."""
    return shares.even_share(count, rank=rank(), size=size()) if _group else None


def share_of_tasks(tasks: Tensor) -> Share | None:
    """Return the same for samples of tasks (n,) that must stay together; None for one process."""
    return shares.task_share(tasks, rank=rank(), size=size()) if _group else None


def own_block(count: int) -> range:
    """Return which of `count` consecutive pieces of work this process does."""
    return shares.block(count, rank=rank(), size=size())


@contextmanager
def _peers() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ConnectionError, TimeoutError) as error:  # RuntimeError: whatever torch.distributed raises
        message = "another process of this run was lost; torchrun says which, and restarts all with --max-restarts"
        raise PeerError(message) from error


def barrier() -> None:
    """Wait for all processes."""
    if _group:
        with _peers():
            dist.barrier()


def gather(tensor: Tensor) -> list[Tensor]:
    """Return the tensors of all processes, which have one shape."""
    if not _group:
        return [tensor]
    own = tensor.contiguous()
    parts = [own if number == rank() else torch.empty_like(own) for number in range(size())]
    with _peers():
        if _group.links and not own.is_cuda:
            return _group.links.gather(own)
        if own.is_cuda or size() > DIRECT:
            dist.all_gather(parts, own.clone())
        else:  # gloo's collectives go through a thread of their own, which doubles the time of a small message
            others = [number for number in range(size()) if number != rank()]
            works = [dist.irecv(parts[number], number) for number in others]
            for work in [*works, *(dist.isend(own, number) for number in others)]:
                work.wait()  # type: ignore[union-attr]
    return parts


def gather_objects(value: Value) -> list[Value]:
    """Return the values of all processes, which can be of any picklable type."""
    if not _group:
        return [value]
    values: list[Any] = [None] * size()
    with _peers():
        dist.all_gather_object(values, value)
    return values


def any_true(flag: bool) -> bool:
    """Return whether the flag is set in any process."""
    return flag if not _group else any(gather_objects(flag))


def on_main(function: Callable[[], Value]) -> Value:
    """Call a function in the main process alone; every process returns its value or raises its error."""
    if not _group:
        return function()
    outcome: list[Any] = [None, None]
    own: Exception | None = None  # with its traceback
    if is_main():
        try:
            outcome[0] = function()
        except Exception as error:
            own, outcome[1] = error, sendable(error)
    with _peers():
        dist.broadcast_object_list(outcome, src=0)
    if outcome[1] is not None:
        raise own or outcome[1]
    value: Value = outcome[0]
    return value


@contextmanager
def one_first() -> Iterator[None]:
    """Run the block in one process of each machine first, such as one that may download what the others find.

    If the block fails in one of these, all processes raise its error, and the others do not run the block.
    """
    first = int(os.environ.get("LOCAL_RANK", "0")) == 0
    if not first:
        _raise_first(gather_objects(None))
        yield
        return
    try:
        yield
    except Exception as error:
        gather_objects(sendable(error))
        raise
    _raise_first(gather_objects(None))


def _raise_first(errors: Sequence[Exception | None]) -> None:
    for error in filter(None, errors):
        raise error


def add_up(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the sums over all processes of tensors of one type, in one message; integers give the largest instead."""
    if not _group or not tensors:
        return list(tensors)
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    if not flat.is_cuda and size() <= DIRECT and len(flat) <= SMALL:
        parts = torch.stack(gather(flat))
        flat = parts.sum(0) if flat.is_floating_point() else parts.amax(0)  # to the same bits in all processes
    else:
        with _peers():
            dist.all_reduce(flat, dist.ReduceOp.SUM if flat.is_floating_point() else dist.ReduceOp.MAX)
    split = flat.split([tensor.numel() for tensor in tensors])
    sums = [(part.view(tensor.shape), tensor) for part, tensor in zip(split, tensors, strict=True)]
    # In the memory layout of each: fused optimizers pair gradients and weights by their place in memory.
    return [part if tensor.is_contiguous() else torch.empty_like(tensor).copy_(part) for part, tensor in sums]


def total(weights: Mapping[Name, Tensor]) -> dict[Name, Tensor]:
    """Return the sums over all processes of named tensors; of integers the largest."""
    found = dict(weights)
    for kind in dict.fromkeys(value.dtype for value in weights.values()):
        names = [name for name, value in weights.items() if value.dtype == kind]
        found |= zip(names, add_up([weights[name] for name in names]), strict=True)
    return found


def begin_sum(tensor: Tensor) -> Callable[[], object]:
    """Begin to add up a tensor over all processes, in place; return what waits for the end."""
    assert _group is not None, "there are several processes"
    with _peers():
        work = dist.all_reduce(tensor, group=_group.gradients, async_op=True)
    wait: Callable[[], object] = _peers()(work.wait)
    return wait


def claim_failure(code: int) -> tuple[bool, int]:
    """Say that this process failed; return whether it is the first and should tell why, and the first one's code."""
    if not _group:
        return True, code
    try:
        if _group.store.add("itaml/failures", 1) == 1:
            _group.store.set("itaml/code", str(code))
            return True, code
        return False, int(_group.store.get("itaml/code"))
    except (RuntimeError, ValueError):  # the store is gone with the process that held it
        return False, code
