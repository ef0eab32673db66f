"""Algorithm 1 at r = 1 in one forward and one backward pass.

At r = 1, SGD's adapted weights are Phi_i = base - lr * g_i, so the outer step is base - eta * lr * mean(g_i) (Lemma 2),
and mean(g_i) is the gradient of the mean over tasks of the mean loss of each task. One backward pass of that loss gives
it for all tasks at once.

* Exact (to rounding) for SGD, with weight decay, with tasks absent from the batch; with momentum while none is absent.
  Weight decay is the part of an inner loop that its loss does not hold; see the functions for it below.
* Not the same as the loop for adaptive optimisers, which here see the mean gradient and not each task's own, and for
  batch normalisation in training mode, which here normalises the mini-batch as a whole.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import Optimizer

from itaml.losses import Loss, Negatives, sample_losses, task_mean
from itaml.models.classifier import GrowingHead
from itaml.models.task_map import TaskMap


def fused_loss(logits: Tensor, targets: Tensor, task_map: TaskMap, *, loss: Loss, negatives: Negatives) -> Tensor:
    """Return the loss whose gradient is the mean of the tasks' own gradients."""
    losses = sample_losses(logits, targets, task_map, loss=loss, negatives=negatives)
    return task_mean(losses, task_map.task_of_column.to(targets.device)[targets], len(task_map))


def decay_own_rows(head: GrowingHead, targets: Tensor, *, weight_decay: float) -> None:
    """Add to the head's gradient the weight decay that the inner loops give it with `own` negatives.

    Task i's loop decays phi_i alone, and the mean over t loops divides that by t; an absent task's rows do not decay.
    """
    if not weight_decay:
        return
    tasks = head.task_map.task_of_column.to(targets.device)
    present = torch.zeros(len(head.task_map), dtype=torch.bool, device=targets.device)
    present[tasks[targets]] = True
    share = present[tasks].to(head.weight.dtype) * (weight_decay / len(head.task_map))  # (columns,)
    for parameter, factor in ((head.weight, share[:, None]), (head.bias, share)):
        assert parameter.grad is not None, "the head has no gradient yet"
        parameter.grad.addcmul_(parameter.detach(), factor)


def apply_weight_decay(
    optimizer: Optimizer,
    head: GrowingHead,
    targets: Tensor,
    *,
    decay: float,
    negatives: Negatives,
    share: float,
) -> None:
    """Give one step the weight decay that the inner loops of the batch's tasks have together.

    Args:
        optimizer: with a group for the backbone and one for the head.
        head: of the classifier, with its gradients.
        targets: columns of the samples in the batch (n,).
        decay: weight decay of the inner loops.
        negatives: with `own`, each loop decays its own rows of the head only.
        share: of the tasks that have samples in the batch. The loop of a task with samples decays its
            weights, the loop of an absent one leaves them at the base, and the outer step takes the mean.
    """
    backbone, rest = optimizer.param_groups
    backbone["weight_decay"] = share * decay
    rest["weight_decay"] = 0.0 if negatives == "own" else share * decay
    if negatives == "own":
        decay_own_rows(head, targets, weight_decay=decay)
