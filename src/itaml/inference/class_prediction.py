"""Algorithm 3, second half, over many continua at once: the class of each sample inside its continuum's task."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from itaml.inference.task_prediction import continuum_means
from itaml.models.task_map import TaskMap

AdaptedScores = Callable[[Tensor, int], Tensor]  # (positions of samples, task) -> (k, size of the task)


def predict_classes(tasks: Tensor, task_map: TaskMap, adapted: AdaptedScores) -> tuple[Tensor, Tensor]:
    """Return each sample's class id (n,) and the probability of each of its task's classes, others 0 (n, columns).

    Args:
        tasks: the task found for each sample (n,).
        task_map: which column is whose.
        adapted: scores of a task's own columns for some samples, by the model adapted to it.
    """
    classes = torch.empty(len(tasks), dtype=torch.int64)
    inside = torch.zeros(len(tasks), len(task_map.classes), dtype=torch.float64)
    for task in tasks.unique().tolist():
        members = (tasks == task).nonzero().flatten()
        scores = adapted(members, task).double()  # (k, size)
        columns = task_map.columns(task)
        classes[members] = task_map.class_tensor[columns][scores.argmax(1)]  # lines 11 and 12
        inside[members, columns] = scores.softmax(1)
    return classes, inside


def task_posterior(evidence: Tensor, continua: Tensor) -> Tensor:
    """Return the probability of each task (continua, tasks), from log-evidence that adds up over the samples."""
    sizes = torch.bincount(continua)[:, None]
    return (continuum_means(evidence, continua) * sizes).softmax(1)


def joint_probabilities(
    class_scores: Tensor, inside: Tensor, tasks: Tensor, posterior: Tensor, task_map: TaskMap
) -> Tensor:
    """Return the probability of each class (n, columns): that of its task times that of the class inside the task.

    Inside the task that was found, the adapted model speaks (`inside`); inside the others, the generic one.

    Args:
        class_scores: the generic model's scores (n, columns).
        inside: from `predict_classes` (n, columns).
        tasks: the task found for each sample (n,).
        posterior: probability of each task for each sample (n, tasks).
        task_map: which column is whose.
    """
    owners = task_map.task_of_column
    generic = class_scores.double().softmax(1)
    mass = generic.new_zeros(len(generic), len(task_map)).index_add(1, owners, generic).clamp_min(1e-300)
    generic = generic / mass[:, owners]
    found = owners == tasks[:, None]
    return torch.where(found, inside, generic) * posterior[:, owners]
