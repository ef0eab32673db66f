"""One training step over several processes.

Every process holds the same weights and computes the network's outputs for its share of the mini-batch. The outputs
are gathered, so that every process computes the same loss of the whole mini-batch: means, counts of tasks and penalties
are those of one process, whatever the method. In the backward pass each process gets the gradient of its own rows times
the number of processes, and the gradients of weights are averaged. So a part of the loss that does not come from the
gathered outputs, such as a penalty on weights, is averaged over equal values, and counts once.

`DistributedDataParallel` is not used: it wraps a network of fixed parameters, and here heads grow, methods train
several networks, and a loop over tasks trains copies of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from itaml import distributed, shares
from itaml.shares import Share

BUCKET = 1 << 18  # numbers in a bucket of gradients: 1 MiB in float32


class _Gather(torch.autograd.Function):
    """Rows of all processes; backward, each process's own rows times the number of processes."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, share: Share) -> Tensor:
        ctx.share = share
        most = max(map(len, share.parts))
        padded = part.new_zeros(most, *part.shape[1:])
        padded[: len(part)] = part
        return shares.joined(distributed.gather(padded), share)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return distributed.size() * grads[0][ctx.share.own.to(grads[0].device)], None


def gather_rows(part: Tensor, share: Share) -> Tensor:
    """Return the rows of all processes in the order of the mini-batch, through which gradients flow."""
    rows: Tensor = _Gather.apply(part, share)  # type: ignore[no-untyped-call]
    return rows


def backward(loss: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """Compute the gradients of a loss that every process knows, averaged over the processes, and return the loss.

    Averaging begins while the backward pass is under way: as soon as a bucket of gradients is complete.
    """
    if distributed.size() == 1:
        loss.backward()
        return loss
    buckets = _Buckets(parameters)
    try:
        loss.backward()
        buckets.finish()
    finally:
        buckets.close()
    return loss


def averaged(gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return named gradients of a loss that every process knows, averaged over the processes."""
    if distributed.size() == 1:
        return dict(gradients)
    return {name: value / distributed.size() for name, value in distributed.total(gradients).items()}


class _Buckets:
    """Gradients in buckets, the last parameters first, each averaged once all of its gradients are there."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.buckets: list[list[Tensor]] = [[]]
        for parameter in reversed([p for p in parameters if p.requires_grad]):
            if sum(p.numel() for p in self.buckets[-1]) >= BUCKET or (
                self.buckets[-1] and self.buckets[-1][0].dtype != parameter.dtype
            ):
                self.buckets.append([])
            self.buckets[-1].append(parameter)
        self.missing = [len(bucket) for bucket in self.buckets]
        self.sent: list[tuple[list[Tensor], Tensor, Callable[[], object]]] = []
        self.hooks = [
            p.register_post_accumulate_grad_hook(self._ready(number))
            for number, bucket in enumerate(self.buckets)
            for p in bucket
        ]

    def _ready(self, number: int) -> Callable[[Tensor], None]:
        def hook(parameter: Tensor) -> None:
            self.missing[number] -= 1
            while len(self.sent) < len(self.buckets) and self.missing[len(self.sent)] == 0:
                self._send()  # in the order of the buckets, which is the same in every process

        return hook

    def _send(self) -> None:
        held = [p for p in self.buckets[len(self.sent)] if p.grad is not None]
        flat = torch.cat([_gradient(p).reshape(-1) for p in held]) if held else torch.zeros(1)
        self.sent.append((held, flat, distributed.begin_sum(flat)))

    def finish(self) -> None:
        """Average what is left, and write all averages into the parameters' gradients."""
        while len(self.sent) < len(self.buckets):
            self._send()
        for held, flat, wait in self.sent:
            wait()
            parts = flat.div_(distributed.size()).split([p.numel() for p in held]) if held else ()
            for parameter, part in zip(held, parts, strict=True):
                _gradient(parameter).copy_(part.view(parameter.shape))

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self.hooks:
            hook.remove()


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None, "the backward pass has reached it"
    return parameter.grad
