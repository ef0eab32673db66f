"""LwF: learning without forgetting (Li and Hoiem, ECCV 2016, TPAMI 2018).

| symbol       | here                                                                |
|--------------|---------------------------------------------------------------------|
| Y_o          | the teacher's logits of the new data: `taught`                      |
| lambda_o     | `strength`                                                          |
| T            | `temperature`                                                       |
| L_old, L_new | distillation on the old columns, classification                     |

Differences from the paper: the old columns of all tasks share one softmax, and the new classes compete with the old
ones in the classification loss, because here nobody tells the task at test time; `negatives="own"` keeps the
classification to the new columns, as in the paper. The paper first trains the new rows alone (a warm-up); here all
train at once.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from itaml.learners.batch import Batch
from itaml.learners.distill import DistillingLearner, Temperature, distillation
from itaml.learners.importance import Strength
from itaml.learners.settings import NoMemorySettings


class LwFSettings(NoMemorySettings):
    """Settings of LwF."""

    strength: Strength = 1.0  # lambda_o
    temperature: Temperature = 2.0  # T


class LwF(DistillingLearner):
    """Answer about old classes as before, on the new data."""

    Settings: ClassVar[type[LwFSettings]] = LwFSettings
    settings: LwFSettings
    uses_memory: ClassVar[bool] = False

    def loss(self, batch: Batch) -> Tensor:
        """Return lambda_o * L_old (eq. 2) + L_new (eq. 1)."""
        logits = self.forward(batch.images)
        new = self.sample_losses(logits, batch).mean()
        if self.teacher is None:
            return new
        columns, s = self.teacher.columns, self.settings
        old = distillation(logits[:, :columns], self.taught(batch.images), temperature=s.temperature)
        return s.strength * old.mean() + new
