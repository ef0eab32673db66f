"""Algorithm 3, first half: move a copy of the generic weights towards one task with its exemplars.

Safe by construction: batch-norm statistics are never touched, the loss is the one the model was trained with, and with
`guard` a part of the exemplars is held out to judge the result; weights that do not lower the loss there, or that
classify fewer of them correctly, are thrown away and the generic model is used as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.func import functional_call
from torch.optim import Optimizer

from itaml import params
from itaml.losses import Loss, Negatives, sample_losses
from itaml.meta.inner_loop import HEAD
from itaml.models.classifier import Classifier
from itaml.optimizers import backward, gradient_step
from itaml.params import Weights

Scope = Literal["head", "all", "own-head"]  # the last is in `own_task`
Losses = Callable[[Weights, Tensor], tuple[Tensor, Tensor]]
GUARD_SHARE = 5  # one exemplar in five judges


def adapt(
    model: Classifier,
    images: Tensor,
    targets: Tensor,
    *,
    steps: int,
    batch_size: int,
    make_optimizer: Callable[[list[Tensor]], Optimizer],
    scope: Scope,
    loss: Loss,
    negatives: Negatives,
    guard: bool,
    generator: torch.Generator,
) -> Weights:
    """Return the weights that differ from the generic model's, none if adapting did not help.

    Args:
        model: the generic model, in evaluation mode; it is not changed.
        images: exemplars of the task (n, c, h, w).
        targets: their columns (n,).
        steps: b, updates on mini-batches drawn from the exemplars.
        batch_size: Q, exemplars per mini-batch.
        make_optimizer: makes the optimiser of the updates.
        scope: `head` moves the head alone, on features computed once; `all` moves every weight.
        loss: as in training.
        negatives: as in training.
        guard: hold some exemplars back and refuse weights that are no better on them.
        generator: draws the mini-batches and the guard part.
    """
    if model.training:
        raise AssertionError("adaptation must not see a model in training mode: its batch-norm statistics would move")
    order = torch.randperm(len(targets), generator=generator)
    guard_rows = order[: max(1, len(order) // GUARD_SHARE)] if guard else order[:0]
    pool = order[len(guard_rows) :]
    if not len(pool):
        return {}  # one exemplar cannot both teach and judge
    moving = {k: v.requires_grad_() for k, v in params.snapshot(model).items() if scope == "all" or k in HEAD}
    inputs = images if scope == "all" else _features(model, images)

    def losses(weights: Weights, rows: Tensor) -> tuple[Tensor, Tensor]:
        if scope == "all":
            logits = functional_call(model, weights, (inputs[rows],))
        else:
            logits = torch.nn.functional.linear(inputs[rows], weights["head.weight"], weights["head.bias"])
        each = sample_losses(logits, targets[rows], model.task_map, loss=loss, negatives=negatives)
        return each.mean(), _own_hits(logits.detach(), targets[rows], model)

    with torch.no_grad():
        before = losses(moving, guard_rows) if len(guard_rows) else None
    optimizer = make_optimizer(list(moving.values()))
    for _ in range(steps):
        batch = pool[torch.randperm(len(pool), generator=generator)[:batch_size]]
        gradient_step(optimizer, partial(_backward, losses, moving, batch))
    adapted = {name: value.detach() for name, value in moving.items()}
    if before is not None:
        with torch.no_grad():
            after = losses(adapted, guard_rows)
        if not (after[0] < before[0] and after[1] >= before[1]):
            return {}
    return adapted


def _backward(losses: Losses, weights: Weights, rows: Tensor) -> Tensor:
    return backward(losses(weights, rows)[0])


def _features(model: Classifier, images: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([model.features(part) for part in images.split(512)])


def _own_hits(logits: Tensor, targets: Tensor, model: Classifier) -> Tensor:
    """Return how many samples are right when only columns of the samples' own task compete."""
    task_map = model.task_map
    outside = ~task_map.own_columns.to(targets.device)[task_map.task_of_column.to(targets.device)[targets]]
    return (logits.masked_fill(outside, float("-inf")).argmax(1) == targets).sum()
