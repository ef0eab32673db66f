"""FixedRep: features fixed after the first task (a baseline of Rebuffi et al., iCaRL, CVPR 2017, section 4.1).

| symbol | here                                                            |
|--------|-----------------------------------------------------------------|
| theta  | the backbone, trained in the first task only                    |
| w_y    | the head's row of class y, trained in the task that y is in only |

Differences from the paper: the loss is softmax cross-entropy over the columns of all classes seen, in which the fixed
old rows take part as constants; the paper trains sigmoid outputs. `loss="bce"` is the paper's. With `negatives="own"`
the rows of a task are trained among themselves, which keeps them from drowning the old ones.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from itaml import params
from itaml.data.images import ClassId
from itaml.data.stream import Task
from itaml.errors import SettingsError
from itaml.learners.base import SgdLearner
from itaml.learners.batch import Batch
from itaml.learners.settings import NoMemorySettings, SgdSettings
from itaml.storage import State


class FixedRep(SgdLearner):
    """Train features once, and then only the rows of new classes."""

    Settings: ClassVar[type[SgdSettings]] = NoMemorySettings
    uses_memory: ClassVar[bool] = False
    fixed = 0  # rows of the head that are learned; once there are any, the backbone is fixed as well

    def check_classes(self, index: int, classes: tuple[ClassId, ...]) -> None:
        """Refuse a task of one class whose row would have nothing to be told from."""
        if self.settings.negatives == "own" and len(classes) == 1:
            raise SettingsError(
                f"task {index} has a single class, which negatives=own cannot train; use negatives=seen"
            )

    def begin_task(self, task: Task) -> None:
        """Fix what was learned before, and grow the head."""
        self._fix(len(self.table.classes))
        super().begin_task(task)

    def _fix(self, rows: int) -> None:
        self.fixed = rows
        self.model.backbone.requires_grad_(rows == 0)
        self.model.backbone.zero_grad()  # the last gradients must not count when gradients are clipped

    def trainable(self) -> list[Any]:
        """Return everything in the first task, and the head in later ones."""
        return list((self.model.head if self.fixed else self.model).parameters())

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take a step that leaves fixed features (batch-norm statistics too) and fixed rows to the bit as they were."""
        if not self.fixed:
            return super().step(batch, optimizer)
        self.model.backbone.eval()
        before = params.snapshot(self.model.head)
        loss = super().step(batch, optimizer)
        with torch.no_grad():  # momentum and weight decay move rows without a gradient, so they are put back
            for name, value in self.model.head.named_parameters():
                value[: self.fixed] = before[name][: self.fixed]
        return loss

    def extra_state(self) -> State:
        """Return how many rows are fixed."""
        return {"fixed": self.fixed}

    def load_extra_state(self, state: State) -> None:
        """Fix as many rows as before."""
        self._fix(state["fixed"])
