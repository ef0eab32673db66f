"""LwF: learning without forgetting (Li and Hoiem, ECCV 2016, TPAMI 2018).

| symbol       | here                                                                |
|--------------|---------------------------------------------------------------------|
| Y_o          | the teacher's logits of the new data: `teacher_logits`              |
| lambda_o     | `strength`                                                          |
| T            | `temperature`                                                       |
| L_old, L_new | distillation on the old columns, classification                     |

Differences from the paper: the old columns of all tasks share one softmax, and the new classes compete with the old
ones in the classification loss, because here the task is not given at test time; `negatives="own"` keeps the
classification to the new columns, as in the paper. The paper first trains the new rows alone (a warm-up); here all
train at once.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.importance import Strength
from itaml.learners.components.teacher import distillation
from itaml.learners.method import Method
from itaml.learners.settings import NoMemorySettings, Temperature


class LwFSettings(NoMemorySettings):
    """Settings of LwF."""

    strength: Strength = 1.0  # lambda_o
    temperature: Temperature = 2.0  # T


class LwF(Method):
    """Keep the outputs for old classes as they were, on the new data."""

    Settings: ClassVar[type[LwFSettings]] = LwFSettings
    settings: LwFSettings
    traits: ClassVar[Traits] = Traits(memory="none", needs_teacher=True)

    def loss(self, batch: Batch) -> Tensor:
        """Return lambda_o * L_old (eq. 2) + L_new (eq. 1)."""
        new = super().loss(batch)
        if not self.recipe.teacher:
            return new
        old = self.logits(batch)[:, : self.recipe.teacher.columns]
        distilled = distillation(old, self.recipe.teacher_logits(batch), temperature=self.settings.temperature)
        return self.settings.strength * distilled.mean() + new
