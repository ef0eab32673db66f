"""Algorithm 1 at r = 1 in one forward and one backward pass.

At r = 1, SGD's adapted weights are Phi_i = base - lr * g_i, so the outer step is base - eta * lr * mean(g_i) (Lemma 2),
and mean(g_i) is the gradient of the mean over tasks of the mean loss of each task. One backward pass of that loss gives
it for all tasks at once.

* Exact (to rounding) for SGD, with weight decay, with tasks absent from the batch; with momentum while none is absent.
  Weight decay is the part of an inner loop that its loss does not hold; see the two functions for it below.
* Not the same as the loop for adaptive optimisers, which here see the mean gradient and not each task's own, and for
  batch normalisation in training mode, which here normalises the mini-batch as a whole.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.meta.loss import Loss, Negatives, sample_losses, task_mean
from itaml.models.classifier import GrowingHead
from itaml.models.table import TaskTable


def fused_loss(logits: Tensor, targets: Tensor, table: TaskTable, *, loss: Loss, negatives: Negatives) -> Tensor:
    """Return the loss whose gradient is the mean of the tasks' own gradients."""
    losses = sample_losses(logits, targets, table, loss=loss, negatives=negatives)
    return task_mean(losses, table.task_of_column.to(targets.device)[targets], len(table))


def shifted_loss(logits: Tensor, targets: Tensor, counts: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits to which the logarithm of each class's count of pictures is added.

    What is learned then are logits of classes that all are as frequent, although every picture weighs the same
    (balanced softmax, Ren et al., NeurIPS 2020; logit adjustment, Menon et al., ICLR 2021).

    Args:
        logits: responses (n, columns).
        targets: right column of each sample (n,).
        counts: training pictures of each column's class (columns,).
    """
    return F.cross_entropy(logits + counts.clamp_min(1).log().to(logits), targets)


def present_share(targets: Tensor, table: TaskTable) -> float:
    """Return the share of tasks with samples in the batch, which is what weight decay is multiplied by.

    The loop of a task with samples decays its weights, the loop of an absent one leaves them at the base, and the outer
    step takes the mean.
    """
    counts = torch.bincount(table.task_of_column.to(targets.device)[targets], minlength=len(table))
    return int((counts > 0).sum()) / len(table)


def decay_own_rows(head: GrowingHead, targets: Tensor, *, weight_decay: float) -> None:
    """Add to the head's gradient the weight decay that the inner loops give it with `own` negatives.

    Task i's loop decays phi_i alone, and the mean over t loops divides that by t; an absent task's rows do not decay.
    """
    if not weight_decay:
        return
    tasks = head.table.task_of_column.to(targets.device)
    present = torch.zeros(len(head.table), dtype=torch.bool, device=targets.device)
    present[tasks[targets]] = True
    share = present[tasks].to(head.weight.dtype) * (weight_decay / len(head.table))  # (columns,)
    for parameter, factor in ((head.weight, share[:, None]), (head.bias, share)):
        assert parameter.grad is not None, "the head has no gradient yet"
        parameter.grad.addcmul_(parameter.detach(), factor)
