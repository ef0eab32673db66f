"""What Reptile and FOMAML share: an inner loop for each task of a mini-batch, over all weights, and an outer step.

A mini-batch is grouped by task, and each task's samples are cut into disjoint parts, one a step. A task with fewer
samples than parts takes fewer steps. The meta-gradients are added up with the tasks' shares and handed to the optimiser
of the settings, which takes the outer step.

Batch-norm statistics move with every forward pass of the inner loops, and are not put back.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.func import functional_call
from torch.optim import Optimizer

from itaml import params
from itaml.learners.base import SgdLearner
from itaml.learners.batch import Batch
from itaml.learners.settings import Count, Positive, SgdSettings
from itaml.meta.first_order import path_gradients, total
from itaml.meta.inner import MicroBatch, micro_batches, normalized_alone
from itaml.meta.loss import sample_losses
from itaml.params import Weights


class FirstOrderSettings(SgdSettings):
    """Settings of Reptile and FOMAML; `lr` is the rate of the outer step."""

    inner_steps: Count = 1  # r, called k by Nichol et al.
    inner_lr: Positive = 0.1  # alpha
    weighting: Literal["samples", "tasks"] = "samples"  # a task's share: that of its samples in the batch, or equal


class FirstOrderLearner(SgdLearner):
    """Meta-gradients of inner loops that move all weights."""

    Settings: ClassVar[type[FirstOrderSettings]] = FirstOrderSettings
    settings: FirstOrderSettings

    def parts(self) -> int:
        """Return into how many parts a task's samples are cut."""
        raise NotImplementedError

    @property
    def compiles(self) -> bool:
        """Inner loops run on copies of the weights."""
        return False

    def meta_gradient(self, slopes: list[Weights]) -> Weights:
        """Return the meta-gradient of a task from the gradients along its inner loop."""
        raise NotImplementedError

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take one outer step."""
        losses: list[Tensor] = []
        slope = self.outer_gradient(batch, losses)
        optimizer.zero_grad()
        for name, parameter in self.model.named_parameters():
            parameter.grad = slope[name]
        self.clip_gradients()
        optimizer.step()
        return torch.stack(losses).mean()

    def outer_gradient(self, batch: Batch, losses: list[Tensor]) -> Weights:
        """Return the tasks' meta-gradients, added up with their shares; `losses` collects the inner loops' losses."""
        base = params.snapshot(self.model)
        slopes, shares = [], []
        for group in micro_batches(batch.images, batch.targets, self.table):
            if not len(group.targets):
                continue  # an inner loop without samples stays at the base

            def gradient(weights: Weights, part: MicroBatch) -> Weights:
                return self._gradient(weights, part, losses)

            path = path_gradients(base, cut(group, self.parts()), gradient=gradient, lr=self.settings.inner_lr)
            slopes.append(self.meta_gradient(path))
            equal = self.settings.weighting == "tasks"
            shares.append(1 / len(self.table) if equal else len(group.targets) / len(batch.targets))
        return total(slopes, shares)

    def _gradient(self, weights: Weights, part: MicroBatch, losses: list[Tensor]) -> Weights:
        s = self.settings
        leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
        with normalized_alone(self.model, len(part.targets)), self.autocast():
            logits = functional_call(self.model, leaves, (part.images,))
        loss = sample_losses(logits, part.targets, self.table, loss=s.loss, negatives=s.negatives).mean()
        losses.append(loss.detach())
        return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def cut(group: MicroBatch, count: int) -> list[MicroBatch]:
    """Cut a task's samples into `count` disjoint parts as even as can be; empty ones are left out."""
    pairs = zip(group.images.tensor_split(count), group.targets.tensor_split(count), strict=True)
    return [MicroBatch(group.task, images, targets) for images, targets in pairs if len(targets)]
