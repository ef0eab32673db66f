"""Pure functions on hits and misses; tested on cases worked by hand."""

from __future__ import annotations

import torch
from torch import Tensor


def accuracy(hits: Tensor) -> float:
    """Return the share of true values."""
    return float(hits.double().mean())


def group_accuracy(hits: Tensor, groups: Tensor, count: int) -> list[float]:
    """Return the share of true values in each of `count` groups."""
    sums = torch.zeros(count, dtype=torch.float64).index_add(0, groups, hits.double())
    return (sums / torch.bincount(groups, minlength=count)).tolist()


def confusion(predicted: Tensor, true: Tensor, count: int) -> list[list[int]]:
    """Return how often each true task (row) was taken for each task (column)."""
    return torch.bincount(true * count + predicted, minlength=count * count).reshape(count, count).tolist()
