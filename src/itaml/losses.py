"""The losses of the inner loop: each sample's own, then the mean within each task, then the mean over tasks.

`negatives` selects which columns of the head take part in a sample's loss:

* `own`: the columns of the sample's own task, as in the paper. Heads of other tasks get no gradient.
* `seen`: the columns of all tasks seen, so that responses of different tasks can be compared.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.models.task_map import TaskMap

Loss = Literal["bce", "ce"]
Negatives = Literal["own", "seen"]


def sample_losses(logits: Tensor, targets: Tensor, task_map: TaskMap, *, loss: Loss, negatives: Negatives) -> Tensor:
    """Return the loss of each sample (n,).

    Args:
        logits: responses (n, columns).
        targets: right column of each sample (n,).
        task_map: which column is whose.
        loss: `bce`, binary cross-entropy averaged over the columns that take part; `ce`, softmax cross-entropy.
        negatives: which columns take part (see above).
    """
    logits = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    if negatives == "own":
        tasks = task_map.task_of_column.to(targets.device)[targets]
        inside = task_map.own_columns.to(targets.device)[tasks]  # (n, columns)
    if loss == "ce":
        if negatives == "own":
            logits = logits.masked_fill(~inside, float("-inf"))
        return F.cross_entropy(logits, targets, reduction="none")
    truth = F.one_hot(targets, logits.shape[1]).to(logits.dtype)
    each = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")  # (n, columns)
    if negatives == "own":
        return (each * inside).sum(1) / inside.sum(1)
    return each.mean(1)


def task_weights(tasks: Tensor, count: int, *, dtype: torch.dtype) -> Tensor:
    """Return each sample's weight (n,) in the mean over `count` tasks of the mean over a task's samples.

    A task without samples contributes nothing and still counts: its inner loop leaves it at the base.
    """
    present = torch.bincount(tasks, minlength=count)
    return 1 / (count * present[tasks]).to(dtype)


def task_mean(losses: Tensor, tasks: Tensor, count: int) -> Tensor:
    """Return the mean over tasks of the mean over each task's samples."""
    return (losses * task_weights(tasks, count, dtype=losses.dtype)).sum()


def shift_logits(logits: Tensor, counts: Tensor, *, strength: float = 1.0) -> Tensor:
    """Return logits to which the logarithm of each class's count of images is added, for a loss by cross-entropy.

    What is learned then are logits of equally frequent classes, although every image weighs the same (balanced softmax,
    Ren et al., NeurIPS 2020; logit adjustment, Menon et al., ICLR 2021).

    Args:
        logits: responses (n, columns).
        counts: training images of each column's class (columns,).
        strength: factor of the logarithm; above 1 the logits learned favour rare classes.
    """
    return logits + strength * counts.clamp_min(1).log().to(logits)
