"""Batch normalisation in training with very small batches."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn


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
