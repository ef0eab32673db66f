"""iCaRL: incremental classifier and representation learning (Rebuffi, Kolesnikov, Sperl and Lampert, CVPR 2017).

| symbol   | here                                                                                  |
|----------|---------------------------------------------------------------------------------------|
| phi(x)   | features, scaled to unit length                                                       |
| mu_y     | `means`: mean of the features of the exemplars of class y, scaled to unit length      |
| P_y      | exemplars of y, in the order of herding (Algorithm 4: `memory.select.herding_order`)  |
| g_y(x)   | sigmoid of a logit                                                                    |
| q_y      | the same of the teacher, the network before the task                                  |
| K, m     | `memory`, and the share of it that each class has                                     |

Differences from the paper: the loss is the mean over columns instead of their sum, so that a rate fits
tasks of any size. Shares of exemplars differ by at most one. While a task is under way its new classes have no
exemplars: they are not named, and before any exemplars the network itself answers. More pictures of known classes,
without a new class among them, are learned with their labels alone.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor

from itaml.learners.batch import Batch
from itaml.learners.distill import DistillingLearner
from itaml.learners.settings import MemorySettings
from itaml.meta.loss import Loss


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
        if self.mirror:
            raise ValueError("icarl names classes by distances, not by scores to be averaged: mirror must be off")
        if self.loss != "bce" or self.negatives != "seen":
            raise ValueError("icarl is defined with loss=bce and negatives=seen")
        return self


class ICaRL(DistillingLearner):
    """Exemplars by herding, distillation with sigmoids, the nearest mean of exemplars."""

    Settings: ClassVar[type[ICaRLSettings]] = ICaRLSettings
    settings: ICaRLSettings
    _means: Tensor | None = None

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of Algorithm 3: right answers for new classes, the teacher's for old ones."""
        logits = self.forward(batch.images)
        truth = F.one_hot(batch.targets, logits.shape[1]).to(logits.dtype)
        if self.teacher is not None and self.teacher.columns < logits.shape[1]:
            truth[:, : self.teacher.columns] = self.taught(batch.images).sigmoid()  # q_y
        return F.binary_cross_entropy_with_logits(logits, truth)

    def class_scores(self, images: Tensor) -> Tensor:
        """Return minus the distance to each class's mean of exemplars (Algorithm 1; eq. 2)."""
        means = self.means()
        if means is None:
            return super().class_scores(images)
        return -torch.cdist(F.normalize(self.features(images), dim=1), means)

    def means(self) -> Tensor | None:
        """Return mu of each column (columns, d), computed once; infinite for a class without exemplars."""
        if self._means is None and len(self.memory):
            rows = []
            for class_id in self.table.classes:
                exemplars = self.memory.exemplars([class_id])
                if exemplars is None:
                    rows.append(torch.full((self.model.head.weight.shape[1],), float("inf")))
                else:
                    mean = F.normalize(self.features(exemplars.load()[0]), dim=1).mean(0)
                    rows.append(F.normalize(mean, dim=0))
            self._means = torch.stack(rows)
        return self._means

    def forget_adaptations(self) -> None:
        """Drop the means as well: they follow from the weights and the exemplars, which are about to change."""
        super().forget_adaptations()
        self._means = None
