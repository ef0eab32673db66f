"""Compute a network on this process's share of a mini-batch as if it were given the whole.

Two kinds of layers are not the same for a share as for the whole: batch normalisation, whose statistics are those of
the whole mini-batch, and random draws (dropout, stochastic depth, latent variables), which are drawn for the whole
mini-batch in every process, so that they do not depend on the number of processes. Both are recognised by the function
that they call, and not by their module, so that backbones of any library can be used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from itaml import distributed
from itaml.data_parallel import gather_rows
from itaml.models.batch_norm import synchronized_batch_norm
from itaml.shares import Share

_CHANNEL_DROPOUT = (F.dropout1d, F.dropout2d, F.dropout3d)  # drop whole channels of a sample


def in_shares(function: Callable[[Tensor], Tensor], images: Tensor, share: Share | None = None) -> Tensor:
    """Return `function(images)` (n, ...) of a whole mini-batch, each process computing its share of the rows.

    Gradients flow through the result as `itaml.data_parallel` says. All processes must call this together.

    Args:
        function: treats samples alike, in training or evaluation mode.
        images: this process's rows of the mini-batch; without a share, the whole mini-batch in every process.
        share: which rows each process has.
    """
    if distributed.size() == 1:
        return function(images)
    if share is None:
        share = distributed.share_of(len(images))
        assert share is not None
        images = images[share.own.to(images.device)]
    with ShardedLayers(share):
        part = function(images)
    return gather_rows(part, share)


class ShardedLayers(TorchFunctionMode):
    """Inside the block, batch normalisation and random draws are those of the whole mini-batch."""

    def __init__(self, share: Share) -> None:
        super().__init__()
        self.share = share

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replace the functions that differ, and call all others as they are."""
        kwargs = kwargs or {}
        if func is F.batch_norm:
            return synchronized_batch_norm(self.share, *args, **kwargs)
        if func is F.dropout:
            return self._dropout(func, torch.ones_like, *args, **kwargs)
        if func in _CHANNEL_DROPOUT:
            return self._dropout(func, _one_per_channel, *args, **kwargs)
        if func is torch.randn_like or func is torch.Tensor.bernoulli_:
            drawn = self._draw(func, *args, **kwargs)
            return args[0].copy_(drawn) if func is torch.Tensor.bernoulli_ else drawn
        return func(*args, **kwargs)

    def _dropout(
        self,
        func: Callable[..., Tensor],
        like: Callable[[Tensor], Tensor],
        x: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor:
        """Multiply by this process's rows of the factors that are drawn for the whole mini-batch."""
        if not training or p == 0:
            return x
        factors = self._draw(lambda whole: func(whole.fill_(1), p, True), like(x.detach()))
        return x.mul_(factors) if inplace else x * factors

    def _draw(self, func: Callable[..., Tensor], part: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Draw for the whole mini-batch, in the memory layout of the part, and return this process's rows."""
        last = part.dim() == 4 and part.is_contiguous(memory_format=torch.channels_last) and not part.is_contiguous()
        layout = torch.channels_last if last else torch.contiguous_format
        shape = (self.share.total, *part.shape[1:])
        whole = torch.empty(shape, dtype=part.dtype, device=part.device, memory_format=layout)
        return func(whole, *args, **kwargs)[self.share.own.to(part.device)]


def _one_per_channel(x: Tensor) -> Tensor:
    return x.new_ones(*x.shape[:2], *[1] * (x.dim() - 2))
