"""Pure functions on accuracies; tested on cases worked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Matrix = list[list[float | None]]  # [i][j]: accuracy on task j after learning task i; None where j is not learned yet


def accuracy(hits: Tensor) -> float:
    """Return the share of true values."""
    return float(hits.double().mean())


def group_accuracy(hits: Tensor, groups: Tensor, count: int) -> list[float]:
    """Return the share of true values in each of `count` groups."""
    sums = torch.zeros(count, dtype=torch.float64).index_add(0, groups, hits.double())
    return (sums / torch.bincount(groups, minlength=count)).tolist()


def average_incremental(after_each_task: Sequence[float]) -> float:
    """Return the mean over tasks of the accuracy on everything seen up to then."""
    return sum(after_each_task) / len(after_each_task)


def forgetting(matrix: Matrix) -> float:
    """Return the mean over old tasks of the best accuracy a task ever had, minus the one it has at the end.

    (Chaudhry et al., 2018.) It is 0 for a single task, and negative when old tasks got better.
    """
    last = len(matrix) - 1
    losses = []
    for task in range(last):
        best = max(value for row in matrix[:last] if (value := row[task]) is not None)
        now = matrix[last][task]
        assert now is not None, "a learned task has an accuracy in every later row"
        losses.append(best - now)
    return sum(losses) / len(losses) if losses else 0.0


def square(rows: Sequence[Sequence[float]]) -> Matrix:
    """Fill the rows of a growing triangle up to a square with None."""
    size = len(rows)
    return [[*row, *[None] * (size - len(row))] for row in rows]


def confusion(predicted: Tensor, true: Tensor, count: int) -> list[list[int]]:
    """Return how often each true task (row) was taken for each task (column)."""
    return torch.bincount(true * count + predicted, minlength=count * count).reshape(count, count).tolist()
