"""Batch normalisation in training: very small batches, and statistics over the processes of a run.

torch's `SyncBatchNorm` is for GPUs. `synchronized_batch_norm` computes the same on any device: each process sends the
mean and the variance of its rows, and all combine them, so that the statistics are those of the whole mini-batch, and
running statistics are equal in all processes. Differences from one process are those of rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from itaml import distributed
from itaml.shares import Share


class single_image_batch_norm:  # noqa: N801 (a context manager used as a function)
    """Use running statistics inside the block when a batch is a single image."""

    def __init__(self, model: nn.Module, count: int) -> None:
        self.layers: Iterable[nn.Module] = ()
        if count == 1:
            norms = (nn.modules.batchnorm._BatchNorm,)
            self.layers = [layer for layer in model.modules() if isinstance(layer, norms) and layer.training]

    def __enter__(self) -> None:
        for layer in self.layers:
            layer.eval()

    def __exit__(self, *_: object) -> None:
        for layer in self.layers:
            layer.train()


def freeze_statistics(model: nn.Module) -> None:
    """Keep the running statistics of batch-norm layers whose weights are not trained."""
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and not any(p.requires_grad for p in layer.parameters()):
            layer.eval()


def synchronized_batch_norm(
    share: Share,
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return what `torch.nn.functional.batch_norm` returns for this process's rows of the whole mini-batch.

    Args:
        share: which rows of the mini-batch each process has.
        x: this process's rows (k, channels, ...).
        running_mean: moved towards the mean of the mini-batch.
        running_var: moved towards the unbiased variance of the mini-batch.
        weight: scale of each channel.
        bias: shift of each channel.
        training: normalise with the statistics of the mini-batch; otherwise with the running ones.
        momentum: how far the running statistics move.
        eps: added to the variance.
    """
    if not training:
        return F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    counts = torch.tensor([len(part) for part in share.parts], device=x.device) * x.shape[2:].numel()
    count = int(counts.sum())
    mean, var = _global_statistics(x.detach(), counts)
    if running_mean is not None and running_var is not None:
        running_mean.lerp_(mean.to(running_mean), momentum)
        running_var.lerp_((var * (count / max(count - 1, 1))).to(running_var), momentum)
    out: Tensor = _BatchNorm.apply(x, weight, bias, mean, var, count, eps)  # type: ignore[no-untyped-call]
    return out


def _global_statistics(x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the biased variance of each channel over the rows of all processes (Chan et al., 1983)."""
    wide = x if x.dtype == torch.float64 else x.float()
    if len(x):
        own = torch.stack(torch.ops.aten.batch_norm_update_stats(wide, None, None, 0.0))
    else:
        own = wide.new_zeros(2, x.shape[1])
    means, variances = torch.stack(distributed.gather(own)).double().unbind(1)  # (processes, channels) each
    shares = (counts.double() / counts.sum())[:, None]
    mean = (shares * means).sum(0)
    var = (shares * (variances + (means - mean).square())).sum(0)
    return mean.to(own), var.to(own)


class _BatchNorm(torch.autograd.Function):
    """Normalisation with statistics that depend on the rows of all processes."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        var: Tensor,
        count: int,
        eps: float,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, var)
        ctx.count, ctx.eps = count, eps
        if not _has_long_rows(x, mean):
            return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)
        scale = (var + eps).rsqrt() if weight is None else weight * (var + eps).rsqrt()
        shift = -mean * scale if bias is None else torch.addcmul(bias, mean, scale, value=-1)
        return _per_channel(x, scale, shift)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, var = ctx.saved_tensors
        last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
        # In the layout of x, which the kernels and the layer before are fast with; often it is there already.
        grad = grads[0].contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
        if len(x):  # sums over this process's rows of dy * normalised x, and of dy
            _, dweight, dbias = torch.ops.aten.native_batch_norm_backward(
                grad, x, weight, mean, var, None, None, False, ctx.eps, [False, True, True]
            )
        else:  # torch 2.13 divides by the number of rows
            dweight, dbias = torch.zeros_like(mean), torch.zeros_like(mean)
        products, total = (value.double() for value in distributed.add_up([dweight, dbias]))
        inverse = (var.double() + ctx.eps).rsqrt()
        scale = inverse if weight is None else weight.double() * inverse
        slope = scale * inverse * products / ctx.count
        shift = mean.double() * slope - scale * total / ctx.count
        # dx = scale * (dy - mean(dy) - normalised x * mean(dy * normalised x)), in two passes
        if _has_long_rows(x, mean) and grad.dtype == x.dtype:
            dx = _per_channel(grad, scale.to(mean), shift.to(mean), x, slope.to(mean))
        else:
            no, one = torch.zeros_like(mean), torch.ones_like(var)
            dx = F.batch_norm(grad, no, one, scale.to(mean), shift.to(mean), eps=0.0)
            dx.addcmul_(x, slope.to(dx).view(-1, *[1] * (x.dim() - 2)), value=-1)
        given = weight is not None
        return dx, dweight if given else None, dbias if given else None, None, None, None, None


def _has_long_rows(x: Tensor, statistics: Tensor) -> bool:
    """Return whether `_per_channel` can compute with x: on a CPU, channels last, of the type of the statistics."""
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return last and not x.is_cuda and x.dtype == statistics.dtype


def _per_channel(
    x: Tensor, scale: Tensor, shift: Tensor, other: Tensor | None = None, slope: Tensor | None = None
) -> Tensor:
    """Return scale * x + shift - slope * other, with a number for each channel, in half the time of `F.batch_norm`.

    A row of the image with all its channels is one vector, because vectors of a few channels are slow.
    """
    n, channels, height, width = x.shape
    size = (n * height, width * channels)
    out = torch.empty(x.shape, dtype=x.dtype, memory_format=torch.channels_last)
    rows = out.permute(0, 2, 3, 1).view(size)  # of the result, which must not be a view itself
    torch.addcmul(shift.repeat(width), x.permute(0, 2, 3, 1).reshape(size), scale.repeat(width), out=rows)
    if other is not None and slope is not None:
        rows.addcmul_(other.permute(0, 2, 3, 1).reshape(size), slope.repeat(width), value=-1)
    return out
