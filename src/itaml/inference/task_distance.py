"""Task scores from distances in feature space, to be added to those of the head.

| distance      | score of a task for a sample with features f                                                     |
|---------------|--------------------------------------------------------------------------------------------------|
| `mahalanobis` | -(f - m)^T S^-1 (f - m) / 2 of the nearest class mean m of the task                              |
| `nearest`     | the largest cosine of the angle between f and the features of one of the task's exemplars        |

The class means m and S = (1 - a) W + a tr(W)/d I are those of linear discriminant analysis on the features of the
exemplars: W is their covariance within classes, of d features, and a = `SHRINKAGE`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.inference.task_prediction import max_responses
from itaml.models.task_map import TaskMap

TaskDistance = Literal["none", "mahalanobis", "nearest"]
Scores = Callable[[Tensor], Tensor]  # features (n, d) -> scores (n, tasks)
SHRINKAGE = 0.1
TINY = 1e-12  # of the variance of features, where all exemplars are the same


def fit_task_distance(kind: TaskDistance, features: Tensor, columns: Tensor, task_map: TaskMap) -> Scores:
    """Return a function from features to task scores.

    Args:
        kind: which distance; not `none`.
        features: of the exemplars (n, d).
        columns: of their classes (n,); every task has an exemplar.
        task_map: which column is whose.
    """
    if kind == "nearest":
        return _nearest(features, task_map.task_of_column[columns], len(task_map))
    return _mahalanobis(features.double(), columns, task_map)


def _nearest(features: Tensor, tasks: Tensor, count: int) -> Scores:
    directions = F.normalize(features, dim=1)

    def scores(queries: Tensor) -> Tensor:
        cosines = F.normalize(queries, dim=1) @ directions.T  # (n, exemplars)
        start = cosines.new_full((len(cosines), count), -1.0)
        return start.scatter_reduce(1, tasks.expand_as(cosines), cosines, "amax").double()

    return scores


def _mahalanobis(features: Tensor, columns: Tensor, task_map: TaskMap) -> Scores:
    classes = len(task_map.classes)
    counts = torch.bincount(columns, minlength=classes).double()
    sums = features.new_zeros(classes, features.shape[1]).index_add(0, columns, features)
    means = sums / counts.clamp_min(1)[:, None]  # (classes, d)
    precision = torch.linalg.inv(shrunk_covariance(features - means[columns], classes=int((counts > 0).sum())))
    half = means @ precision  # (classes, d)
    offsets = (half * means).sum(1) / 2

    def scores(queries: Tensor) -> Tensor:
        queries = queries.double()
        own = ((queries @ precision) * queries).sum(1, keepdim=True) / 2
        each = queries @ half.T - offsets - own  # (n, classes)
        each[:, counts == 0] = float("-inf")  # a class without exemplars is nowhere
        return max_responses(each, task_map)

    return scores


def shrunk_covariance(residuals: Tensor, *, classes: int) -> Tensor:
    """Return the covariance (d, d) of the residuals (n, d) of samples from the means of `classes` classes, shrunk."""
    count, size = residuals.shape
    within = residuals.T @ residuals / max(count - classes, 1)
    identity = torch.eye(size, dtype=residuals.dtype)
    level = (within.trace() / size).clamp_min(TINY)
    return (1 - SHRINKAGE) * within + SHRINKAGE * level * identity
