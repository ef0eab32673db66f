"""GEM: gradient episodic memory (Lopez-Paz and Ranzato, NeurIPS 2017).

| symbol | here                                                                   |
|--------|------------------------------------------------------------------------|
| M_k    | the exemplars of task k                                                |
| g      | gradient of the batch's loss                                           |
| g_k, G | gradients of the losses of the memories, one row for each earlier task |
| g~     | the gradient nearest to g that raises no memory's loss, to first order |
| v      | the dual's variables, one per memory                                   |
| gamma  | `margin`, added to v, which favours the memories                       |

Differences from the paper:

* The memory is the budget that all learners here have, shared equally by all classes and chosen at random; the paper
  keeps the last images of each task and gives a task its share from the start.
* The paper tells the task at test time and trains its columns only; here the loss runs over all classes seen.
* The paper looks at whole memories in every step; `memory_batch` looks at a random part of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from scipy.optimize import nnls
from torch import Tensor
from torch.optim import Optimizer

from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.method import Method
from itaml.learners.settings import MemorySettings
from itaml.optimizers import copy_in_layout


class GEMSettings(MemorySettings):
    """Settings of GEM."""

    margin: Annotated[float, Field(ge=0)] = 0.5  # gamma
    memory_batch: Annotated[int, Field(ge=0)] = 0  # images of each memory per step; 0 is all


class GEM(Method):
    """Step along the gradient that is nearest to the new data's and does not increase the loss of any memory."""

    Settings: ClassVar[type[GEMSettings]] = GEMSettings
    settings: GEMSettings
    traits: ClassVar[Traits] = Traits(rehearses=False)  # memories are constraints, never training data

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Step along g~ (Algorithm 1)."""
        return self.gradient_step(optimizer, lambda: self._projected_gradients(batch))

    def _projected_gradients(self, batch: Batch) -> Tensor:
        memories = [self._gradient(self._part(memory), self.loss)[0] for memory in self._memories()]  # g_k
        gradient, loss = self._gradient(batch, self.total_loss)
        if memories:
            gradient = project(gradient, torch.stack(memories), margin=self.settings.margin)
        self._write(gradient)
        return loss

    def _memories(self) -> list[Batch]:
        """Return the exemplars of each earlier task, read once per task."""
        return self.predictor.cached("memories", self._read_memories)

    def _read_memories(self) -> list[Batch]:
        parts = [self.memory.exemplars(classes) for classes in self.task_map.tasks]
        return [self.context.make_batch(*part.load()) for part in parts if part is not None]

    def _part(self, memory: Batch) -> Batch:
        """Return a random part of a memory, drawn from the generator that the epoch is seeded with."""
        limit = self.settings.memory_batch
        if not limit or limit >= len(memory.targets):
            return Batch(memory.images, memory.targets, memory.tasks)
        return memory.select(torch.randperm(len(memory.targets))[:limit].to(memory.targets.device))

    def _gradient(self, batch: Batch, loss: Callable[[Batch], Tensor]) -> tuple[Tensor, Tensor]:
        """Return the gradient of a batch's loss, as one vector, and the loss."""
        self.model.zero_grad()
        value = self.backward(loss(batch))
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.model.parameters()]
        return torch.cat([part.flatten() for part in parts]), value.detach()

    def _write(self, gradient: Tensor) -> None:
        parameters = list(self.model.parameters())
        parts = torch.split(gradient, [p.numel() for p in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = copy_in_layout(part.reshape(parameter.shape), parameter)


def project(gradient: Tensor, memories: Tensor, *, margin: float = 0.0) -> Tensor:
    """Return the vector g~ nearest to `gradient` (d,) whose product with no row of `memories` (k, d) is negative.

    The dual (eq. 11) is min over v >= 0 of |G' v + g|**2 / 2: a least-squares problem with non-negative variables,
    which has the size of the number of memories after a Cholesky factorisation of G G'. The margin is added to v.
    """
    products = memories @ gradient
    if bool((products >= 0).all()):
        return gradient  # the constraints hold already
    # Rows of unit length (v scales along), so that the small ridge means the same for every memory.
    lengths = memories.double().norm(dim=1).clamp_min(1e-30)
    rows = memories.double() / lengths[:, None]
    gram = (rows @ rows.T).cpu().numpy() + 1e-9 * np.eye(len(rows))
    linear = (rows @ gradient.double()).cpu().numpy()
    factor = np.linalg.cholesky(gram).T  # R with R' R = G G'
    dual, _ = nnls(factor, -np.linalg.solve(factor.T, linear))
    v = torch.as_tensor(dual, device=rows.device) + margin * lengths
    nearest: Tensor = gradient.double() + rows.T @ v  # g~ = G' v + g
    return nearest.to(gradient.dtype)
