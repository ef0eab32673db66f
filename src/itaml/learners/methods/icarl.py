"""iCaRL: incremental classifier and representation learning (Rebuffi, Kolesnikov, Sperl and Lampert, CVPR 2017).

| symbol | here                                                                                    |
|--------|-----------------------------------------------------------------------------------------|
| phi(x) | features, scaled to unit length                                                         |
| mu_y   | `_means`: mean of the features of the exemplars of class y, scaled to unit length       |
| P_y    | exemplars of y, in the order of herding (Algorithm 4: `memory.selection.herding_order`) |
| g_y(x) | sigmoid of a logit                                                                      |
| q_y    | the same of the teacher, the network before the task                                    |
| K, m   | `memory`, and the share of it that each class has                                       |

Differences from the paper: the loss is the mean over columns instead of their sum, so that a rate fits
tasks of any size. Shares of exemplars differ by at most one. While a task is under way its new classes have no
exemplars: they are not named, and before any exemplars the network itself predicts. More images of known classes,
without a new class among them, are learned with their labels alone.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor

from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.method import Method
from itaml.learners.settings import MemorySettings
from itaml.losses import Loss


class ICaRLSettings(MemorySettings):
    """Settings of iCaRL."""

    selection: Literal["random", "herding", "first"] = "herding"
    loss: Loss = "bce"

    @model_validator(mode="after")
    def _named_by_means(self) -> Self:
        if self.adapt_steps:
            raise ValueError(
                "icarl names classes by exemplar means, not by a head that could adapt: adapt_steps must be 0"
            )
        if self.flip_tta or self.shift_tta:
            raise ValueError(
                "icarl names classes by distances, not by scores to be averaged: flip_tta and shift_tta must be off"
            )
        if self.align_head:
            raise ValueError("icarl names classes by exemplar means, not by a head: align_head must be 0")
        if self.loss != "bce" or self.negatives != "seen":
            raise ValueError("icarl is defined with loss=bce and negatives=seen")
        return self


class ICaRL(Method):
    """Exemplars by herding, distillation with sigmoids, the nearest mean of exemplars."""

    Settings: ClassVar[type[ICaRLSettings]] = ICaRLSettings
    settings: ICaRLSettings
    traits: ClassVar[Traits] = Traits(needs_teacher=True)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of Algorithm 3: the labels for new classes, the teacher's probabilities for old ones."""
        logits, old = self.logits(batch), self.recipe.teacher.columns
        truth = F.one_hot(batch.targets, logits.shape[1]).to(logits.dtype)
        if 0 < old < logits.shape[1]:
            truth[:, :old] = self.recipe.teacher_logits(batch).sigmoid()  # q_y
        return F.binary_cross_entropy_with_logits(logits, truth)

    def class_scores(self, images: Tensor) -> Tensor:
        """Return minus the distance to each class's mean of exemplars (Algorithm 1; eq. 2); -inf without exemplars."""
        if not len(self.memory):
            return super().class_scores(images)
        means, known = self.predictor.cached("means", self._means)
        distances = torch.cdist(F.normalize(self.predictor.features(images), dim=1), means)
        return (-distances).masked_fill(~known, float("-inf"))

    def _means(self) -> tuple[Tensor, Tensor]:
        """Return mu of each column (columns, d), and which columns have exemplars (columns,)."""
        means = torch.zeros(len(self.task_map.classes), self.model.head.weight.shape[1])
        known = torch.zeros(len(means), dtype=torch.bool)
        for column, class_id in enumerate(self.task_map.classes):
            exemplars = self.memory.exemplars([class_id])
            if exemplars is not None:
                mean = F.normalize(self.predictor.features(exemplars.load()[0]), dim=1).mean(0)
                means[column], known[column] = F.normalize(mean, dim=0), True
        return means, known
