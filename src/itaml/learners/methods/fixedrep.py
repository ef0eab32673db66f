"""FixedRep: features fixed after the first task (a baseline of Rebuffi et al., iCaRL, CVPR 2017, section 4.1).

| symbol | here                                                             |
|--------|------------------------------------------------------------------|
| theta  | the backbone, trained in the first task only                     |
| w_y    | the head's row of class y, trained in the task that y is in only |

Differences from the paper: the loss is softmax cross-entropy over the columns of all classes seen, in which the fixed
old rows take part as constants; the paper trains sigmoid outputs. `loss="bce"` is the paper's. With `negatives="own"`
the rows of a task are trained among themselves, which keeps them from drowning the old ones.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from pydantic import model_validator
from torch import Tensor
from torch.optim import Optimizer

from itaml import params
from itaml.data.stream import Task
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.learners.settings import NoMemorySettings, TrainingSettings


class FixedRepSettings(NoMemorySettings):
    """Settings of fixed representations."""

    @model_validator(mode="after")
    def _without_distillation(self) -> Self:
        if self.distill:
            raise ValueError("fixedrep keeps features and old rows as they are: distillation cannot change them")
        return self


class FixedRep(Method):
    """Train features once, and then only the rows of new classes."""

    Settings: ClassVar[type[TrainingSettings]] = FixedRepSettings
    traits: ClassVar[Traits] = Traits(memory="none")
    saved: ClassVar[tuple[str, ...]] = ("fixed",)

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        self.fixed = 0  # rows of the head that are learned; once there are any, the backbone is fixed as well

    def begin_task(self, task: Task) -> None:
        """Fix what was learned before."""
        self.fixed = len(self.task_map.classes) - len(task.classes)

    def param_groups(self) -> list[Any]:
        """Return everything in the first task, and the head in later ones."""
        return list((self.model.head if self.fixed else self.model).parameters())

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take a step that leaves fixed features (batch-norm statistics too) and fixed rows to the bit as they were."""
        if not self.fixed:
            return super().step(batch, optimizer)
        self.model.backbone.eval().requires_grad_(False).zero_grad()  # no old gradient may count in the clipped norm
        before = params.snapshot(self.model.head)
        loss = super().step(batch, optimizer)
        with torch.no_grad():  # momentum and weight decay move rows without a gradient, so they are put back
            for name, value in self.model.head.named_parameters():
                value[: self.fixed] = before[name][: self.fixed]
        return loss
