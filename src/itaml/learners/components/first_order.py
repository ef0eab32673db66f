"""What Reptile and FOMAML share: an inner loop for each task of a mini-batch, over all weights, and an outer step.

A mini-batch is grouped by task, and each task's samples are cut into disjoint parts, one per step. A task with fewer
samples than parts takes fewer steps. The meta-gradients are added up with the tasks' shares and handed to the optimiser
of the settings, which takes the outer step.

Batch-norm statistics move with every forward pass of the inner loops, and are not put back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.func import functional_call
from torch.optim import Optimizer

from itaml import params
from itaml.data_parallel import averaged
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.method import Method
from itaml.learners.settings import Count, Positive, TrainingSettings
from itaml.losses import sample_losses
from itaml.meta.meta_gradients import path_gradients, total
from itaml.models.batch_norm import single_image_batch_norm
from itaml.models.sharded_layers import in_shares
from itaml.params import Weights


class FirstOrderSettings(TrainingSettings):
    """Settings of Reptile and FOMAML; `lr` is the rate of the outer step."""

    inner_steps: Count = 1  # r, called k by Nichol et al.
    inner_lr: Positive = 0.1  # alpha
    weighting: Literal["samples", "tasks"] = "samples"  # a task's share: that of its samples in the batch, or equal


TRAITS = Traits(supports_compile=False, supports_recipe=False)  # inner loops run on copies of the weights


def outer_step(
    method: Method,
    batch: Batch,
    optimizer: Optimizer,
    *,
    parts: int,
    meta_gradient: Callable[[list[Weights]], Weights],
) -> Tensor:
    """Take one outer step along the tasks' meta-gradients, added up with their shares.

    Args:
        method: whose network is trained.
        batch: samples of all tasks.
        optimizer: takes the outer step.
        parts: into how many parts a task's samples are cut.
        meta_gradient: of a task, from the gradients along its inner loop.
    """
    losses: list[Tensor] = []

    def compute_gradients() -> Tensor:
        gradient = outer_gradient(method, batch, losses, parts=parts, meta_gradient=meta_gradient)
        for name, parameter in method.model.named_parameters():
            parameter.grad = gradient[name]
        return torch.stack(losses).mean()

    return method.gradient_step(optimizer, compute_gradients)


def outer_gradient(
    method: Method,
    batch: Batch,
    losses: list[Tensor],
    *,
    parts: int,
    meta_gradient: Callable[[list[Weights]], Weights],
) -> Weights:
    """Return the tasks' meta-gradients, added up with their shares; `losses` collects the inner loops' losses."""
    s, task_map = method.settings, method.task_map
    assert isinstance(s, FirstOrderSettings)
    base = params.snapshot(method.model)

    def gradient(weights: Weights, part: Batch) -> Weights:
        return _gradient(method, weights, part, losses)

    gradients, shares = [], []
    for task in range(len(task_map)):
        group = (batch.tasks == task).nonzero().flatten()
        if not len(group):
            continue  # an inner loop without samples stays at the base
        path = path_gradients(base, map(batch.select, cut(group, parts)), gradient=gradient, lr=s.inner_lr)
        gradients.append(meta_gradient(path))
        shares.append(1 / len(task_map) if s.weighting == "tasks" else len(group) / len(batch.targets))
    return total(gradients, shares)


def _gradient(method: Method, weights: Weights, part: Batch, losses: list[Tensor]) -> Weights:
    s = method.settings
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}

    def logits_of(images: Tensor) -> Tensor:
        with method.context.autocast():
            logits: Tensor = functional_call(method.model, leaves, (images,))
        return logits

    with single_image_batch_norm(method.model, len(part.targets)):
        logits = in_shares(logits_of, part.images, part.share)
    loss = sample_losses(logits, part.targets, method.task_map, loss=s.loss, negatives=s.negatives).mean()
    losses.append(loss.detach())
    return averaged(dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True)))


def cut(group: Tensor, count: int) -> list[Tensor]:
    """Cut the positions of a task's samples into `count` parts as even as can be; empty ones are left out."""
    return [part for part in group.tensor_split(count) if len(part)]
