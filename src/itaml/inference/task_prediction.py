"""Algorithm 2: which task does a continuum belong to?

Every rule gives each sample a score for each task; a continuum's score is the mean over its samples.

| rule            | score of task i for one sample                                                                |
|-----------------|-----------------------------------------------------------------------------------------------|
| `max-logit`     | the largest response among the task's columns (the paper)                                     |
| `log-posterior` | the log of the softmax mass on the task's columns; adding it up treats samples as independent |
| `energy`        | T logsumexp(z / T) over the responses z of the task's columns, for a temperature T            |
| `calibrated`    | the log-probability of a small model fitted on the exemplars (see `task_calibration`)         |

The first three are one family: the energy is the largest response for T -> 0 (and here for T = 0), and for T = 1 it is
the log-posterior up to a normaliser that all tasks of a sample share, so that it finds the same tasks.

`task_epsilon` (e) makes the sum of log-probabilities robust: with p_t the probability of task t among n tasks, it adds
up log((1 - e) p_t + e / n), so that one sample cannot rule out a task. A term of distances in feature space
(`task_distance`) is added to any of them.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from itaml.models.task_map import TaskMap

TaskScore = Literal["max-logit", "log-posterior", "energy", "calibrated"]


def max_responses(logits: Tensor, task_map: TaskMap) -> Tensor:
    """Return the largest response per task (n, tasks): line 6 of Algorithm 2."""
    owners = task_map.task_of_column.to(logits.device).expand_as(logits)
    start = logits.new_full((logits.shape[0], len(task_map)), float("-inf"))
    return start.scatter_reduce(1, owners, logits, "amax")


def log_posteriors(logits: Tensor, task_map: TaskMap) -> Tensor:
    """Return the log of the softmax mass per task (n, tasks)."""
    logits = logits.double()
    top = logits.amax(1, keepdim=True)
    owners = task_map.task_of_column.to(logits.device)
    mass = (logits - top).exp().new_zeros(logits.shape[0], len(task_map)).index_add(1, owners, (logits - top).exp())
    return mass.clamp_min(torch.finfo(mass.dtype).tiny).log() - mass.sum(1, keepdim=True).log()


def energies(logits: Tensor, task_map: TaskMap, *, temperature: float) -> Tensor:
    """Return T logsumexp(z / T) of each task's columns (n, tasks); the largest response for T = 0."""
    top = max_responses(logits.double(), task_map)
    if temperature == 0:
        return top
    owners = task_map.task_of_column.to(logits.device)
    scaled = ((logits.double() - top[:, owners]) / temperature).exp()
    return top + temperature * torch.zeros_like(top).index_add(1, owners, scaled).log()


def robust_log_probabilities(log_probabilities: Tensor, epsilon: float) -> Tensor:
    """Return log((1 - e) p + e / tasks) for log-probabilities of tasks (n, tasks)."""
    if epsilon == 0:
        return log_probabilities
    return ((1 - epsilon) * log_probabilities.exp() + epsilon / log_probabilities.shape[1]).log()


def continuum_means(scores: Tensor, continua: Tensor) -> Tensor:
    """Return each continuum's mean score (continua, tasks), for samples numbered by continuum (n,)."""
    count = int(continua.max()) + 1 if len(continua) else 0
    sums = scores.new_zeros(count, scores.shape[1]).index_add(0, continua, scores)
    return sums / torch.bincount(continua, minlength=count)[:, None]


def predict_tasks(scores: Tensor, continua: Tensor) -> Tensor:
    """Return the task of each continuum (continua,): the arg-max of line 9."""
    return continuum_means(scores, continua).argmax(1)
